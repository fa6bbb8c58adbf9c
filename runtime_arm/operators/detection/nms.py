"""ONNX's NonMaxSuppression."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.boxes import best_first, common_area, suppress
from runtime_arm.registry.schema import DataDependent, operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("NonMaxSuppression", domain="onnx", inputs=(2, 5))
def non_max_suppression(
    op: OperatorDef,
    boxes: TensorSpec,
    scores: TensorSpec,
    most: Optional[TensorSpec] = None,
    iou: Optional[TensorSpec] = None,
    least: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """(n, 3) int64: batch, class and row of the boxes that are kept, by batch and class, best first.

    boxes: (batch, N, 4), two opposite corners (y, x), or with ``center_point_box`` centre (x, y), width and height;
    scores: (batch, classes, N). Further inputs: how many boxes of a class to keep (0), the overlap above which the
    worse of two boxes is dropped (0), the score to exceed.
    """
    require(
        op,
        boxes.ndim == 3 and boxes.shape[2] == 4 and scores.ndim == 3,
        "boxes must be (batch, N, 4) and scores (batch, classes, N)",
        boxes,
        scores,
    )
    require(
        op,
        (boxes.shape[0], boxes.shape[1]) == (scores.shape[0], scores.shape[2]),
        "boxes and scores must agree in batch and N",
        boxes,
        scores,
    )
    require(op, boxes.dtype.kind == scores.dtype.kind == "f", "boxes and scores must be floats", boxes, scores)
    require(
        op,
        all(spec is None or spec.size == 1 for spec in (most, iou, least)),
        "each limit must be one number",
        most,
        iou,
        least,
    )
    if op.get_int("center_point_box", 0) not in (0, 1):
        raise ArgumentError(op, f"center_point_box must be 0 or 1, got {op.get_int('center_point_box')}")
    raise DataDependent("the boxes kept")


@non_max_suppression.reference
def non_max_suppression_reference(
    op: OperatorDef,
    boxes: Array,
    scores: Array,
    most: Optional[Array] = None,
    iou: Optional[Array] = None,
    least: Optional[Array] = None,
) -> List[Any]:
    limit = 0 if most is None else max(int(most.reshape(-1)[0]), 0)
    threshold = 0.0 if iou is None else iou.reshape(-1)[0]
    require(op, bool(0 <= threshold <= 1), f"the overlap must be 0 to 1, got {threshold}")
    least_score = -np.inf if least is None else least.reshape(-1)[0]
    rows: List[List[int]] = []
    for batch in range(boxes.shape[0]):
        is_kept = _keeps(_corners(op, boxes[batch]), threshold)
        for category in range(scores.shape[1]):
            own = scores[batch, category]
            candidates = np.flatnonzero(own > least_score)
            order = candidates[best_first(own[candidates])]
            rows += [[batch, category, row] for row in suppress(order, is_kept, limit)]
    return [np.array(rows, np.int64).reshape(-1, 3)]


def _corners(op: OperatorDef, boxes: Array) -> Array:
    """Rows of the lower and the upper corner."""
    if op.get_int("center_point_box", 0):
        half = boxes[:, 2:] / 2
        return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)
    return np.concatenate([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], axis=1)


def _keeps(corners: Array, threshold: float) -> Callable[[Array, Array], Array]:
    """A function of two arrays of indices, which are broadcast: whether boxes overlap by no more than the threshold.

    A box without area overlaps none.
    """
    columns = np.ascontiguousarray(corners.T)
    areas = (columns[2] - columns[0]) * (columns[3] - columns[1])

    def is_kept(ones: Array, others: Array) -> Array:
        common = common_area(columns, ones, others)
        union = areas[ones] + areas[others] - common
        defined = (areas[ones] > 0) & (areas[others] > 0) & (union > 0)
        return np.asarray(np.divide(common, union, out=np.zeros_like(common), where=defined) <= threshold)

    return is_kept
