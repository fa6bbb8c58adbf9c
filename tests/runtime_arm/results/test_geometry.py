"""Frames, overlapping boxes, regions of a map, and planes at other places: against what can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from runtime_arm.results.frame import Frame
from runtime_arm.results.nms import intersection_over_union, non_maximum_suppression
from runtime_arm.results.regions import convex_hull, regions_of, smallest_rectangle
from runtime_arm.results.resampling import nearest, resized, sampled


def test_a_frame_leads_from_the_input_back_to_the_picture() -> None:
    frame = Frame(200, 100, 64, 64, 0.32, 0.32, 0, 16)
    np.testing.assert_allclose(frame.points(np.asarray([[0, 16], [64, 48]])), [[0, 0], [200, 100]])
    np.testing.assert_allclose(frame.boxes(np.asarray([[-5, 0, 32, 32]])), [[0, 0, 100, 50]])
    np.testing.assert_allclose(frame.fractions(np.asarray([[0.5, 0.25, 1, 1]])), [[32, 16, 64, 64]])


def test_boxes_that_overlap_a_better_one_of_their_class_are_dropped() -> None:
    boxes = np.asarray([[0, 0, 10, 10], [1, 0, 11, 10], [0, 0, 10, 10], [20, 20, 30, 30]], float)
    scores, classes = np.asarray([0.8, 0.9, 0.7, 0.1]), np.asarray([0, 0, 1, 0])
    assert non_maximum_suppression(boxes, scores, classes, 0.5, 10).tolist() == [1, 2, 3]
    assert non_maximum_suppression(boxes, scores, classes, 0.9, 10).tolist() == [1, 0, 2, 3]
    assert non_maximum_suppression(boxes, scores, classes, 0.5, 1).tolist() == [1]
    assert intersection_over_union(boxes[0], boxes)[:2] == pytest.approx([1.0, 90 / 110])
    assert intersection_over_union(np.zeros(4), np.zeros((1, 4))).tolist() == [0.0]


def test_regions_touch_by_edges_and_corners() -> None:
    drawing = ["##..#", "..#.#", ".....", "#.#.#", "#####"]
    flags = np.asarray([[char == "#" for char in row] for row in drawing])
    regions = regions_of(flags)
    assert [int((one.stops - one.starts).sum()) for one in regions] == [8, 3, 2]
    assert regions[0].rows.min() == 3
    assert regions[1].mean(np.arange(25.0).reshape(5, 5)) == pytest.approx((0 + 1 + 7) / 3)
    assert regions_of(np.zeros((3, 3), bool)) == []


@pytest.mark.parametrize("seed", range(5))
def test_regions_are_those_of_a_flood(seed: int) -> None:
    flags = np.random.default_rng(seed).random((20, 30)) < 0.4
    wanted, left = [], {(int(y), int(x)) for y, x in zip(*np.nonzero(flags))}
    while left:
        pending, size = [left.pop()], 0
        while pending:
            y, x = pending.pop()
            size += 1
            near = {(y + i, x + j) for i in (-1, 0, 1) for j in (-1, 0, 1)} & left
            left -= near
            pending += near
        wanted.append(size)
    found = [int((one.stops - one.starts).sum()) for one in regions_of(flags)]
    assert found == sorted(wanted, reverse=True)


def test_the_smallest_rectangle_is_slanted_with_its_points() -> None:
    square = np.asarray([[0, 0], [10, 0], [10, 5], [0, 5], [4, 2]], float)
    np.testing.assert_allclose(smallest_rectangle(square), [[0, 0], [10, 0], [10, 5], [0, 5]], atol=1e-9)
    turn = np.asarray([[np.cos(0.3), np.sin(0.3)], [-np.sin(0.3), np.cos(0.3)]])
    corners = smallest_rectangle(square @ turn)
    sides = np.linalg.norm(corners - np.roll(corners, -1, axis=0), axis=1)
    np.testing.assert_allclose(sorted(sides), [5, 5, 10, 10])
    assert len(convex_hull(square)) == 4
    assert smallest_rectangle(np.asarray([[3.0, 4.0]])).tolist() == [[3, 4]] * 4


def test_planes_are_interpolated_between_pixels() -> None:
    plane = np.asarray([[0.0, 10.0], [20.0, 30.0]])
    assert sampled(plane, np.asarray([0.5]), np.asarray([0.0, 0.5, 1.0])).tolist() == [[10.0, 15.0, 20.0]]
    assert nearest(plane, np.asarray([0.6]), np.asarray([0.2])).tolist() == [[20.0]]
    assert resized(plane, (4, 4))[0].tolist() == [0.0, 2.5, 7.5, 10.0]
    assert resized(plane, (2, 2)).tolist() == plane.tolist()
