"""The page of two variants: accuracy, costs, and the noise of each blob in the order of the net."""

from __future__ import annotations

from typing import Any, List, Mapping

from armnet.page.document import document
from armnet.page.elements import bar, key, named, notes, table, text
from armnet.variants.rows import cost_rows

GOOD, FAIR = 40.0, 20.0  # dB: numbers are right to a hundredth, to a tenth
LONGEST = 60.0  # dB: what fills the width
WIDTH = 420  # pixels
_COLOURS = ("var(--activation)", "var(--norm)", "var(--alarm)")
_MEANINGS = (f"{GOOD:.0f} dB and more", f"{FAIR:.0f} to {GOOD:.0f} dB", f"less than {FAIR:.0f} dB")


def render(facts: Mapping[str, Any]) -> str:
    """The page, HTML 5. ``facts`` is what ``armnet diff --json`` prints."""
    title = f"{facts['a']} and {facts['b']}"
    head = f"<h1>{text(title)}</h1><p>A is {text(facts['a'])}, B is {text(facts['b'])}; on {text(facts['data'])}.</p>"
    return document(title, "".join([head, _costs(facts), _noise(facts), notes(facts["warnings"])]))


def _costs(facts: Mapping[str, Any]) -> str:
    rows = [[text(cell) for cell in row[:3]] + [_ratio(row[3])] for row in cost_rows(facts)]
    columns = ["", "A", "B", "B / A"]
    return f'<h2>Accuracy and costs</h2><div class="panel">{table(columns, rows, right=["A", "B"])}</div>'


def _ratio(shown: str) -> str:
    if not shown:
        return ""
    ratio = float(shown)
    return f"{text(shown)} {bar(min(ratio, 2) / 2, _COLOURS[0 if ratio <= 1 else 2], 120)}"


def _noise(facts: Mapping[str, Any]) -> str:
    if not facts["blobs"]:
        return ""
    rows: List[List[str]] = [
        [named(one["blob"]), text(one["operator"]), f"{one['snr']:.1f}", _length(one["snr"])] for one in facts["blobs"]
    ]
    shown = table(["blob", "computed in B by", "dB", ""], rows, right=["dB"])
    explained = (
        f"How far B's numbers are from A's: the signal-to-noise ratio of each blob in decibels, over "
        f"{facts['samples']} samples, in the order of the net. A longer bar is a smaller error."
    )
    return f'<h2>Noise</h2><p>{explained}</p>{key(zip(_COLOURS, _MEANINGS))}<div class="panel">{shown}</div>'


def _length(snr: float) -> str:
    colour = _COLOURS[0 if snr >= GOOD else 1 if snr >= FAIR else 2]
    return bar(max(0.0, min(snr, LONGEST)) / LONGEST, colour, WIDTH)
