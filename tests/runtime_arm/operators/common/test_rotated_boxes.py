"""Rotated boxes: areas counted on a grid of points; upright boxes behave as in the upright operators."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common import rotated_boxes as rotated
from runtime_arm.registry.schema import lookup
from tests.support.exact import assert_same
from tests.support.operands import caffe2

IMAGE = np.array([[60, 80, 1]], np.float32)


def draw(count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    parts = [rng.uniform(10, 40, (count, 2)), rng.uniform(5, 30, (count, 2)), rng.uniform(-180, 180, (count, 1))]
    return np.concatenate(parts, axis=1).astype(np.float32)


def covered(box: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Which points of a grid lie in the box: those that, turned back, lie in the upright one."""
    angle = np.deg2rad(box[4])
    along = (x - box[0]) * np.cos(angle) - (y - box[1]) * np.sin(angle)
    across = (x - box[0]) * np.sin(angle) + (y - box[1]) * np.cos(angle)
    return np.asarray((np.abs(along) <= box[2] / 2) & (np.abs(across) <= box[3] / 2))


def test_intersections_match_areas_counted_on_a_grid() -> None:
    boxes = draw(24, 1)
    boxes[1], boxes[2] = boxes[0], [*boxes[0, :2], 1, 1, 30]
    boxes[3] = [*boxes[0, :4], boxes[0, 4] + 180]
    step = 0.05
    x, y = np.meshgrid(np.arange(-20, 70, step), np.arange(-20, 70, step))
    first = covered(boxes[0], x, y)
    counted = np.array([np.count_nonzero(first & covered(other, x, y)) for other in boxes]) * step**2
    polygons = rotated.corners(boxes)
    perimeter = 2 * (boxes[0, 2] + boxes[0, 3])
    assert np.abs(rotated.common_area(polygons[0], polygons) - counted).max() < step * perimeter
    assert_close(
        rotated.common_area(polygons[0], polygons[[1, 3]]),
        np.full(2, float(boxes[0, 2] * boxes[0, 3])),
        amplification=1e8,
    )


def test_boxes_move_grow_and_turn() -> None:
    boxes = np.array([[20, 30, 10, 4, 80], [20, 30, 10, 4, -30]], np.float32)
    deltas = np.array([[0.5, -1, np.log(2), 0, np.pi / 9], [0, 0, 0, np.log(3), np.pi / 6]], np.float32)
    op = caffe2("BBoxTransform", "r d i", "Y", rotated=1, weights=[1.0, 2.0, 1.0, 1.0])
    (y,) = run_kernel(op, [boxes, deltas, IMAGE])
    assert_close(y[0], np.array([25, 28, 20, 4, -80], np.float32), terms=4)
    assert_close(y[1], np.array([20, 30, 10, 12, 0], np.float32), terms=4)
    (free,) = run_kernel(op.with_args(angle_bound_on=0), [boxes, deltas, IMAGE])
    assert_close(free[0, 4], np.float32(100), terms=4)


@pytest.mark.parametrize("plus", [0, 1])
def test_upright_boxes_are_clipped_as_in_the_upright_operators(plus: int) -> None:
    rng = np.random.default_rng(3)
    corner = rng.uniform(-20, 60, (9, 2)).astype(np.float32)
    upright = np.concatenate([corner, corner + rng.uniform(2, 40, (9, 2)).astype(np.float32)], axis=1)
    sides = upright[:, 2:] - upright[:, :2] + np.float32(plus)
    turned = np.column_stack([(upright[:, :2] + upright[:, 2:]) / 2, sides, np.zeros(9)]).astype(np.float32)
    nothing = np.zeros((9, 4), np.float32)
    (expected,) = run_kernel(caffe2("BBoxTransform", "r d i", "Y", legacy_plus_one=plus), [upright, nothing, IMAGE])
    op = caffe2("BBoxTransform", "r d i", "Y", rotated=1, legacy_plus_one=plus)
    (y,) = run_kernel(op, [turned, np.zeros((9, 5), np.float32), IMAGE])
    half = (y[:, 2:4] - plus) / 2
    assert_close(np.concatenate([y[:, :2] - half, y[:, :2] + half], axis=1).astype(np.float32), expected, terms=16)


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    common = float(rotated.common_area(rotated.corners(one[None])[0], rotated.corners(other[None]))[0])
    return float(common / (one[2] * one[3] + other[2] * other[3] - common))


def greedy(boxes: np.ndarray, scores: np.ndarray, threshold: float) -> List[int]:
    kept: List[int] = []
    for i in np.argsort(-scores, kind="stable"):
        if all(overlap(boxes[i], boxes[k]) <= threshold for k in kept):
            kept.append(int(i))
    return kept


def test_overlapping_boxes_are_suppressed() -> None:
    boxes, scores = draw(30, 5), np.random.default_rng(6).uniform(0.1, 1, (30, 2)).astype(np.float32)
    op = caffe2("BoxWithNMSLimit", "s b", "S B C", rotated=1, nms=0.3, score_thresh=0.2)
    found, corners, classes = lookup(op).evaluate(op, [scores, np.concatenate([boxes, boxes], axis=1)])
    candidates = np.flatnonzero(scores[:, 1] > 0.2)
    kept = candidates[greedy(boxes[candidates], scores[candidates, 1], 0.3)]
    assert_same(found, scores[kept, 1])
    assert_same(corners, boxes[kept])
    assert set(classes.tolist()) == {1.0}


@pytest.mark.parametrize("angle", [0.0, 30.0])
def test_proposals_of_rotated_anchors(angle: float) -> None:
    rng = np.random.default_rng(7)
    anchors = np.array([[4, 4, 16, 8, angle], [4, 4, 9, 21, angle]], np.float32)
    scores, deltas = rng.uniform(0, 1, (1, 2, 3, 4)), rng.standard_normal((1, 10, 3, 4)) * 0.2
    inputs: List[Any] = [scores.astype(np.float32), deltas.astype(np.float32), IMAGE, anchors]
    op = OperatorDef.of(
        "GenerateProposals",
        ["s", "d", "i", "a"],
        ["r", "p"],
        spatial_scale=0.1,
        min_size=4.0,
        nms_thresh=0.4,
        post_nms_topN=5,
    )
    rois, probabilities = lookup(op).evaluate(op, inputs)
    everything = []
    for row in range(3):
        for column in range(4):
            for shape in range(2):
                moved = anchors[shape] + np.array([10 * column, 10 * row, 0, 0, 0], np.float32)
                d = inputs[1][0, 5 * shape : 5 * shape + 5, row, column]
                everything.append((inputs[0][0, shape, row, column], moved, d))
    everything.sort(key=lambda one: -one[0])
    boxes, d = (np.stack([one[k] for one in everything]) for k in (1, 2))
    transform = caffe2("BBoxTransform", "r d i", "Y", rotated=1)
    (boxes,) = run_kernel(transform, [boxes, d, IMAGE])
    kept = [k for k in range(24) if min(boxes[k, 2:4]) >= 4 and boxes[k, 0] < 80 and boxes[k, 1] < 60]
    chosen = [kept[k] for k in greedy(boxes[kept], np.array([one[0] for one in everything])[kept], 0.4)][:5]
    assert_same(rois, np.column_stack([np.zeros(len(chosen)), boxes[chosen]]).astype(np.float32))
    assert_same(probabilities, np.array([everything[k][0] for k in chosen], np.float32))
