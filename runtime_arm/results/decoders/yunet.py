"""YuNet, which finds faces (Wu et al., 2023); and how OpenCV's FaceDetectorYN reads it.

Outputs for strides 8, 16 and 32: cls_8 and obj_8 (1, cells, 1), bbox_8 (1, cells, 4), kps_8 (1, cells, 10), and so on.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.results.boxes import Faces, Found
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting, corners_of
from runtime_arm.results.facts import Facts
from runtime_arm.results.grids import cells
from runtime_arm.results.result import Result

STRIDES = (8, 16, 32)
_ROLES = ("cls", "obj", "bbox", "kps")
_FILL = {"channels": "BGR", "fit": "letterbox", "align": "corner", "pad": 0}


def decode(outputs: Outputs, setting: Setting) -> Result:
    """Faces with eyes, nose and corners of the mouth."""
    place, stride = cells(setting.frame.input_height, setting.frame.input_width, STRIDES)
    cls, obj, bbox, kps = (
        np.concatenate([setting.output(outputs, f"{role}_{s}").reshape(-1, width) for s in STRIDES]).astype(np.float64)
        for role, width in zip(_ROLES, (1, 1, 4, 10))
    )
    scores = np.sqrt(np.clip(cls, 0, 1) * np.clip(obj, 0, 1)).reshape(-1)
    corners = corners_of((place + bbox[:, :2]) * stride, np.exp(np.clip(bbox[:, 2:], -20, 20)) * stride)
    points = (kps.reshape(-1, 5, 2) + place[:, None]) * stride[:, None]
    found = Found(corners, scores, np.zeros(len(scores), np.int64), points).above(setting.least(0.6))
    return Faces(found.distinct(setting.number("overlap", 0.3), 1000).boxes(setting.frame, ("face",)))


def recognise(facts: Facts) -> Optional[Parameters]:
    """All twelve outputs by name."""
    named = facts.named(*(f"{role}_{stride}" for role in _ROLES for stride in STRIDES))
    return {"outputs": named} if named is not None and len(facts.pictures) == 1 else None


DECODER = Decoder("boxes", decode, recognise, _FILL)
