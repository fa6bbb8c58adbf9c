"""TensorFlow Lite's NonMaxSuppression and DetectionPostProcess, the post-processing of SSD networks.

Source: TensorFlow Lite, kernels/internal/reference/non_max_suppression.h and kernels/detection_postprocess.cc.
"""

from __future__ import annotations

import heapq
from typing import Any, List, Optional, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("NonMaxSuppression", domain="tflite", inputs=(5, 6), outputs=3)
def non_max_suppression(
    op: OperatorDef,
    boxes: TensorSpec,
    scores: TensorSpec,
    most: TensorSpec,
    iou: TensorSpec,
    least: TensorSpec,
    sigma: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """The indices of the boxes that are kept, best first, their scores, and their number; padded to ``most`` with 0.

    boxes: (N, 4), two opposite corners (y, x); scores: (N). A box is dropped if its overlap with a better one reaches
    ``iou``, or if its score does not exceed ``least``. If sigma is positive, the scores of overlapping boxes decay
    (soft NMS).
    """
    require(
        op,
        boxes.ndim == 2 and boxes.shape[1] == 4 and scores.shape == boxes.shape[:1],
        "boxes must be (N, 4) and scores (N)",
        boxes,
        scores,
    )
    require(op, boxes.dtype == scores.dtype == np.float32, "boxes and scores must be float32", boxes, scores)
    require(
        op,
        all(spec is None or spec.size == 1 for spec in (most, iou, least, sigma)),
        "each limit must be one number",
        most,
        iou,
        least,
        sigma,
    )
    count = _one(op, most, "most")
    require(op, count >= 0, f"the maximum number of boxes must not be negative, got {count}")
    return [TensorSpec((count,), np.int32), TensorSpec((count,), np.float32), TensorSpec((), np.int32)]


def _one(op: OperatorDef, spec: TensorSpec, what: str) -> int:
    (number,) = integers_of(op, spec, what)
    return number


_AT_ONCE = 64  # boxes that DetectionPostProcess compares with each that it keeps


class _Candidate(NamedTuple):
    """A box in the queue. The smallest comes first."""

    negative_score: float
    box: int
    compared: int  # the number of kept boxes it has been compared with


@non_max_suppression.reference
def non_max_suppression_reference(
    op: OperatorDef, boxes: Array, scores: Array, most: Array, iou: Array, least: Array, sigma: Optional[Array] = None
) -> List[Any]:
    count, threshold = int(most.reshape(-1)[0]), np.float32(iou.reshape(-1)[0])
    floor = np.float32(least.reshape(-1)[0])
    softness = np.float32(0 if sigma is None else sigma.reshape(-1)[0])
    decay = np.float32(-0.5) / softness if softness > 0 else np.float32(0)
    corners = np.concatenate([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], axis=1)
    queue = [_Candidate(-float(score), index, 0) for index, score in enumerate(scores) if score > floor]
    heapq.heapify(queue)
    kept: List[int] = []
    kept_scores: List[Any] = []
    while queue and len(kept) < count:
        candidate = heapq.heappop(queue)
        score, suppressed = np.float32(-candidate.negative_score), False
        for other in reversed(kept[candidate.compared :]):
            overlap = _overlap(corners[candidate.box], corners[other])
            suppressed = bool(overlap >= threshold)
            if suppressed:
                break
            score = np.float32(score * np.exp(decay * overlap * overlap)) if softness > 0 else score
            if score <= floor:
                break
        if not suppressed and -float(score) == candidate.negative_score:
            kept.append(candidate.box)
            kept_scores.append(score)
        elif not suppressed and score > floor:
            heapq.heappush(queue, _Candidate(-float(score), candidate.box, len(kept)))
    indices, values = np.zeros(count, np.int32), np.zeros(count, np.float32)
    indices[: len(kept)], values[: len(kept)] = kept, kept_scores
    return [indices, values, np.array(len(kept), np.int32)]


def _overlap(one: Array, others: Array) -> Any:
    """Intersection over union of one box with others, 0 if a box has no area. Rows: the lower and the upper corner."""
    heads, tails = np.maximum(one[..., :2], others[..., :2]), np.minimum(one[..., 2:], others[..., 2:])
    sides = np.maximum(tails - heads, 0)
    common = sides[..., 0] * sides[..., 1]
    area, areas = ((box[..., 2] - box[..., 0]) * (box[..., 3] - box[..., 1]) for box in (one, others))
    defined = (area > 0) & (areas > 0)
    return np.where(defined, common / np.where(defined, area + areas - common, 1), 0).astype(np.float32)


class _Limits(NamedTuple):
    """The arguments of DetectionPostProcess."""

    detections: int
    classes_per_detection: int
    detections_per_class: int
    regular: bool
    least: np.float32
    overlap: np.float32
    classes: int


def _limits(op: OperatorDef) -> _Limits:
    limits = _Limits(
        op.get_int("max_detections"),
        op.get_int("max_classes_per_detection"),
        op.get_int("detections_per_class", 100),
        op.get_bool("use_regular_nms", False),
        np.float32(op.get_float("nms_score_threshold")),
        np.float32(op.get_float("nms_iou_threshold")),
        op.get_int("num_classes"),
    )
    if min(limits.detections, limits.classes_per_detection, limits.detections_per_class, limits.classes) < 1:
        raise ArgumentError(op, f"numbers of detections and classes must be positive, got {limits}")
    if not 0 < limits.overlap <= 1:
        raise ArgumentError(op, f"nms_iou_threshold must be greater than 0 and at most 1, got {limits.overlap}")
    if any(not op.get_float(f"{name}_scale") > 0 for name in "yxhw"):
        raise ArgumentError(op, "the scales of the boxes must be positive")
    return limits


@operator("DetectionPostProcess", domain="tflite", inputs=3, outputs=4, dtypes=("float32",))
def detection_post_process(
    op: OperatorDef, boxes: TensorSpec, scores: TensorSpec, anchors: TensorSpec
) -> List[TensorSpec]:
    """Boxes (1, n, 4) as (y1, x1, y2, x2), classes (1, n), scores (1, n) and their number (1), padded with zeros.

    boxes: (1, N, 4 or more), offsets (y, x, h, w) from the anchors, (N, 4), in units of 1 / y_scale, x_scale, h_scale,
    w_scale; scores: (1, N, classes), possibly with a background class in front. With ``use_regular_nms`` boxes are
    suppressed class by class, and ``max_detections`` are kept. Otherwise they are suppressed by their best class, and
    each is given in its ``max_classes_per_detection`` best classes. n is the product of the two.
    """
    limits = _limits(op)
    require(
        op,
        boxes.ndim == 3 and boxes.shape[0] == 1 and boxes.shape[2] >= 4 and scores.ndim == 3,
        "boxes must be (1, N, 4) and scores (1, N, classes)",
        boxes,
        scores,
    )
    require(
        op,
        scores.shape[:2] == boxes.shape[:2] and anchors.shape == (boxes.shape[1], 4),
        "there must be as many boxes as scores and anchors",
        boxes,
        scores,
        anchors,
    )
    require(
        op, 0 <= scores.shape[2] - limits.classes <= 1, f"there must be {limits.classes} classes, or one more", scores
    )
    count = limits.detections * limits.classes_per_detection
    shapes = ((1, count, 4), (1, count), (1, count), (1,))
    return [TensorSpec(shape, np.float32) for shape in shapes]


@detection_post_process.reference
def detection_post_process_reference(op: OperatorDef, boxes: Array, scores: Array, anchors: Array) -> List[Any]:
    limits = _limits(op)
    corners = _decoded(op, boxes[0], anchors)
    background = scores.shape[2] - limits.classes
    rows = (_regular if limits.regular else _fast)(limits, corners, scores[0][:, background:])
    count = limits.detections * limits.classes_per_detection
    result = [np.zeros((1, count, 4), np.float32), np.zeros((1, count), np.float32), np.zeros((1, count), np.float32)]
    for place, (box, category, score, slot) in enumerate(rows):
        at = place if slot is None else slot
        result[0][0, at], result[1][0, at], result[2][0, at] = corners[box], category, score
    found = len(rows) if limits.regular else len({box for box, *_ in rows})
    return [*result, np.array([found], np.float32)]


_Row = Tuple[int, int, Any, Optional[int]]  # box, class, score, position in the output


def _decoded(op: OperatorDef, boxes: Array, anchors: Array) -> Array:
    """Corners (y1, x1, y2, x2) of boxes relative to anchors (y, x, h, w). Centres and half sides are rounded."""
    offsets = boxes[:, :4].astype(np.float64) / [np.float32(op.get_float(f"{name}_scale")) for name in "yxhw"]
    origins, sides = anchors[:, :2].astype(np.float64), anchors[:, 2:].astype(np.float64)
    centers = (offsets[:, :2] * sides + origins).astype(np.float32)
    halves = (0.5 * np.exp(offsets[:, 2:]) * sides).astype(np.float32)
    return np.concatenate([centers - halves, centers + halves], axis=1)


def _best_first(values: Array) -> Array:
    """Indices in descending order of the values. Equal ones keep their order."""
    return np.argsort(-values, kind="stable")


def _suppressed(limits: _Limits, corners: Array, scores: Array, most: int) -> List[int]:
    """The boxes that suppression by these scores keeps, best first.

    They are found among some of the best at a time: mostly ``most`` boxes are kept long before the worst are met.
    """
    candidates = np.flatnonzero(scores >= limits.least)
    order = candidates[_best_first(scores[candidates])]
    kept: List[int] = []
    for first in range(0, len(order), _AT_ONCE):
        part = order[first : first + _AT_ONCE]
        if kept:
            part = part[np.all(_overlap(corners[kept][:, None], corners[part]) <= limits.overlap, axis=0)]
        while len(part) and len(kept) < most:
            kept.append(int(part[0]))
            part = part[1:]
            part = part[_overlap(corners[kept[-1]], corners[part]) <= limits.overlap]
        if len(kept) == most:
            break
    return kept


def _fast(limits: _Limits, corners: Array, scores: Array) -> List[_Row]:
    """Suppression by the best class of each box."""
    per_box = min(limits.classes_per_detection, limits.classes)
    rows: List[_Row] = []
    for rank, box in enumerate(_suppressed(limits, corners, scores.max(axis=1), limits.detections)):
        best = _best_first(scores[box])[:per_box]
        rows += [
            (box, int(category), scores[box, category], rank * per_box + place) for place, category in enumerate(best)
        ]
    return rows


def _regular(limits: _Limits, corners: Array, scores: Array) -> List[_Row]:
    """Suppression class by class, then the best of all."""
    rows: List[_Row] = []
    for category in range(limits.classes):
        kept = _suppressed(limits, corners, scores[:, category], limits.detections_per_class)
        rows += [(box, category, scores[box, category], None) for box in kept]
        rows = sorted(rows, key=lambda row: -row[2])[: limits.detections]
    return rows
