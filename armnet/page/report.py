"""The report page of ``armnet inspect --html``: one file that needs no network, no script and no trust.

Its own script only sorts and searches.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Sequence

from armnet.page import arena as page_arena
from armnet.page import graph as page_graph
from armnet.page.document import document
from armnet.page.elements import FAMILIES, bar, cards, family, key, named, table, text
from armnet.page.script import SCRIPT
from armnet.page.timeline import Timeline
from runtime_arm.app.display import count, shape_text, size
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair

LARGEST = 12  # how many of the largest blobs are listed


def render(title: str, pair: Pair, facts: Dict[str, Any], timeline: Timeline) -> str:
    """The page, HTML 5. ``facts`` is what ``armnet inspect --json`` prints."""
    body = "".join(
        [
            _head(title, pair, facts, timeline),
            _arena(facts, timeline),
            '<div class="two">',
            _largest(timeline),
            _engines(facts),
            "</div>",
            _operators(pair.inputs, facts),
        ]
    )
    return document(title, body, footer=". Sizes are powers of ten.", script=SCRIPT)


def _head(title: str, pair: Pair, facts: Dict[str, Any], timeline: Timeline) -> str:
    figures = [
        (str(len(pair.predict_net.op)), "operators"),
        (count(facts["parameters"]), "parameters"),
        (count(facts["multiply_adds"]), "multiply-adds"),
        (size(facts["weights_nbytes"]), "weights"),
        (size(timeline.arena_nbytes), f"arena: {timeline.verdict()}"),
        (size(timeline.largest_scratch()), "of the arena is scratch memory, at most"),
    ]
    ends = " \u2192 ".join(
        ", ".join(text(f"{info.name} {info.shape_text()}") for info in infos) for infos in (pair.inputs, pair.outputs)
    )
    return f'<h1>{text(title)}</h1><p class="name">{ends}</p>{cards((value.strip(), what) for value, what in figures)}'


def _arena(facts: Dict[str, Any], timeline: Timeline) -> str:
    steps = [row for row in facts["operators"] if row["engine"] != "?"]
    names = [f"{row['type']} {row['output']}" for row in steps]
    legend = key(
        [
            ("var(--input)", "input"),
            ("hsl(150 52% var(--light))", "blobs, each in its own colour"),
            ("var(--scratch)", "hatched: scratch memory of an operator"),
            ("var(--ink)", "line: bytes in use"),
        ]
    )
    return (
        "<h2>The arena over time</h2><p>Each block is memory that one blob, or several one after another, occupy "
        f"during some steps. Point at a block to see its name.</p>{legend}"
        f'<div class="panel">{page_arena.picture(timeline, names)}</div>'
    )


def _largest(timeline: Timeline) -> str:
    blobs = [block for block in timeline.blocks if block.kind != "scratch"]
    blocks = sorted(blobs, key=lambda block: -block.nbytes)[:LARGEST]
    most = max((block.nbytes for block in blocks), default=1) or 1
    rows = [
        [
            named(block.names[0] if block.names else "?") + _others(len(block.names)),
            f"{block.first}\u2013{block.last}" if block.last > block.first else str(block.first),
            size(block.nbytes),
            bar(block.nbytes / most, width=80),
        ]
        for block in blocks
    ]
    shown = table(["blob", "steps", "bytes", " "], rows, right=["steps", "bytes"])
    return f'<section><h2>Largest blobs</h2><div class="panel">{shown}</div></section>'


def _others(names: int) -> str:
    return f' <span class="tag" title="more blobs that share this memory">+{names - 1}</span>' if names > 1 else ""


def _engines(facts: Dict[str, Any]) -> str:
    engines: Dict[str, List[int]] = {}
    for row in facts["operators"]:
        sums = engines.setdefault(row["engine"], [0, 0])
        sums[0] += 1
        sums[1] += row["multiply_adds"]
    total = sum(sums[1] for sums in engines.values()) or 1
    rows = [
        [text(engine), str(operators), count(adds), f"{adds / total:.0%}", bar(adds / total, width=80)]
        for engine, (operators, adds) in sorted(engines.items(), key=lambda item: (-item[1][1], -item[1][0]))
    ]
    shown = table(
        ["engine", "operators", "multiply-adds", "share", " "], rows, right=["operators", "multiply-adds", "share"]
    )
    return f'<section><h2>Engines</h2><div class="panel">{shown}</div></section>'


def _operators(inputs: Sequence[TensorInfo], facts: Dict[str, Any]) -> str:
    graph = page_graph.picture(page_graph.nodes_of(facts["operators"], [info.name for info in inputs]))
    timed = any(row.get("ms") is not None for row in facts["operators"])
    columns = ["step", "operator", "engine", "output", "shape", "parameters", "multiply-adds", "bytes", "live"]
    columns[8:8] = ["ms"] if timed else []
    head = "".join(f"<th{_right(name)}><button>{name}</button></th>" for name in columns)
    rows = [*(_input_row(info, columns) for info in inputs), *_operator_rows(facts, columns)]
    legend = key((f"var(--{name})", meaning) for name, meaning in FAMILIES.items())
    search = (
        '<p class="search" hidden><input id="search" type="search" placeholder="search operators, engines, blobs" '
        'aria-label="search"> <span id="found"></span></p>'
    )
    return (
        f'<h2>Graph and operators</h2>{legend}{search}<div class="panel graphed"><div class="lanes">{graph}</div>'
        f'<table class="operators"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


_NUMBERS = ("step", "parameters", "multiply-adds", "bytes", "ms")


def _right(column: str) -> str:
    return ' class="right"' if column in _NUMBERS else ""


def _row(columns: Sequence[str], cells: Mapping[str, str], numbers: Mapping[str, Any], words: str) -> str:
    """A row: HTML by column; numbers to sort by; the words that the reader can search."""
    made = []
    for column in columns:
        number = f' data-n="{float(numbers[column]):g}"' if numbers.get(column) is not None else ""
        made.append(f"<td{_right(column)}{number}>{cells.get(column, '')}</td>")
    return f'<tr data-words="{text(words)}">{"".join(made)}</tr>'


def _input_row(info: TensorInfo, columns: Sequence[str]) -> str:
    cells = {"operator": "input", "output": named(info.name), "shape": text(info.shape_text())}
    return _row(columns, cells, dict.fromkeys((*_NUMBERS, "live"), -1), f"input {info.name}")


def _operator_rows(facts: Dict[str, Any], columns: Sequence[str]) -> Iterator[str]:
    live = facts["memory"]["live_nbytes"]
    most = max(live, default=1) or 1
    for step, row in enumerate(facts["operators"]):
        refused = "&#10;".join(text(f"{engine} refused: {reason}") for engine, reason in row["refused"].items())
        tip = f' title="{refused}"' if refused else ""
        now = live[step] if step < len(live) and row["engine"] != "?" else 0
        ms = row.get("ms")
        cells = {
            "step": str(step),
            "operator": f'<span style="color:var(--{family(row["type"])})">{text(row["type"])}</span>',
            "engine": f'<span class="tag"{tip}>{text(row["engine"])}</span>',
            "output": named(row["output"]),
            "shape": text(shape_text(row["shape"])),
            "parameters": count(row["parameters"]) if row["parameters"] else "",
            "multiply-adds": count(row["multiply_adds"]) if row["multiply_adds"] else "",
            "bytes": size(row["nbytes"]) if row["nbytes"] else "",
            "ms": "" if ms is None else f"{ms:.3f}",
            "live": bar(now / most, width=24) + f' <span class="faint">{size(now)}</span>' if now else "",
        }
        numbers = {"step": step, "parameters": row["parameters"], "multiply-adds": row["multiply_adds"]}
        numbers.update({"bytes": row["nbytes"], "live": now, "ms": -1 if ms is None else ms})
        yield _row(columns, cells, numbers, f"{row['type']} {row['engine']} {row['output']}")
