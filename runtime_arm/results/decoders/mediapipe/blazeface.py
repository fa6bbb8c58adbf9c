"""BlazeFace (Bazarevsky et al., 2019) and MediaPipe's other detectors of the same make: palms, and faces of bodies.

Outputs: boxes (1, n, 4 + 2 k), a centre, a size and k points in pixels of the input, relative to anchors; scores
(1, n, 1), logits. Source: MediaPipe, ssd_anchors_calculator.cc and tensors_to_detections_calculator.cc.
"""

from __future__ import annotations

from typing import Dict, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import FeedError, UsageError
from runtime_arm.netdef import Array
from runtime_arm.results.boxes import Faces, Found
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting, corners_of, sigmoid
from runtime_arm.results.facts import Facts
from runtime_arm.results.grids import cells
from runtime_arm.results.result import Result

Levels = Sequence[Tuple[int, int]]  # the stride and the anchors a cell of each level

Known = Dict[Tuple[int, int, int], Tuple[str, Levels]]

# By (size of the input, anchors, numbers of an anchor): what is found, and the levels.
KNOWN: Known = {
    (128, 896, 16): ("face", ((8, 2), (16, 6))),
    (256, 896, 16): ("face", ((16, 2), (32, 6))),
    (192, 2304, 16): ("face", ((4, 1),)),
    (256, 2944, 18): ("palm", ((8, 2), (16, 2), (32, 6))),
    (224, 2254, 12): ("face", ((8, 2), (16, 2), (32, 6))),
}
PALMS: Known = {(192, 2016, 18): ("palm", ((8, 2), (16, 6)))}
THRESHOLD, OVERLAP = 0.5, 0.3


def decode(outputs: Outputs, setting: Setting) -> Result:
    """Faces with eyes, nose, mouth and ears, or with the middle of hips and shoulders and two points that lie as far
    away as the body reaches; palms with their joints."""
    raw = setting.output(outputs, "boxes").astype(np.float64)
    scores = sigmoid(setting.output(outputs, "scores").reshape(-1))
    raw = raw.reshape(len(scores), -1)
    size = (setting.frame.input_width, setting.frame.input_height)
    label, levels = {**KNOWN, **PALMS}.get((size[0], *raw.shape), ("", ()))
    if not levels:
        raise UsageError(f"no BlazeFace of input {size[0]}x{size[1]} has outputs of {raw.shape[0]}x{raw.shape[1]}")
    anchors = _anchors(size[1], size[0], levels)
    if len(anchors) != len(raw):
        raise FeedError(f"the net gives {len(raw)} boxes; its input has {len(anchors)} anchors")
    points = raw[:, 4:].reshape(len(raw), -1, 2) + anchors[:, None]
    corners = corners_of(raw[:, :2] + anchors, raw[:, 2:4])
    found = Found(corners, scores, np.zeros(len(scores), np.int64), points).above(setting.least(THRESHOLD))
    return Faces(found.distinct(setting.number("overlap", OVERLAP), 100).boxes(setting.frame, (label,)))


def _anchors(height: int, width: int, levels: Levels) -> Array:
    """The anchors' centres (n, 2) in pixels of the input."""
    parts = [cells(height, width, (stride,), count) for stride, count in levels]
    return np.concatenate([(place + 0.5) * stride for place, stride in parts])


def recognise(facts: Facts) -> Optional[Parameters]:
    """Two outputs of as many rows, and an input size, that MediaPipe publishes."""
    return recognised(facts, KNOWN)


def recognised(facts: Facts, known: Known) -> Optional[Parameters]:
    """The parameters of the net if it is one of these."""
    if facts.picture is None or len(facts.outputs) != 2:
        return None
    for size, count, width in known:
        boxes, scores = facts.fitting(count, width), facts.fitting(count, 1)
        if len(boxes) == len(scores) == 1 and (facts.picture.height, facts.picture.width) == (size, size):
            return {"outputs": {"boxes": boxes[0].name, "scores": scores[0].name}}
    return None


DECODER = Decoder(
    "boxes", decode, recognise, {"channels": "RGB", "mean": 127.5, "std": 127.5, "fit": "letterbox", "pad": 0}
)
