"""MTCNN as a whole: P-Net over a pyramid of the picture, then R-Net and O-Net over its windows.

Source: Zhang et al., 2016, and the authors' detect_face.m.
"""

from __future__ import annotations

from typing import Any, List, Sequence, TypeVar

import numpy as np

from runtime_arm.app.answer import Answer, Net, Options
from runtime_arm.app.pictures import prepare
from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array
from runtime_arm.results.boxes import Faces, Found
from runtime_arm.results.decoders.mtcnn import LABELS, STAGES, WINDOW, candidates, refined
from runtime_arm.results.frame import Frame

AnyNet = TypeVar("AnyNet", bound=Net)

SMALLEST = 20  # pixels of a face's shorter side
_STEP = 0.709  # from one level of the pyramid to the next
_LARGEST = 1280  # pixels: a larger picture is reduced first
_MOST = 1000  # windows that go to the next net
_AT_ONCE = 64  # windows in one run


def in_order(models: Sequence[AnyNet]) -> List[AnyNet]:
    """P-Net, R-Net and O-Net, as far as they are there. UsageError if they are no stages of an MTCNN."""
    stages = {str(model.entry.get("stage")): model for model in models if model.entry["decoder"] == "mtcnn"}
    names = [name for name in STAGES if name in stages]
    if len(stages) != len(models) or names != list(STAGES)[: len(names)]:
        raise UsageError("several nets that answer together are the stages of an MTCNN: P-Net, R-Net and O-Net")
    return [stages[name] for name in names]


def answered(models: Sequence[Net], picture: Any, options: Options) -> Answer:
    """The faces in an upright Pillow picture."""
    first, *rest = models
    found = _proposed(first, picture, options.threshold)
    for model in rest:
        if len(found.scores):
            found = _sorted_out(model, picture, found, options.threshold)
    frame = Frame.whole(*picture.size)
    return Answer(Faces(found.boxes(frame, LABELS)), {}, picture)


def _proposed(model: Net, picture: Any, threshold: Any) -> Found:
    """The windows that P-Net finds at every scale, in pixels of the picture."""
    stage = STAGES["P"]
    width, height = picture.size
    scale = min(WINDOW / SMALLEST, _LARGEST / max(width, height))
    found: List[Found] = []
    while min(width, height) * scale >= WINDOW:
        size = [max(WINDOW, round(height * scale)), max(WINDOW, round(width * scale))]
        rule = {**model.rule, "resize": size}
        batch, frame = prepare(picture, rule, _shape(model))
        model.say_fed(batch)
        outputs = model.run({model.pair.inputs[0].name: batch})
        level = candidates(outputs, model.entry, frame, stage.threshold if threshold is None else threshold)
        level = level._replace(corners=_unclipped(frame, level.corners))
        found.append(level.distinct(0.5, _MOST))
        scale *= _STEP
    return _joined(found).distinct(stage.overlap, _MOST)


def _shape(model: Net) -> Any:
    return None if model.input is None else model.input.shape


def _unclipped(frame: Frame, corners: Array) -> Array:
    return np.concatenate([frame.points(corners[:, :2]), frame.points(corners[:, 2:])], axis=1)


def _joined(parts: Sequence[Found]) -> Found:
    if not parts:
        return Found(np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64))
    return Found(*(np.concatenate([part[at] for part in parts]) for at in range(3)))


def _sorted_out(model: Net, picture: Any, found: Found, threshold: Any) -> Found:
    """Those windows that the net takes for faces, moved as it says."""
    stage = STAGES[str(model.entry["stage"])]
    windows = _squares(found.corners)
    kept: List[Found] = []
    for start in range(0, len(windows), _AT_ONCE):
        some = windows[start : start + _AT_ONCE]
        batch = np.concatenate([_cut(model, picture, window, stage.window) for window in some])
        outputs = model.run({model.pair.inputs[0].name: batch})
        roles = model.entry["outputs"]
        scores, boxes = (np.asarray(outputs[roles[role]], np.float64) for role in ("scores", "boxes"))
        points = outputs[roles["points"]] if "points" in roles else None
        least = stage.threshold if threshold is None else threshold
        kept.append(refined(some, scores, boxes, points, least))
    whole = _joined([part._replace(points=None) for part in kept])
    if all(part.points is not None for part in kept):
        whole = whole._replace(points=np.concatenate([part.points for part in kept if part.points is not None]))
    return whole.distinct(stage.overlap, _MOST)


def _squares(corners: Array) -> Array:
    """Boxes made square about their centres."""
    centre = (corners[:, :2] + corners[:, 2:]) / 2
    half = (corners[:, 2:] - corners[:, :2]).max(axis=1, keepdims=True) / 2
    return np.concatenate([centre - half, centre + half], axis=1)


def _cut(model: Net, picture: Any, window: Array, size: int) -> Array:
    """One window as a batch of one; pixels outside the picture are black."""
    x0, y0, x1, y1 = (round(float(edge)) for edge in window)
    part = picture.crop((x0, y0, max(x1, x0 + 1), max(y1, y0 + 1)))
    return prepare(part, {**model.rule, "resize": [size, size]}, _shape(model)).batch
