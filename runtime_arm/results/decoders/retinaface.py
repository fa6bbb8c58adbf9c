"""RetinaFace (Deng et al., 2020) as biubug6/Pytorch_Retinaface writes it.

Outputs: boxes (1, n, 4) and points (1, n, 10) as offsets from priors of two sizes a cell, scores (1, n, 2).
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.errors import FeedError
from runtime_arm.netdef import Array
from runtime_arm.results.boxes import Faces, Found
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting, corners_of, probabilities
from runtime_arm.results.facts import Facts
from runtime_arm.results.grids import cell_count, cells
from runtime_arm.results.result import Result

STRIDES = (8, 16, 32)
SIDES = {8: (16.0, 32.0), 16: (64.0, 128.0), 32: (256.0, 512.0)}
_CENTRE, _SIZE = 0.1, 0.2  # the variances


def decode(outputs: Outputs, setting: Setting) -> Result:
    """Faces with eyes, nose and corners of the mouth."""
    offsets = setting.output(outputs, "boxes").reshape(-1, 4).astype(np.float64)
    kps = setting.output(outputs, "points").reshape(-1, 5, 2).astype(np.float64)
    scores = probabilities(setting.output(outputs, "scores").reshape(-1, 2))[:, 1]
    centres, sizes = priors(setting.frame.input_height, setting.frame.input_width)
    if len(offsets) != len(centres):
        raise FeedError(f"the net gives {len(offsets)} boxes; a RetinaFace of this input size has {len(centres)}")
    corners = corners_of(
        centres + offsets[:, :2] * _CENTRE * sizes, sizes * np.exp(np.clip(offsets[:, 2:] * _SIZE, -20, 20))
    )
    points = centres[:, None] + kps * _CENTRE * sizes[:, None]
    found = Found(corners, scores, np.zeros(len(scores), np.int64), points).above(setting.least(0.6))
    return Faces(found.distinct(setting.number("overlap", 0.4), 750).boxes(setting.frame, ("face",)))


def priors(height: int, width: int) -> tuple[Array, Array]:
    """Centres (n, 2) and sizes (n, 2) in pixels of the input."""
    place, stride = cells(height, width, STRIDES, anchors=2)
    sides = np.concatenate(
        [np.tile(SIDES[s], cell_count(height, width, (s,)) or 0) for s in STRIDES]
    )  # both sizes of a cell follow each other
    return (place + 0.5) * stride, np.stack([sides, sides], axis=-1)


def recognise(facts: Facts) -> Optional[Parameters]:
    """Three outputs of 4, 2 and 10 numbers for each prior of this input size."""
    if facts.picture is None or len(facts.outputs) != 3:
        return None
    count = cell_count(facts.picture.height, facts.picture.width, STRIDES, anchors=2)
    roles = {role: facts.fitting(count, width) for role, width in (("boxes", 4), ("scores", 2), ("points", 10))}
    if count is None or any(len(found) != 1 for found in roles.values()):
        return None
    return {"outputs": {role: found[0].name for role, found in roles.items()}}


DECODER = Decoder(
    "boxes",
    decode,
    recognise,
    {"channels": "BGR", "mean": [104, 117, 123], "fit": "letterbox", "align": "corner", "pad": 0},
)
