"""Numbers, tables and texts for people."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

_DEEP = " " * 12  # before a line that continues the second column of the line above


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Sequence[str] = ()) -> str:
    """Lines with aligned columns; columns named in ``right`` are aligned to the right."""
    cells = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    cells.insert(1, ["-" * width for width in widths])

    def line(texts: List[str]) -> str:
        padded = [text.rjust(w) if name in right else text.ljust(w) for text, w, name in zip(texts, widths, columns)]
        return "  ".join(padded).rstrip()

    return "\n".join(map(line, cells))


def count(number: float) -> str:
    """1234567 as ``1.23 M``."""
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number:.3g} "


def size(nbytes: float) -> str:
    """1234567 as ``1.23 MB`` (powers of ten)."""
    return f"{count(nbytes)}B"


def shape_text(shape: Optional[Sequence[Any]]) -> str:
    """(1, 3, 224, 224) as ``1x3x224x224``; ``?`` for an unknown size or shape."""
    if shape is None:
        return "?"
    return "x".join("?" if n is None else str(n) for n in shape) or "scalar"


def fitted(text: str, width: int) -> str:
    """The text for a terminal of this many columns; a text that fits is returned as it is.

    Sentences are refilled. In a line of two columns, such as a command and its description, the second is wrapped to
    the right of the first if that is short, else below it.
    """
    if all(len(line) <= width for line in text.splitlines()):
        return text
    lines: List[str] = []
    for line in text.splitlines():
        above = lines[-1] if lines and line else ""
        if above and line.startswith(_DEEP):
            lines[-1] += (" " if "  " in above.strip() else "  ") + line.strip()
        elif above and above[0] != " " != line[0] and above[-1] != ":" and "  " not in above + line:
            lines[-1] += " " + line
        else:
            lines.append(line)
    return "\n".join(part for line in lines for part in _wrapped(line, width))


def _wrapped(line: str, width: int) -> List[str]:
    from textwrap import TextWrapper

    def fill(text: str, before: str, beneath: int) -> List[str]:
        wrapper = TextWrapper(
            width,
            initial_indent=before,
            subsequent_indent=" " * beneath,
            break_on_hyphens=False,
            break_long_words=False,
        )
        return wrapper.wrap(text)

    if len(line) <= width:
        return [line]
    indent = len(line) - len(line.lstrip())
    first, _, second = line.strip().partition("  ")
    second = second.strip()
    start = len(line.rstrip()) - len(second)
    if second and start <= width // 2:
        return fill(second, line[:start], start)
    deeper = indent + 4 if indent else 0
    return [*fill(first, " " * indent, deeper), *fill(second, " " * (indent + 4), indent + 4)]
