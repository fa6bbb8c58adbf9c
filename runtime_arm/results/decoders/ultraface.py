"""UltraFace, and other SSDs that give a softmax of scores and boxes for every prior.

Outputs: scores (1, n, classes), of which class 0 is the background; boxes (1, n, 4). Parameters: ``encoded``, whether
the boxes are offsets from UltraFace's priors (Caffe) or corners in fractions of the input (ONNX).
Source: Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB, vision/utils/box_utils.py.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.errors import FeedError
from runtime_arm.netdef import Array
from runtime_arm.results.boxes import Boxes, Faces, Found
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting, corners_of
from runtime_arm.results.facts import Facts
from runtime_arm.results.result import Result

STRIDES = (8, 16, 32, 64)
SIDES = ((10.0, 16.0, 24.0), (32.0, 48.0), (64.0, 96.0), (128.0, 192.0, 256.0))
_CENTRE, _SIZE = 0.1, 0.2  # the variances


def decode(outputs: Outputs, setting: Setting) -> Result:
    """Faces, or boxes of several classes."""
    scores = setting.output(outputs, "scores").astype(np.float64)
    corners = setting.output(outputs, "boxes").reshape(-1, 4).astype(np.float64)
    if setting.parameters.get("encoded"):
        corners = _decoded(corners, priors(setting.frame.input_height, setting.frame.input_width))
    scores = scores.reshape(len(corners), -1)
    best = scores[:, 1:].argmax(axis=1)
    found = Found(setting.frame.fractions(corners), scores[np.arange(len(best)), best + 1], best)
    found = found.above(setting.least(0.7)).distinct(setting.number("overlap", 0.3), 1000)
    if scores.shape[1] == 2:
        return Faces(found.boxes(setting.frame, setting.labels or ("face",)))
    return Boxes(found._replace(classes=found.classes + 1).boxes(setting.frame, setting.labels))


def priors(height: int, width: int) -> Array:
    """Centre and size (n, 4) in fractions of the input."""
    found = []
    for stride, sides in zip(STRIDES, SIDES):
        rows, columns = -(-height // stride), -(-width // stride)
        y, x = np.mgrid[:rows, :columns]
        centres = np.stack([(x + 0.5) * stride / width, (y + 0.5) * stride / height], axis=-1)
        each = [np.broadcast_to((side / width, side / height), (rows, columns, 2)) for side in sides]
        found.append(np.stack([np.concatenate([centres, size], axis=-1) for size in each], axis=2).reshape(-1, 4))
    return np.asarray(np.clip(np.concatenate(found), 0, 1))


def _decoded(offsets: Array, priors: Array) -> Array:
    if len(offsets) != len(priors):
        raise FeedError(f"the net gives {len(offsets)} boxes; an UltraFace of this input size has {len(priors)}")
    sizes = np.exp(np.clip(offsets[:, 2:] * _SIZE, -20, 20)) * priors[:, 2:]
    return corners_of(offsets[:, :2] * _CENTRE * priors[:, 2:] + priors[:, :2], sizes)


def recognise(facts: Facts) -> Optional[Parameters]:
    """The outputs scores, a softmax of two classes, and boxes, as many as UltraFace's priors."""
    named = facts.named("scores", "boxes")
    if named is None or facts.picture is None or len(facts.outputs) != 2:
        return None
    height, width = facts.picture.height, facts.picture.width
    if height is None or width is None:
        return None
    count = len(priors(height, width))
    scores, boxes = (next(o for o in facts.outputs if o.name == named[role]) for role in ("scores", "boxes"))
    if not scores.fits(count, 2) and not (scores.fits(2 * count) and boxes.fits(4 * count)):
        return None
    if not boxes.fits(count, 4) and not boxes.fits(4 * count):
        return None
    return {"outputs": named, "encoded": "Exp" not in facts.ancestors(boxes.name)}


DECODER = Decoder("boxes", decode, recognise, {"channels": "RGB", "mean": 127, "std": 128})
