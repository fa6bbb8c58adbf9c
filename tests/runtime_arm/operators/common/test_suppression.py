"""Greedy suppression takes the same boxes, however many are compared by one call."""

from __future__ import annotations

from typing import List
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_arm.netdef import Array
from runtime_arm.operators.common import boxes as box
from runtime_arm.operators.common.rotated_boxes import nms as rotated_nms


def one_by_one(order: Array, kept: Array, limit: int) -> List[int]:
    """What is taken, where ``kept[i, j]`` says whether box i keeps box j."""
    taken: List[int] = []
    for one in order.tolist():
        if len(taken) != limit and all(kept[other, one] for other in taken):
            taken.append(one)
    return taken


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 200),
    st.floats(0, 1),
    st.integers(-1, 70),
    st.sampled_from([1, 3, 64]),
    st.sampled_from([1, 100, 1 << 15]),
)
def test_takes_what_is_taken_one_by_one(
    seed: int, count: int, share: float, limit: int, together: int, most_pairs: int
) -> None:
    rng = np.random.default_rng(seed)
    kept, order = rng.random((count, count)) < share, rng.permutation(count)
    with mock.patch.object(box, "MOST_PAIRS", most_pairs):
        taken = box.suppress(order, lambda ones, rest: kept[ones, rest], limit, together)
    assert taken == one_by_one(order, kept, limit)


@pytest.mark.parametrize("plus", [0, 1])
@pytest.mark.parametrize("side", [1, 10, 300])
def test_boxes_are_dropped_by_their_overlap_with_those_taken(plus: int, side: int) -> None:
    rng = np.random.default_rng(side)
    corner = rng.integers(0, side, (400, 2))
    boxes = np.concatenate([corner, corner + rng.integers(0, 40, (400, 2))], axis=1).astype(np.float32)
    columns = np.ascontiguousarray(boxes.T)
    widths, heights = boxes[:, 2] - boxes[:, 0] + np.float32(plus), boxes[:, 3] - boxes[:, 1] + np.float32(plus)
    kept = np.empty((400, 400), bool)
    with np.errstate(all="ignore"):
        for one in range(400):
            common = box.common_area(columns, np.array(one), np.arange(400), plus)
            union = widths[one] * heights[one] + widths * heights - common
            kept[one] = common / union <= np.float32(0.3)
        order = rng.permutation(400)
        assert box.nms(boxes, order, 0.3, plus) == one_by_one(order, kept, -1)
        assert box.nms(boxes, order, 0.3, plus, 5) == one_by_one(order, kept, 5)


def test_many_boxes_are_compared_by_few_calls() -> None:
    calls = []

    def is_kept(ones: Array, rest: Array) -> Array:
        calls.append(ones.size * rest.size)
        return np.ones((ones.size, rest.size), bool)

    assert box.suppress(np.arange(2048), is_kept) == list(range(2048))
    assert len(calls) < 2048 / 8
    assert max(calls) <= box.MOST_PAIRS


def test_rotated_boxes_are_compared_with_those_taken_alone() -> None:
    boxes = np.array([[5, 5, 4, 4, 0], [5, 5, 4, 4, 45], [20, 5, 4, 4, 30], [5, 5.5, 4, 4, 90]], np.float32)
    assert rotated_nms(boxes, np.arange(4), 0.5) == [0, 2]
