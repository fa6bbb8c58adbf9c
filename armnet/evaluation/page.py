"""The page of what went wrong: one file that needs no network and no script."""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping, Sequence

from armnet.evaluation.evaluate import Evaluation, Result
from armnet.evaluation.example import Example, Fault, Finding
from armnet.evaluation.pictures import data_uri
from armnet.page.document import document
from armnet.page.elements import table, text

MOST_PICTURES = 60
MOST_LINES = 200  # faults behind those with pictures, which are listed
WIDEST = 40  # classes of a confusion matrix that is shown whole

_STYLE = """
.faults { display: grid; grid-template-columns: repeat(auto-fill, minmax(256px, 1fr)); gap: 12px; }
.fault { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px; }
.fault .pictures { display: flex; gap: 6px; flex-wrap: wrap; }
.fault figure { margin: 0; } .fault figcaption { color: var(--faint); font-size: 11px; }
.fault img { max-width: 100%; border-radius: 4px; display: block; }
.fault .name { overflow-wrap: anywhere; font-size: 12px; color: var(--faint); }
.fault .truth { color: var(--activation); } .fault .said { color: var(--alarm); }
table.confusion td, table.confusion th { text-align: center; padding: 3px 5px; font-size: 12px; }
table.confusion th.side { text-align: right; }
table.confusion th { max-width: 12em; overflow-wrap: anywhere; }
"""


def render(title: str, evaluation: Evaluation) -> str:
    """The page, HTML 5."""
    first = evaluation.results[0]
    body = "".join(
        [_head(title, evaluation), _places(evaluation), _confusion(first), _faults(evaluation), _classes(first)]
    )
    return document(title, body, style=_STYLE, pictures=True)


def _head(title: str, evaluation: Evaluation) -> str:
    first = evaluation.results[0]
    cards = [*((f"{value:.2%}", name) for name, value in first.metrics.items())]
    cards += [(str(len(first.findings)), "examples"), (str(len(first.skipped)), "skipped")]
    shown = "".join(f'<div class="card"><b>{text(value)}</b><span>{text(what)}</span></div>' for value, what in cards)
    return f'<h1>{text(title)}</h1><p class="name">{text(evaluation.data.what)}</p><div class="cards">{shown}</div>'


def _places(evaluation: Evaluation) -> str:
    """What the other places answer otherwise."""
    if len(evaluation.results) < 2:
        return ""
    metrics = list(dict.fromkeys(name for result in evaluation.results for name in result.metrics))
    rows = [
        [
            text(result.place),
            *(f"{result.metrics[name]:.2%}" if name in result.metrics else "" for name in metrics),
            str(len(result.differing)),
            text(", ".join(evaluation.data.examples[number].name for number in result.differing)),
        ]
        for result in evaluation.results
    ]
    columns = ["place", *metrics, "differ", "which"]
    return f'<h2>Places</h2><div class="panel">{table(columns, rows, right=[*metrics, "differ"])}</div>'


def _confusion(result: Result) -> str:
    if result.scores.confusion is None:
        return ""
    names, counts = result.scores.confusion
    shown = _matrix(names, counts) if len(names) <= WIDEST else _pairs(names, counts)
    return f'<h2>What is taken for what</h2><p>True class down, answer across.</p><div class="panel">{shown}</div>'


def _matrix(names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    head = "".join(f"<th>{text(name)}</th>" for name in names)
    body = []
    for i, (name, row) in enumerate(zip(names, counts)):
        cells = "".join(_cell(count, sum(row), i == j) for j, count in enumerate(row))
        body.append(f'<tr><th class="side">{text(name)}</th>{cells}</tr>')
    return f'<table class="confusion"><thead><tr><th></th>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'


def _cell(count: int, total: int, right: bool) -> str:
    if not count:
        return "<td></td>"
    colour = "var(--activation)" if right else "var(--alarm)"
    share = 12 + 58 * count / total
    return f'<td style="background:color-mix(in srgb, {colour} {share:.0f}%, transparent)">{count}</td>'


def _pairs(names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """The pairs of classes that are confused most."""
    pairs = [(count, i, j) for i, row in enumerate(counts) for j, count in enumerate(row) if i != j and count]
    pairs.sort(key=lambda pair: (-pair[0], pair[1:]))
    rows = [[text(names[i]), text(names[j]), str(count)] for count, i, j in pairs[:MOST_LINES]]
    return table(["true class", "answer", "times"], rows, right=["times"])


def _classes(result: Result) -> str:
    if not result.scores.rows:
        return ""
    columns = list(result.scores.rows[0])
    rows = [[_shown(row[column]) for column in columns] for row in result.scores.rows]
    return f'<h2>Classes</h2><div class="panel">{table(columns, rows, right=columns[1:])}</div>'


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.2%}" if isinstance(value, float) else text(value)


def _faults(evaluation: Evaluation) -> str:
    faults = evaluation.faults()
    if not faults:
        return "<h2>What went wrong</h2><p>Nothing.</p>"
    tiles = "".join(_tile(evaluation, *one) for one in faults[:MOST_PICTURES])
    return f'<h2>What went wrong: {len(faults)}</h2><div class="faults">{tiles}</div>{_listed(faults[MOST_PICTURES:])}'


def _tile(evaluation: Evaluation, example: Example, finding: Finding, fault: Fault) -> str:
    pictures = evaluation.data.measure.drawn(example, finding) or {}
    return (
        f'<div class="fault"><div class="pictures">{"".join(_figures(pictures))}</div>'
        f'<div class="name">{text(example.name)}</div><div class="truth">{text(fault.truth)}</div>'
        f'<div class="said">{text(fault.said)}</div></div>'
    )


def _figures(pictures: Mapping[str, Any]) -> Iterator[str]:
    for what, picture in pictures.items():
        caption = f"<figcaption>{text(what)}</figcaption>" if what else ""
        yield f'<figure>{caption}<img alt="{text(what)}" src="{data_uri(picture)}"></figure>'


def _listed(faults: List[Any]) -> str:
    if not faults:
        return ""
    rows = [[text(example.name), text(fault.truth), text(fault.said)] for example, _, fault in faults[:MOST_LINES]]
    more = f"<p>and {len(faults) - MOST_LINES} more</p>" if len(faults) > MOST_LINES else ""
    return f'<div class="panel">{table(["example", "truth", "answer"], rows)}</div>{more}'
