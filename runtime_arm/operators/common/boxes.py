"""Boxes as arrays of rows (x1, y1, x2, y2): transforming, clipping, overlap, suppression.

Detectron counts pixels: a box from 0 to 0 is one pixel wide. ``plus`` is that one pixel, or 0 for continuous
coordinates. Everything is computed in the boxes' own dtype, so that threshold decisions match the recorded ones.
"""

from __future__ import annotations

from typing import Any, Callable, List, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array

LARGEST_GROWTH = float(np.log(1000.0 / 16.0))  # largest growth of a side, in log space
TOGETHER = 64  # boxes that are compared among themselves by one call
MOST_PAIRS = 1 << 15  # pairs of boxes that are compared by one call, if they are more than one with all the rest


def sides(boxes: Array, plus: int) -> Tuple[Array, Array]:
    """Widths and heights of the boxes."""
    unit = boxes.dtype.type(plus)
    return boxes[:, 2] - boxes[:, 0] + unit, boxes[:, 3] - boxes[:, 1] + unit


def transform(boxes: Array, deltas: Array, weights: Sequence[float], plus: int) -> Array:
    """The boxes, moved and scaled by regression deltas (dx, dy, dw, dh). Each delta is divided by its weight first.

    Source: Girshick et al., Rich feature hierarchies, CVPR 2014, appendix C.
    """
    half, unit = boxes.dtype.type(0.5), boxes.dtype.type(plus)
    width, height = sides(boxes, plus)
    dx, dy, dw, dh = (deltas[:, i] / deltas.dtype.type(weight) for i, weight in enumerate(weights))
    center_x = dx * width + (boxes[:, 0] + half * width)
    center_y = dy * height + (boxes[:, 1] + half * height)
    most = boxes.dtype.type(LARGEST_GROWTH)
    width, height = np.exp(np.minimum(dw, most)) * width, np.exp(np.minimum(dh, most)) * height
    corners = (
        center_x - half * width,
        center_y - half * height,
        center_x + half * width - unit,
        center_y + half * height - unit,
    )
    return np.stack(corners, axis=1)


def clip(boxes: Array, height: int, width: int, plus: int) -> Array:
    """The boxes, clipped to the image."""
    most = np.array([width, height, width, height], boxes.dtype) - boxes.dtype.type(plus)
    return np.asarray(np.maximum(np.minimum(boxes, most), boxes.dtype.type(0)))


def common_area(columns: Array, ones: Array, others: Array, plus: int = 0) -> Array:
    """The areas of intersection of the boxes ``ones`` with the boxes ``others``, given by indices that are broadcast.

    columns: x1, y1, x2 and y2 of all boxes.
    """
    x1, y1, x2, y2 = columns
    unit, zero = columns.dtype.type(plus), columns.dtype.type(0)
    width = np.minimum(x2[others], x2[ones]) - np.maximum(x1[others], x1[ones]) + unit
    height = np.minimum(y2[others], y2[ones]) - np.maximum(y1[others], y1[ones]) + unit
    return np.asarray(np.maximum(width, zero) * np.maximum(height, zero))


def overlaps(boxes: Array, plus: int) -> Callable[[Any, Array], Array]:
    """Returns a function of two arrays of indices, which are broadcast: the boxes' intersection over their union."""
    columns = np.ascontiguousarray(boxes.T)
    widths, heights = sides(boxes, plus)
    areas = widths * heights

    def overlap(ones: Any, others: Array) -> Array:
        common = common_area(columns, ones, others, plus)
        return np.asarray(common / (areas[ones] + areas[others] - common))

    return overlap


def suppress(
    order: Array, is_kept: Callable[[Array, Array], Array], limit: int = -1, together: int = TOGETHER
) -> List[int]:
    """Greedy suppression: the indices of the boxes taken, at most ``limit`` (-1: no limit).

    Takes the boxes in ``order``. Each box taken removes those of the rest that it does not keep: ``is_kept`` is given a
    column of boxes and a row of others, by index, and returns a row for each box. A call of NumPy takes as long as some
    hundred boxes; so this many ``together`` are compared among themselves first, then those taken with all the rest.
    """
    taken: List[int] = []
    while order.size and len(taken) != limit:
        ones, order = order[:together], order[together:]
        if ones.size > 1:
            ones = ones[_survivors(is_kept(ones[:, None], ones))]
        ones = ones[: None if limit < 0 else limit - len(taken)]
        taken += ones.tolist()
        while ones.size and order.size:
            count = max(1, MOST_PAIRS // order.size)
            order, ones = order[is_kept(ones[:count, None], order).all(axis=0)], ones[count:]
    return taken


def _survivors(kept: Array) -> Array:
    """Which boxes are taken, one after the other, where ``kept[i, j]`` says whether box i keeps box j behind it."""
    alive = np.ones(len(kept), bool)
    for at, row in enumerate(kept):
        if alive[at]:
            alive[at + 1 :] &= row[at + 1 :]
    return alive


def nms(boxes: Array, order: Array, threshold: float, plus: int, limit: int = -1) -> List[int]:
    """Greedy non-maximum suppression as in Detectron: the indices that are kept.

    order: the candidates, best first.
    """
    overlap, most = overlaps(boxes, plus), boxes.dtype.type(threshold)
    return suppress(order, lambda ones, rest: overlap(ones, rest) <= most, limit)


def soft_nms(
    boxes: Array, scores: Array, candidates: Array, weigh: Callable[[Array], Array], least: float, plus: int
) -> Tuple[List[int], Array]:
    """Soft non-maximum suppression. Returns the indices that are kept, best first, and all scores as they are then.

    A box that overlaps a better one is not dropped; its score is multiplied by ``weigh(overlaps)``. Boxes whose score
    falls below ``least`` are dropped. Source: Bodla et al., Soft-NMS, ICCV 2017.
    """
    overlap, scores, pending = overlaps(boxes, plus), scores.copy(), candidates.copy()
    taken: List[int] = []
    while pending.size:
        best = int(np.argmax(scores[pending]))
        one = int(pending[best])
        taken.append(one)
        pending[best] = pending[0]
        rest = pending[1:]
        scores[rest] *= weigh(overlap(one, rest))
        pending = rest[scores[rest] >= scores.dtype.type(least)]
    return taken, scores


def best_first(scores: Array) -> Array:
    """Indices that sort the scores in descending order. Equal scores keep their order."""
    return np.argsort(-scores, kind="stable")
