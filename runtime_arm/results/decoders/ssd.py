"""SSD as TensorFlow's object detection trains it, before its boxes are chosen.

Outputs: boxes (1, n, 4) as offsets y, x, height, width from anchors, and scores (1, n, 1 + classes), logits, of which
class 0 is the background. Parameters: ``anchors``, a list of [y, x, height, width] in fractions of the input; without
it they are those of SSD MobileNet: six levels, scales from 0.2 to 0.95.
"""

from __future__ import annotations

import math
from typing import List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import FeedError, UsageError
from runtime_arm.netdef import Array
from runtime_arm.results.boxes import Boxes, Found
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting, corners_of, sigmoid
from runtime_arm.results.facts import Facts
from runtime_arm.results.result import Result

_CENTRE, _SIZE = 10.0, 5.0  # the offsets' scales
_LEAST, _MOST, _LEVELS = 0.2, 0.95, 6
_NAMES = ("raw_outputs/box_encodings", "raw_outputs/class_predictions")


def decode(outputs: Outputs, setting: Setting) -> Result:
    """Boxes."""
    offsets = setting.output(outputs, "boxes").reshape(-1, 4).astype(np.float64)
    scores = sigmoid(setting.output(outputs, "scores").reshape(len(offsets), -1))[:, 1:]
    anchors = _anchors(setting)
    if len(anchors) != len(offsets):
        raise FeedError(
            f"the net gives {len(offsets)} boxes, there are {len(anchors)} anchors; armnet describe --set anchors=..."
        )
    centres = offsets[:, :2] / _CENTRE * anchors[:, 2:] + anchors[:, :2]
    sizes = np.exp(np.clip(offsets[:, 2:] / _SIZE, -20, 20)) * anchors[:, 2:]
    corners = corners_of(centres[:, ::-1], sizes[:, ::-1])
    best = scores.argmax(axis=1)
    found = Found(setting.frame.fractions(corners), scores[np.arange(len(best)), best], best)
    found = found.above(setting.least(0.5)).distinct(setting.number("overlap", 0.6), 100)
    return Boxes(found.boxes(setting.frame, setting.labels))


def _anchors(setting: Setting) -> Array:
    given = setting.parameters.get("anchors")
    if given is None:
        return mobilenet_anchors(setting.frame.input_height, setting.frame.input_width)
    try:
        anchors = np.asarray(given, np.float64).reshape(-1, 4)
    except (ValueError, TypeError) as error:
        raise UsageError("the result's parameter 'anchors' must be a list of [y, x, height, width]") from error
    return anchors


def mobilenet_anchors(height: int, width: int) -> Array:
    """(n, 4): y, x, height, width in fractions. Source: multiple_grid_anchor_generator.py, create_ssd_anchors."""
    scales = [_LEAST + (_MOST - _LEAST) * level / (_LEVELS - 1) for level in range(_LEVELS)] + [1.0]
    rows, columns = -(-height // 16), -(-width // 16)
    found = []
    for level in range(_LEVELS):
        y, x = np.mgrid[:rows, :columns]
        centres = np.stack([(y + 0.5) / rows, (x + 0.5) / columns], axis=-1)[:, :, None]
        sizes = np.asarray([(s / math.sqrt(r), s * math.sqrt(r)) for s, r in _shapes(level, scales)])
        both = np.concatenate(np.broadcast_arrays(centres, sizes), axis=-1)
        found.append(both.reshape(-1, 4))
        rows, columns = -(-rows // 2), -(-columns // 2)
    return np.concatenate(found)


def _shapes(level: int, scales: Sequence[float]) -> List[Tuple[float, float]]:
    """Scale and aspect ratio of each anchor of a cell."""
    if level == 0:
        return [(0.1, 1.0), (scales[0], 2.0), (scales[0], 0.5)]
    ratios = (1.0, 2.0, 0.5, 3.0, 1 / 3)
    between = math.sqrt(scales[level] * scales[level + 1])
    return [*((scales[level], ratio) for ratio in ratios), (between, 1.0)]


def recognise(facts: Facts) -> Optional[Parameters]:
    """TensorFlow's names, and as many rows as SSD MobileNet has anchors."""
    named = facts.named(*_NAMES)
    if named is None or facts.picture is None or facts.picture.height is None or facts.picture.width is None:
        return None
    boxes, scores = (next(o for o in facts.outputs if o.name == named[name]) for name in _NAMES)
    count = len(mobilenet_anchors(facts.picture.height, facts.picture.width))
    if not scores.fits(count, None) or not (boxes.fits(count, 4) or boxes.fits(count, 1, 4)):
        return None
    width = (scores.shape or ())[-1]
    return {"outputs": {"boxes": boxes.name, "scores": scores.name}, **({"classes": width - 1} if width else {})}


DECODER = Decoder("boxes", decode, recognise, {"channels": "RGB", "mean": 127.5, "std": 127.5}, classes=True)
