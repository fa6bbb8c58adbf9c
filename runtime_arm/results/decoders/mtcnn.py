"""MTCNN (Zhang et al., 2016): three nets, each of which filters and refines the windows of the one before it.

P-Net looks at every place of the picture in many sizes, R-Net and O-Net at the windows found, cut out. ``stage`` says
which net it is; ``transposed``, whether it takes columns before rows, as the authors' nets do, which were trained by
MATLAB. Outputs: scores (n, 2, ...), boxes (n, 4, ...) and, of O-Net, points (n, 10), relative to each window.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple
from runtime_arm.results.boxes import Faces, Found
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting
from runtime_arm.results.facts import Facts
from runtime_arm.results.frame import Frame
from runtime_arm.results.result import Result

STRIDE, WINDOW = 2, 12  # of P-Net


class Stage(NamedTuple):
    """One of the three nets: the size of its window, its outputs in the authors' nets, the least score that counts,
    and the overlap above which one of two boxes is dropped after it."""

    window: int
    boxes: str
    scores: str
    points: Optional[str]
    threshold: float
    overlap: float


STAGES = {
    "P": Stage(12, "conv4-2", "prob1", None, 0.6, 0.7),
    "R": Stage(24, "conv5-2", "prob1", None, 0.7, 0.7),
    "O": Stage(48, "conv6-2", "prob1", "conv6-3", 0.7, 0.7),
}
LABELS = ("face",)


def decode(outputs: Outputs, setting: Setting) -> Result:
    """Faces in one picture of the size that was fed."""
    found = candidates(outputs, setting.parameters, setting.frame, setting.least(threshold_of(setting.parameters)))
    return faces(found.distinct(0.5, 1000), setting.frame)


def faces(found: Found, frame: Frame) -> Faces:
    """The candidates as a result."""
    return Faces(found.boxes(frame, LABELS))


def threshold_of(parameters: Mapping[str, Any]) -> float:
    """The least score that counts for the stage."""
    return STAGES.get(str(parameters.get("stage")), STAGES["P"]).threshold


def candidates(outputs: Outputs, parameters: Mapping[str, Any], frame: Frame, threshold: float) -> Found:
    """What P-Net finds in a picture, or another net in one that it takes for a window; in pixels of the input."""
    roles = parameters["outputs"]
    scores, boxes = (np.asarray(outputs[roles[role]], np.float64) for role in ("scores", "boxes"))
    if parameters.get("stage") == "P":
        return _places(scores[0, 1], boxes[0], bool(parameters.get("transposed")), threshold)
    whole = np.asarray([[0, 0, frame.input_width, frame.input_height]], np.float64)
    points = outputs[roles["points"]] if "points" in roles else None
    return refined(whole, scores, boxes, points, threshold)


def _places(scores: Array, boxes: Array, transposed: bool, threshold: float) -> Found:
    """scores: (rows, columns); boxes: (4, rows, columns), offsets of x0, y0, x1, y1 in windows."""
    if transposed:
        scores, boxes = scores.T, boxes.transpose(0, 2, 1)
    y, x = np.nonzero(scores >= threshold)
    start = np.stack([x, y], axis=-1) * float(STRIDE)
    corners = np.concatenate([start, start + WINDOW], axis=1) + boxes[:, y, x].T * WINDOW
    return Found(corners, scores[y, x], np.zeros(len(x), np.int64))


def refined(windows: Array, scores: Array, boxes: Array, points: Optional[Array], threshold: float) -> Found:
    """Those windows (n, 4) that hold a face, moved as the net says. scores: (n, 2); boxes: (n, 4); points: (n, 10)."""
    size = windows[:, 2:] - windows[:, :2]
    corners = windows + boxes.reshape(-1, 4) * np.concatenate([size, size], axis=1)
    places = None
    if points is not None:
        shares = np.asarray(points, np.float64).reshape(-1, 2, 5).transpose(0, 2, 1)
        places = windows[:, None, :2] + shares * size[:, None]
    probability = scores.reshape(-1, 2)[:, 1]
    return Found(corners, probability, np.zeros(len(windows), np.int64), places).above(threshold)


def recognise(facts: Facts) -> Optional[Parameters]:
    """The output names of one of the authors' nets, and its window."""
    if facts.picture is None:
        return None
    for name, stage in STAGES.items():
        roles = {"boxes": stage.boxes, "scores": stage.scores, **({"points": stage.points} if stage.points else {})}
        if sorted(roles.values()) == sorted(output.name for output in facts.outputs):
            return {"stage": name, "transposed": True, "outputs": roles}
    return None


DECODER = Decoder(
    "boxes", decode, recognise, {"channels": "RGB", "mean": 127.5, "std": 128, "layout": "NCWH", "pad": 0}
)
