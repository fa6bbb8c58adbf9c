"""Elements of the report page. All text that comes from a file passes through ``text``."""

from __future__ import annotations

from html import escape
from typing import Any, Iterable, Sequence, Tuple

LONGEST = 120  # characters; longer names are shortened
NARROW = 26  # characters of a name in a table

_FAMILIES = (
    ("conv", ("Conv",)),
    ("pool", ("Pool",)),
    ("norm", ("Norm", "BN", "LRN")),
    ("matmul", ("FC", "MatMul", "Gemm", "LSTM", "GRU", "RNN")),
    ("activation", ("Relu", "Sigmoid", "Tanh", "Swish", "Softmax", "Clip", "Elu", "Gelu", "Erf", "Activation")),
    (
        "movement",
        (
            "Concat",
            "Split",
            "Slice",
            "Reshape",
            "Flatten",
            "Transpose",
            "Squeeze",
            "Pad",
            "Tile",
            "Gather",
            "Resize",
            "Upsample",
            "Copy",
            "Identity",
            "Expand",
            "ExpandDims",
            "Layout",
        ),
    ),
    ("elementwise", ("Add", "Sub", "Mul", "Div", "Sum", "Max", "Min", "Pow", "Sqrt", "Exp", "Scale")),
)
FAMILIES = {
    "conv": "convolution",
    "matmul": "matrix product",
    "pool": "pooling",
    "norm": "normalisation",
    "activation": "activation",
    "elementwise": "elementwise",
    "movement": "data movement",
    "other": "other",
}


def text(content: Any, most: int = LONGEST) -> str:
    """Text that is safe between tags and in quoted attributes: escaped, shortened, without unprintable characters."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in shortened(str(content), most))
    return escape(shown)


def cards(values: Iterable[Tuple[str, str]]) -> str:
    """Figures in a row, each with what it is."""
    shown = [f'<div class="card"><b>{text(value)}</b><span>{text(what)}</span></div>' for value, what in values]
    return f'<div class="cards">{"".join(shown)}</div>'


def notes(lines: Iterable[str], most: int = LONGEST) -> str:
    """What is to be noted; nothing if there are no lines."""
    listed = "".join(f"<li>{text(line, most)}</li>" for line in lines)
    return f"<h2>Notes</h2><ul>{listed}</ul>" if listed else ""


def shortened(name: str, most: int) -> str:
    """The name with at most this number of characters. Characters are removed from the middle, because names that begin
    alike differ at their ends.
    """
    if len(name) <= most:
        return name
    start = (most - 1) * 2 // 5
    return f"{name[:start]}\u2026{name[start + 1 - most :]}"


def named(content: Any) -> str:
    """A name in a table: shortened, with the whole name shown when the reader points at it."""
    name = str(content)
    whole = f' title="{text(name)}"' if len(name) > NARROW else ""
    return f'<span class="name"{whole}>{text(shortened(name, NARROW))}</span>'


def family(operator: str) -> str:
    """The family of an operator type, which decides its colour."""
    for name, stems in _FAMILIES:
        if any(stem in operator for stem in stems):
            return name
    return "other"


def key(colours: Iterable[Sequence[str]]) -> str:
    """A legend of (colour, meaning) pairs."""
    marks = "".join(f'<span><i style="background:{colour}"></i>{text(meaning)}</span>' for colour, meaning in colours)
    return f'<div class="key">{marks}</div>'


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), style: str = "") -> str:
    """A table whose cells are HTML already; columns named in ``right`` are aligned to the right."""
    kinds = [' class="right"' if column in right else "" for column in columns]
    head = "".join(f"<th{kind}>{text(column)}</th>" for column, kind in zip(columns, kinds))
    body = "".join(f"<tr>{''.join(f'<td{kind}>{cell}</td>' for cell, kind in zip(row, kinds))}</tr>" for row in rows)
    return f'<table class="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def bar(share: float, colour: str = "var(--accent)", width: int = 120) -> str:
    return f'<span class="bar" style="width:{max(1.0, share * width):.1f}px;background:{colour}"></span>'
