"""YOLOv5 and YOLOv7: three anchors a cell, each with a box, the score of a thing and the scores of classes.

Output: (1, n, 5 + classes): centre and size in pixels of the input, or in fractions of it (TFLite), then scores.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.results.boxes import Boxes, Found
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting, corners_of
from runtime_arm.results.facts import Facts
from runtime_arm.results.grids import cell_count
from runtime_arm.results.result import Result

STRIDES = ((8, 16, 32), (8, 16, 32, 64), (16, 32))
THRESHOLD, OVERLAP, MOST = 0.25, 0.45, 300
PREPROCESSING: Dict[str, Any] = {"channels": "RGB", "scale": 1 / 255, "fit": "letterbox", "pad": 114}
_FRACTIONS = 2.0  # no size of a box exceeds this where sizes are fractions


def decode(outputs: Outputs, setting: Setting) -> Result:
    """Boxes."""
    rows = setting.matrix(outputs, "boxes")
    scores = rows[:, 4:5] * rows[:, 5:]
    return chosen(rows[:, :4], scores, setting)


def chosen(boxes: Array, scores: Array, setting: Setting) -> Boxes:
    """The best boxes. boxes: (n, 4) centres and sizes in the input's pixels or fractions; scores: (n, classes)."""
    if boxes.size and np.nanmax(boxes[:, 2:], initial=0.0) <= _FRACTIONS:
        boxes = setting.frame.fractions(boxes)
    best = scores.argmax(axis=1)
    found = Found(corners_of(boxes[:, :2], boxes[:, 2:]), scores[np.arange(len(best)), best], best)
    found = found.above(setting.least(THRESHOLD)).distinct(setting.number("overlap", OVERLAP), MOST)
    return Boxes(found.boxes(setting.frame, setting.labels))


def recognise(facts: Facts) -> Optional[Parameters]:
    """One output with a row for each of three anchors of every cell of the known strides."""
    if facts.picture is None or not facts.outputs:
        return None
    output = facts.outputs[0]  # others may follow: those of the levels
    if not output.fits(None, None) or output.shape is None or not isinstance(output.shape[2], int):
        return None
    counts = [cell_count(facts.picture.height, facts.picture.width, strides, anchors=3) for strides in STRIDES]
    if output.shape[1] is None or output.shape[1] not in counts or output.shape[2] < 6:
        return None
    return {"outputs": {"boxes": output.name}, "classes": output.shape[2] - 5}


DECODER = Decoder("boxes", decode, recognise, PREPROCESSING, classes=True)
