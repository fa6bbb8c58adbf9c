"""The page of what went wrong: one file that needs no network and no script."""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping

from armnet.evaluation.evaluate import Evaluation, Result
from armnet.evaluation.example import Example, Fault, Finding
from armnet.page.document import document
from armnet.page.elements import cards, table, text
from armnet.page.faults import FAULTS, MOST_LINES, RED_AND_GREEN, confusion
from armnet.page.pictures import data_uri

MOST_PICTURES = 60


def render(title: str, evaluation: Evaluation) -> str:
    """The page, HTML 5."""
    first = evaluation.results[0]
    body = "".join(
        [_head(title, evaluation), _places(evaluation), _confusion(first), _faults(evaluation), _classes(first)]
    )
    return document(title, body, style=FAULTS, pictures=True)


def _head(title: str, evaluation: Evaluation) -> str:
    first = evaluation.results[0]
    figures = [*((f"{value:.2%}", name) for name, value in first.metrics.items())]
    figures += [(str(len(first.findings)), "examples"), (str(len(first.skipped)), "skipped")]
    return f'<h1>{text(title)}</h1><p class="name">{text(evaluation.data.what)}</p>{cards(figures)}'


def _places(evaluation: Evaluation) -> str:
    """The examples that the other places answer otherwise."""
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
    return confusion(*result.scores.confusion)


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
        return "<h2>Mistakes</h2><p>None.</p>"
    tiles = "".join(_tile(evaluation, *one) for one in faults[:MOST_PICTURES])
    more = _listed(faults[MOST_PICTURES:])
    return f'<h2>Mistakes: {len(faults)}</h2>{RED_AND_GREEN}<div class="faults">{tiles}</div>{more}'


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
