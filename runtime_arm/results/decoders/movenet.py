"""MoveNet: the 17 points of one body, or of up to six.

Outputs: (1, 1, 17, 3), y, x in fractions of the input and score; or (1, n, 56), 17 such points, then the box (y0, x0,
y1, x1) and the score of a body.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.results.boxes import Found, Poses
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting
from runtime_arm.results.facts import Facts
from runtime_arm.results.keypoints import BODY, Keypoint, Keypoints
from runtime_arm.results.result import Result


def decode(outputs: Outputs, setting: Setting) -> Result:
    """Keypoints of the only body, or a box with points for each of several."""
    raw = setting.output(outputs, "points").astype(np.float64)
    if raw.shape[-1] == 56:
        return _several(raw.reshape(-1, 56), setting)
    raw = raw.reshape(-1, 3)
    places = setting.frame.points(setting.frame.fractions(raw[:, 1::-1]))
    named = zip(BODY, places, raw[:, 2])
    return Keypoints([Keypoint(name, (float(x), float(y)), float(score)) for name, (x, y), score in named])


def _several(raw: np.ndarray, setting: Setting) -> Result:
    points = raw[:, :51].reshape(-1, 17, 3)[:, :, 1::-1]
    frame = setting.frame
    corners = frame.fractions(raw[:, [52, 51, 54, 53]])
    found = Found(corners, raw[:, 55], np.zeros(len(raw), np.int64), frame.fractions(points))
    return Poses(found.above(setting.least(0.3)).boxes(frame, ("person",)))


def recognise(facts: Facts) -> Optional[Parameters]:
    """One output of 17 points of three numbers for one picture, or of 56 numbers for six bodies."""
    if facts.picture is None or len(facts.outputs) != 1:
        return None
    output = facts.outputs[0]
    return {"outputs": {"points": output.name}} if output.fits(1, 17, 3) or output.fits(6, 56) else None


DECODER = Decoder("keypoints", decode, recognise, {"channels": "RGB", "fit": "letterbox", "pad": 0})
