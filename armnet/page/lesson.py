"""The page about what a network has learned: the curve of its losses, its confusions, and the worst pictures.

One file that needs no network and no script.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from armnet.page.document import document
from armnet.page.elements import cards, key, table, text
from armnet.page.faults import FAULTS, RED_AND_GREEN, confusion
from armnet.page.pictures import data_uri, picture_of

WIDE, HIGH, EDGE = 380, 190, 42  # of the curve; small, so that its numbers can be read on a phone
LARGEST = 600  # pixels on the screen
COLOURS = {"loss": "var(--conv)", "held_out_loss": "var(--norm)", "accuracy": "var(--activation)"}
NAMES = {"loss": "training loss", "held_out_loss": "held-out loss", "accuracy": "held-out accuracy (right axis)"}
TICKS = 4


def render(title: str, facts: Mapping[str, Any]) -> str:
    """The page, HTML 5. ``facts``: what ``armnet teach --json`` or ``armnet train --json`` prints."""
    body = _head(title, facts) + _curve(facts["epochs"])
    if facts.get("confusion") is not None:
        body += confusion(facts["labels"], facts["confusion"]) + _worst(facts["mistakes"]) + _skipped(facts["skipped"])
    return document(title, body, style=FAULTS, pictures=True)


def _head(title: str, facts: Mapping[str, Any]) -> str:
    accuracy = facts.get("accuracy", facts["epochs"][-1]["accuracy"] if facts["epochs"] else None)
    figures = [] if accuracy is None else [(f"{accuracy:.1%}", "held-out accuracy")]
    figures += [(str(facts["learned"]), "training samples"), (str(facts["held_out"]), "held-out samples")]
    figures += [(str(len(facts["epochs"])), "epochs")]
    figures += [(str(len(facts["labels"])), "classes")] if facts.get("labels") else []
    cut = ""
    if "cut" in facts:
        cut = f'<p>Classified by the features in <span class="name">{text(facts["cut"])}</span>.</p>'
    return f"<h1>{text(title)}</h1>{cut}{cards(figures)}"


def _curve(epochs: Sequence[Mapping[str, Optional[float]]]) -> str:
    """Losses and accuracy by epoch."""
    lines: Dict[str, List[float]] = {}
    for name in NAMES:
        values = [epoch[name] for epoch in epochs]
        if values and all(value is not None for value in values):
            lines[name] = [float(value or 0.0) for value in values]
    if not lines:
        return ""
    top = max((max(values) for name, values in lines.items() if name != "accuracy"), default=1.0) or 1.0
    drawn = "".join(
        f'<path d="{_path(values, 1.0 if name == "accuracy" else top)}" fill="none" stroke-width="1.8" '
        f'stroke="{COLOURS[name]}"/>'
        for name, values in lines.items()
    )
    grid = "".join(_tick(place / TICKS, top, "accuracy" in lines) for place in range(TICKS + 1))
    low = HIGH + EDGE // 2
    ends = f'<text x="{EDGE}" y="{low + 14}">1</text>'
    ends += f'<text x="{EDGE + WIDE}" y="{low + 14}" text-anchor="end">epoch {len(epochs)}</text>'
    size = f'viewBox="0 0 {WIDE + 2 * EDGE} {HIGH + EDGE}" width="100%" style="max-width:{LARGEST}px"'
    legend = key([(COLOURS[name], NAMES[name]) for name in lines])
    plot = f'<svg {size} role="img">{grid}{drawn}{ends}</svg>'
    return f'<h2>Loss and accuracy by epoch</h2><div class="panel">{legend}{plot}</div>'


def _path(values: Sequence[float], top: float) -> str:
    step = WIDE / max(1, len(values) - 1)
    places = [f"{EDGE + at * step:.1f} {_height(value / top):.1f}" for at, value in enumerate(values)]
    if len(places) == 1:
        places.append(f"{EDGE + WIDE} {_height(values[0] / top):.1f}")
    return f"M{' L'.join(places)}"


def _height(share: float) -> float:
    return EDGE / 2 + HIGH * (1 - share)


def _tick(share: float, top: float, right: bool) -> str:
    y = _height(share)
    line = f'<line class="grid" x1="{EDGE}" x2="{EDGE + WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>'
    left = f'<text x="{EDGE - 6}" y="{y + 4:.1f}" text-anchor="end">{share * top:.2g}</text>'
    return line + left + (f'<text x="{EDGE + WIDE + 6}" y="{y + 4:.1f}">{share:.0%}</text>' if right else "")


def _worst(mistakes: Sequence[Mapping[str, Any]]) -> str:
    if not mistakes:
        return "<h2>Mistakes</h2><p>None.</p>"
    tiles = "".join(_tile(mistake) for mistake in mistakes)
    return f'<h2>Worst mistakes</h2>{RED_AND_GREEN}<div class="faults">{tiles}</div>'


def _tile(mistake: Mapping[str, Any]) -> str:
    picture = picture_of(mistake["path"])
    shown = "" if picture is None else f'<figure><img alt="" src="{data_uri(picture)}"></figure>'
    return (
        f'<div class="fault"><div class="pictures">{shown}</div><div class="name">{text(mistake["path"])}</div>'
        f'<div class="truth">{text(mistake["label"])}</div>'
        f'<div class="said">{text(mistake["taken_for"])} ({mistake["score"]:.0%})</div></div>'
    )


def _skipped(lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return f'<h2>Skipped</h2><div class="panel">{table(["why"], [[text(line)] for line in lines])}</div>'
