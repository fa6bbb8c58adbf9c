"""Non-maximum suppression: of boxes that overlap, the best one is kept."""

from __future__ import annotations

from typing import List

import numpy as np

from runtime_arm.netdef import Array

CANDIDATES = 4096  # of more boxes than these, only the best are looked at


def non_maximum_suppression(corners: Array, scores: Array, classes: Array, overlap: float, limit: int) -> Array:
    """The places of at most ``limit`` boxes, the best first. A box is dropped if a better one of its class covers it
    with an intersection over union above ``overlap``.

    corners: (n, 4), x0 y0 x1 y1; scores, classes: (n,).
    """
    order = np.argsort(-scores, kind="stable")[:CANDIDATES]
    kept: List[int] = []
    while len(order) and len(kept) < limit:
        best, order = order[0], order[1:]
        kept.append(int(best))
        apart = intersection_over_union(corners[best], corners[order]) <= overlap
        order = order[apart | (classes[order] != classes[best])]
    return np.asarray(kept, np.int64)


def intersection_over_union(one: Array, others: Array) -> Array:
    """(n,) numbers for a box (4,) and others (n, 4), x0 y0 x1 y1; 0 where both are empty."""
    corner = np.maximum(one[:2], others[:, :2])
    size = np.maximum(np.minimum(one[2:], others[:, 2:]) - corner, 0)
    common = size[:, 0] * size[:, 1]
    areas = [np.prod(np.maximum(box[..., 2:] - box[..., :2], 0), axis=-1) for box in (one, others)]
    union = areas[0] + areas[1] - common
    return np.asarray(common / np.where(union > 0, union, 1))
