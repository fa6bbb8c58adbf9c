"""NanoDet and NanoDet-Plus (RangiLyu): the scores of classes and the distances of four edges for every cell.

Output: (1, n, classes + 4 (bins + 1)); each distance, in strides, is the mean of a distribution over its bins.
Parameters: ``strides``; ``bins``; ``centre``, where in its cell a box is centred (0.5 for NanoDet, 0 for Plus).
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.errors import FeedError
from runtime_arm.results.boxes import Boxes, Found
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting, sigmoid, softmax
from runtime_arm.results.facts import Facts
from runtime_arm.results.grids import cell_count, cells
from runtime_arm.results.result import Result

NANODET, PLUS = (8, 16, 32), (8, 16, 32, 64)
BINS = 7
_COCO = 80
_MEAN, _STD = [103.53, 116.28, 123.675], [57.375, 57.12, 58.395]


def decode(outputs: Outputs, setting: Setting) -> Result:
    """Boxes."""
    rows = setting.matrix(outputs, "boxes")
    bins = int(setting.number("bins", BINS)) + 1
    strides = setting.strides(PLUS)
    place, stride = cells(setting.frame.input_height, setting.frame.input_width, strides)
    if len(place) != len(rows) or rows.shape[1] <= 4 * bins:
        raise FeedError(f"the net gives {rows.shape}; a NanoDet of this input size and strides has {len(place)} rows")
    scores = rows[:, : -4 * bins]
    if scores.size and (scores.min() < 0 or scores.max() > 1):
        scores = sigmoid(scores)
    distances = softmax(rows[:, -4 * bins :].reshape(-1, 4, bins)) @ np.arange(bins) * stride
    centres = (place + setting.number("centre", 0 if len(strides) == len(PLUS) else 0.5)) * stride
    best = scores.argmax(axis=1)
    corners = np.concatenate([centres - distances[:, :2], centres + distances[:, 2:]], axis=1)
    found = Found(corners, scores[np.arange(len(best)), best], best).above(setting.least(0.35))
    return Boxes(found.distinct(setting.number("overlap", 0.6), 100).boxes(setting.frame, setting.labels))


def recognise(facts: Facts) -> Optional[Parameters]:
    """One output, a row for every cell, of a sigmoid and plain numbers; or with COCO's 80 classes."""
    if facts.picture is None or len(facts.outputs) != 1 or not facts.outputs[0].fits(None, None):
        return None
    output = facts.outputs[0]
    assert output.shape is not None
    count, width = output.shape[1:]
    classes = (width or 0) - 4 * (BINS + 1)
    for strides in (PLUS, NANODET):
        if count is None or count != cell_count(facts.picture.height, facts.picture.width, strides) or classes < 1:
            continue
        make = facts.composition(output.name)
        halves = len(make) == 2 and make[0] == "Sigmoid" != make[1]
        if halves or classes in (_COCO, facts.labels):
            return {"outputs": {"boxes": output.name}, "classes": classes, "strides": list(strides)}
    return None


DECODER = Decoder("boxes", decode, recognise, {"channels": "BGR", "mean": _MEAN, "std": _STD}, classes=True)
