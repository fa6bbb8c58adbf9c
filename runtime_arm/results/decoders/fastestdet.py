"""FastestDet (dog-qiuqiu): one grid of cells, each with the score of a thing, a box and the scores of classes.

Output: (1, 5 + classes, rows, columns).
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.results.boxes import Boxes, Found
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting, corners_of, sigmoid
from runtime_arm.results.facts import Facts
from runtime_arm.results.result import Result

STRIDE = 16


def decode(outputs: Outputs, setting: Setting) -> Result:
    """Boxes."""
    grid = setting.output(outputs, "boxes").astype(np.float64)
    rows, columns = grid.shape[1:]
    cell = grid.reshape(len(grid), -1)
    y, x = np.mgrid[:rows, :columns]
    place = np.stack([x.reshape(-1), y.reshape(-1)], axis=-1)
    best = cell[5:].argmax(axis=0)
    scores = np.clip(cell[0], 0, 1) ** 0.6 * np.clip(cell[5:].max(axis=0), 0, 1) ** 0.4
    centres = (place + np.tanh(cell[1:3].T)) / (columns, rows)
    found = Found(setting.frame.fractions(corners_of(centres, sigmoid(cell[3:5].T))), scores, best)
    found = found.above(setting.least(0.65)).distinct(setting.number("overlap", 0.45), 1000)
    return Boxes(found.boxes(setting.frame, setting.labels))


def recognise(facts: Facts) -> Optional[Parameters]:
    """One output, a sixteenth of the input's size, of a sigmoid, plain numbers and a softmax side by side."""
    if facts.picture is None or len(facts.outputs) != 1 or not facts.outputs[0].fits(None, None, None):
        return None
    output = facts.outputs[0]
    assert output.shape is not None
    channels, rows, columns = output.shape[1:]
    if channels is None or channels < 6 or rows is None or columns is None:
        return None
    if (facts.picture.height, facts.picture.width) != (rows * STRIDE, columns * STRIDE):
        return None
    make = facts.composition(output.name)
    if len(make) != 3 or make[0] != "Sigmoid" or make[1] in ("Sigmoid", "Softmax") or make[2] != "Softmax":
        return None
    return {"outputs": {"boxes": output.name}, "classes": channels - 5}


DECODER = Decoder("boxes", decode, recognise, {"channels": "BGR", "scale": 1 / 255}, classes=True)
