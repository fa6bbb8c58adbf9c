"""The page of a quantised pair: error against bytes of each layer, and how it was quantised.

One file that needs no network and no script.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence

from armnet.console import without_empty_columns
from armnet.page.document import document
from armnet.page.elements import bar, cards, key, named, notes, shortened, table, text
from runtime_arm.app.display import size

WIDE, HIGH, LEFT, LOW = 330, 230, 34, 40  # of the plot, and its margins; a phone shows it in about this size
COLOURS = {"integers": "var(--activation)", "packed": "var(--conv)", "float": "var(--alarm)"}
MEANINGS = {
    "integers": "computes on integers",
    "packed": "weights packed, computes on floats",
    "float": "stays float",
}
BROADEST = 520  # pixels on a screen
LONGEST_NAME = 22  # letters, which fit under a dot in the middle
ROOM = 5  # dB below the lowest point, for its name
NAMED = 3  # layers with the largest errors, which have their names in the plot
LINE = 14  # the least distance of two names, downwards
LONGEST_NOTE = 400  # characters
OF_OUTPUTS = "of the outputs (before a Softmax), on a few samples"
MEASURED = f"the signal-to-noise ratio {OF_OUTPUTS}, if only this layer is quantised. Low points do the most harm."
NOT_MEASURED = (
    "the signal-to-noise ratio of its weights. Low points are rounded most coarsely. With --data, the page shows what "
    "each layer does to the outputs."
)
STEP = 10  # dB between lines
DECADES = (1, 2, 5)


class _Point(NamedTuple):
    """A layer in the plot."""

    layer: str
    nbytes: int
    error: float  # dB
    kind: str


def render(facts: Mapping[str, Any]) -> str:
    """The page, HTML 5. ``facts`` is what ``armnet quantize --json`` prints."""
    body = "".join(
        [_head(facts), _plot(facts["layers"]), _layers(facts["layers"]), notes(facts["notes"], LONGEST_NOTE)]
    )
    return document(f"{facts['pair']}, quantised", body)


def _head(facts: Mapping[str, Any]) -> str:
    weights = facts["weights_nbytes"]
    ratio = weights["before"] / max(weights["after"], 1)
    figures = [(size(weights["after"]).strip(), f"of weights, {size(weights['before']).strip()} before")]
    figures.append((f"{ratio:.2f}", "times smaller"))
    files, kind = facts["files_nbytes"], "files" if facts["unzipped_nbytes"] is None else "a zip file"
    figures.append((size(files["after"]).strip(), f"of {kind}, {size(files['before']).strip()} before"))
    if facts["output_snr"] is not None:
        sure = facts["sure_snr"]
        doubt = "on the data given" if sure is None else f"probably {sure:.1f} or more on other data"
        figures.append((f"{facts['output_snr']:.1f} dB", f"signal-to-noise ratio of the worst output, {doubt}"))
    wider = sum(bool(row["reason"]) for row in facts["layers"])
    if wider:
        figures.append((f"{wider} of {len(facts['layers'])}", "layers are not what was asked for; the table says why"))
    for metric, value in (facts["metrics"] or {}).get("after", {}).items():
        figures.append((f"{value:.2%}", f"{metric}, {facts['metrics']['before'][metric]:.2%} before"))
    return f"<h1>{text(facts['pair'])}</h1>{cards(figures)}"


def _kind(row: Mapping[str, Any]) -> str:
    if row["activations"] != "float32":
        return "integers"
    return "float" if row["weights"] == "float32" else "packed"


def _points(rows: Sequence[Mapping[str, Any]], measure: str) -> List[_Point]:
    return [
        _Point(row["layer"], max(row["nbytes"]["after"], 1), row[measure], _kind(row))
        for row in rows
        if row[measure] is not None
    ]


def _plot(rows: Sequence[Mapping[str, Any]]) -> str:
    """Bytes to the right, signal to noise upwards."""
    measured = any(row["alone"] is not None for row in rows)
    points = _points(rows, "alone" if measured else "snr")
    if not points:
        return ""
    what = MEASURED if measured else NOT_MEASURED
    legend = key([(COLOURS[kind], MEANINGS[kind]) for kind in COLOURS if any(one.kind == kind for one in points)])
    frame = f'viewBox="0 0 {WIDE} {HIGH}" width="100%" role="img"'
    scale = _Scale(points)
    drawn = "".join([*scale.grid(), *_dots(points, scale)])
    panel = f'<div class="panel" style="max-width:{BROADEST}px">{legend}<svg {frame}>{drawn}</svg></div>'
    return f"<h2>Error against bytes</h2><p>Each point is a layer: its bytes, and {what}</p>{panel}"


class _Scale:
    def __init__(self, points: Sequence[_Point]):
        errors, nbytes = [point.error for point in points], [math.log10(point.nbytes) for point in points]
        self.low = STEP * math.floor((min(errors) - ROOM) / STEP)
        self.high = STEP * math.ceil(max(errors) / STEP + 0.01)
        self.least, self.most = min(nbytes) - 0.1, max(nbytes) + 0.1

    def x(self, nbytes: float) -> float:
        share = (math.log10(nbytes) - self.least) / (self.most - self.least)
        return LEFT + share * (WIDE - LEFT - 12)

    def y(self, error: float) -> float:
        return 12 + (self.high - error) / (self.high - self.low) * (HIGH - LOW - 12)

    def grid(self) -> Iterator[str]:
        """Grid lines at round numbers, with labels."""
        step = STEP * max(1, math.ceil((self.high - self.low) / STEP / 8))
        for error in range(self.low, self.high + 1, step):
            y = self.y(error)
            yield f'<line class="grid" x1="{LEFT}" x2="{WIDE - 12}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{error}</text>'
        powers = range(math.floor(self.least), math.ceil(self.most) + 1)
        steps = DECADES if self.most - self.least < 2 else DECADES[:1]
        for nbytes in (digit * 10**power for power in powers if power >= 0 for digit in steps):
            if self.least <= math.log10(nbytes) <= self.most:
                x = self.x(nbytes)
                yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="12" y2="{HIGH - LOW}"/>'
                yield f'<text x="{x:.1f}" y="{HIGH - LOW + 16}" text-anchor="middle">{size(nbytes).strip()}</text>'
        yield f'<text x="{LEFT - 6}" y="{HIGH - 6}">dB upwards, bytes of the weights to the right</text>'


def _dots(points: Sequence[_Point], scale: _Scale) -> Iterator[str]:
    """A dot for each layer, the worst in front, and the names of the worst."""
    for point in sorted(points, key=lambda point: point.error, reverse=True):
        shown = f"{text(point.layer)}\n{size(point.nbytes).strip()}, {point.error:.1f} dB, {MEANINGS[point.kind]}"
        yield (
            f'<circle class="block" cx="{scale.x(point.nbytes):.1f}" cy="{scale.y(point.error):.1f}" r="5" '
            f'fill="{COLOURS[point.kind]}"><title>{shown}</title></circle>'
        )
    taken: List[float] = []
    for point in sorted(points, key=lambda point: point.error)[:NAMED]:
        x, y = scale.x(point.nbytes), scale.y(point.error)
        if all(abs(y - other) > LINE for other in taken):
            taken.append(y)
            side, anchor = (5, "end") if x > WIDE / 2 else (-5, "start")
            name = text(shortened(point.layer, LONGEST_NAME))
            yield f'<text class="over" x="{x + side:.1f}" y="{y + 15:.1f}" text-anchor="{anchor}">{name}</text>'


def _layers(rows: Sequence[Mapping[str, Any]]) -> str:
    largest = max((row["nbytes"]["before"] for row in rows), default=1)
    cells = [[named(row["layer"]), *_cells(row, largest)] for row in rows]
    columns = ["layer", "weights", "activations", "bytes", "", "dB", "alone dB", "how", "why"]
    shown = table(*without_empty_columns(columns, cells), right=["bytes", "dB", "alone dB"])
    explained = "dB: the signal-to-noise ratio of the weights alone."
    if any(row["alone"] is not None for row in rows):
        explained += f" alone dB: that {OF_OUTPUTS}, if only this layer is quantised."
    return f'<h2>Layers</h2><p>{explained}</p><div class="panel">{shown}</div>'


def _cells(row: Mapping[str, Any], largest: int) -> List[str]:
    numbers: Dict[str, str] = {
        measure: "" if row[measure] is None else f"{row[measure]:.1f}" for measure in ("snr", "alone")
    }
    return [
        text(row["weights"]),
        text(row["activations"]),
        size(row["nbytes"]["after"]).strip(),
        bar(row["nbytes"]["after"] / largest, COLOURS[_kind(row)], 140),
        numbers["snr"],
        numbers["alone"],
        text(", ".join(row["steps"])),
        text(row["reason"]),
    ]
