"""Caffe's SSD, whose layer DetectionOutput has chosen the boxes.

Output: rows (..., n, 7): number of the picture, class (0 is the background), score, x0, y0, x1, y1 in fractions.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.results.boxes import Boxes, Found
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting
from runtime_arm.results.facts import Facts
from runtime_arm.results.result import Result

THRESHOLD = 0.5


def decode(outputs: Outputs, setting: Setting) -> Result:
    """The boxes that the layer chose; a row of picture -1 says that there are none."""
    rows = setting.output(outputs, "rows").reshape(-1, 7).astype(np.float64)
    rows = rows[rows[:, 0] >= 0]
    found = Found(setting.frame.fractions(rows[:, 3:]), rows[:, 2], np.nan_to_num(rows[:, 1]).astype(np.int64))
    return Boxes(found.above(setting.least(THRESHOLD)).boxes(setting.frame, setting.labels))


def recognise(facts: Facts) -> Optional[Parameters]:
    """The only output is that of a DetectionOutput."""
    if len(facts.outputs) != 1 or len(facts.pictures) != 1 or facts.outputs[0].made_by != "DetectionOutput":
        return None
    writer = next(op for op in reversed(facts.net.op) if op.type == "DetectionOutput")
    count = next((int(arg.i) for arg in writer.arg if arg.name == "num_classes" and arg.i is not None), 0)
    return {"outputs": {"rows": facts.outputs[0].name}, **({"classes": count} if count else {})}


DECODER = Decoder("boxes", decode, recognise, {"channels": "BGR", "mean": 127.5, "std": 127.5}, classes=True)
