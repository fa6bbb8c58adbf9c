"""Rotated boxes as arrays of rows (centre x, centre y, width, height, angle in degrees); boxes.py has upright ones.

Source: Ma et al., Arbitrary-Oriented Scene Text Detection via Rotation Proposals, IEEE Trans. Multimedia 20(11), 2018;
caffe2/operators/generate_proposals_op_util_boxes.h.
"""

from __future__ import annotations

from typing import List, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common import boxes as box
from runtime_arm.records import NamedTuple

_TOUCHING = 1e-9  # how far outside an edge a corner may lie and still count as inside, relative to the boxes' size


class Angles(NamedTuple):
    """The range that angles are brought into, and the largest angle at which a box is clipped as an upright one."""

    bounded: bool
    low: int
    high: int
    upright: float


def angles_of(op: OperatorDef) -> Angles:
    """The arguments that bound an operator's angles; -90 to 90 degrees by default."""
    angles = Angles(
        op.get_bool("angle_bound_on", True),
        op.get_int("angle_bound_lo", -90),
        op.get_int("angle_bound_hi", 90),
        op.get_float("clip_angle_thresh", 1.0),
    )
    period = angles.high - angles.low
    if angles.bounded and (period <= 0 or period % 180):
        raise ArgumentError(op, f"angle_bound_hi - angle_bound_lo must be a multiple of 180, got {period}")
    return angles


def transform(boxes: Array, deltas: Array, weights: Sequence[float], angles: Angles) -> Array:
    """The boxes, moved, scaled and turned by deltas (dx, dy, dw, dh, da); all but da are divided by their weight."""
    dx, dy, dw, dh = (deltas[:, i] / deltas.dtype.type(weight) for i, weight in enumerate(weights))
    most = boxes.dtype.type(box.LARGEST_GROWTH)
    width, height = boxes[:, 2], boxes[:, 3]
    angle = deltas[:, 4] * deltas.dtype.type(180 / np.pi) + boxes[:, 4]
    if angles.bounded:
        period = boxes.dtype.type(angles.high - angles.low)
        angle = np.where(angle < angles.low, angle + period, np.where(angle > angles.high, angle - period, angle))
    return np.stack(
        [
            dx * width + boxes[:, 0],
            dy * height + boxes[:, 1],
            np.exp(np.minimum(dw, most)) * width,
            np.exp(np.minimum(dh, most)) * height,
            angle,
        ],
        axis=1,
    )


def clip(boxes: Array, height: int, width: int, plus: int, angles: Angles) -> Array:
    """The boxes, with those that are nearly upright clipped to the image; the others are unchanged."""
    half = (boxes[:, 2:4] - boxes.dtype.type(plus)) / 2
    corners = box.clip(np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1), height, width, plus)
    middle = (corners[:, :2] + corners[:, 2:]) / 2
    sides = corners[:, 2:] - corners[:, :2] + boxes.dtype.type(plus)
    cut = np.concatenate([middle, sides, boxes[:, 4:]], axis=1)
    return np.where(np.abs(boxes[:, 4:]) <= angles.upright, cut, boxes)


def corners(boxes: Array) -> Array:
    """The corners of each box, (n, 4, 2), in order around it."""
    turn = np.deg2rad(boxes[:, 4].astype(np.float64))
    x, y = (
        boxes[:, side, None].astype(np.float64) / 2 * signs
        for side, signs in ((2, np.array([-1, 1, 1, -1])), (3, np.array([-1, -1, 1, 1])))
    )
    sin, cos = np.sin(turn)[:, None], np.cos(turn)[:, None]
    return np.stack([boxes[:, :1] + x * cos + y * sin, boxes[:, 1:2] + y * cos - x * sin], axis=2)


def _cross(a: Array, b: Array) -> Array:
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


def _inside(points: Array, polygon: Array) -> Array:
    """Which of the points (n, 4, 2) lie inside the polygons (n, 4, 2)."""
    edges = np.roll(polygon, -1, axis=-2) - polygon
    sides = _cross(edges[:, None], points[:, :, None] - polygon[:, None])
    slack = _TOUCHING * np.abs(edges).max(axis=(1, 2), initial=0)[:, None, None] ** 2
    return np.asarray(np.all(sides >= -slack, axis=2) | np.all(sides <= slack, axis=2))


def common_area(one: Array, others: Array) -> Array:
    """The areas of intersection of the polygon ``one`` (4, 2) with each of ``others`` (n, 4, 2); all are rectangles.

    The intersection is the polygon whose corners are the corners that lie inside the other rectangle and the points
    where edges cross.
    """
    own = np.broadcast_to(one, others.shape)
    mine, theirs = np.roll(own, -1, axis=1) - own, np.roll(others, -1, axis=1) - others
    between = others[:, None] - own[:, :, None]
    slope = _cross(mine[:, :, None], theirs[:, None])
    crosses = slope != 0
    safe = np.where(crosses, slope, 1)
    along = _cross(between, theirs[:, None]) / safe
    across = _cross(between, mine[:, :, None]) / safe
    crosses &= (along >= 0) & (along <= 1) & (across >= 0) & (across <= 1)
    crossings = own[:, :, None] + along[..., None] * mine[:, :, None]
    points = np.concatenate([own, others, crossings.reshape(len(others), 16, 2)], axis=1)
    valid = np.concatenate([_inside(own, others), _inside(others, own), crosses.reshape(len(others), 16)], axis=1)
    return _area(points, valid)


def _area(points: Array, valid: Array) -> Array:
    """The area of the convex polygon of the valid points (n, 24, 2), in any order."""
    some = valid.any(axis=1)
    first = np.take_along_axis(points, valid.argmax(axis=1)[:, None, None], axis=1)
    points = np.where(valid[:, :, None], points, first) - first
    centre = (points * valid[:, :, None]).sum(1, keepdims=True) / np.maximum(valid.sum(1), 1)[:, None, None]
    spokes = points - centre
    order = np.argsort(np.arctan2(spokes[..., 1], spokes[..., 0]), axis=1)
    around = np.take_along_axis(spokes, order[:, :, None], axis=1)
    return np.asarray(np.where(some, np.abs(_cross(around, np.roll(around, -1, axis=1)).sum(1)) / 2, 0))


def nms(boxes: Array, order: Array, threshold: float, limit: int = -1) -> List[int]:
    """Greedy non-maximum suppression of rotated boxes: the indices that are kept.

    order: the candidates, best first.
    """
    polygons, areas = corners(boxes), (boxes[:, 2] * boxes[:, 3]).astype(np.float64)

    def is_kept(ones: Array, rest: Array) -> Array:
        common = np.stack([common_area(polygons[one], polygons[rest]) for one in ones[:, 0]])
        return np.asarray(common <= np.float32(threshold) * (areas[ones] + areas[rest] - common))

    return box.suppress(order, is_kept, limit, together=1)
