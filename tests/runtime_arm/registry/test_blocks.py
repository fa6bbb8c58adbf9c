"""Blocks cover an array once, in order, and stay within the limit."""

from __future__ import annotations

import math
from typing import List

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runtime_arm.registry.blocks import block_size, blocks, cut


@given(st.lists(st.integers(0, 7), max_size=4), st.integers(1, 60))
def test_blocks_partition_an_array_in_the_order_of_memory(shape: List[int], limit: int) -> None:
    array = np.arange(math.prod(shape)).reshape(shape)
    parts = [array[index] for index in blocks(shape, limit)]
    assert np.concatenate([part.reshape(-1) for part in parts] or [[]]).tolist() == list(range(array.size))
    for part in parts:
        assert part.size <= block_size(shape, limit)
        assert part.flags.c_contiguous


def test_operands_are_broadcast_to_the_blocks_of_the_output() -> None:
    a, b, out = np.arange(12).reshape(3, 4), np.arange(3).reshape(3, 1), np.zeros((3, 4), int)
    for left, right, target in cut([a, b], out, 5):
        target[...] = left + right
    np.testing.assert_array_equal(out, a + b)


def test_equal_shapes_are_cut_flat() -> None:
    a, out = np.zeros((5, 7)), np.zeros((5, 7))
    assert [part.shape for _, _, part in cut([a, np.zeros(())], out, 20)] == [(20,), (15,)]


def test_outputs_with_gaps_are_written_in_place() -> None:
    whole = np.zeros((4, 6), int)
    for source, target in cut([np.ones((4, 3), int)], whole[:, 1:4], 5):
        target[...] = source
    assert whole.sum() == whole[:, 1:4].sum() == 12
