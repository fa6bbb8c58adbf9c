"""IM2COL: its blocks cover every output once and stay within their bound; padding; splitting among workers."""

from __future__ import annotations

from typing import Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv.im2col import Block, blocks, fill_columns, pixels_of
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.windows import Window

sizes = st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 5))


def window_of(output: Tuple[int, int, int]) -> Window:
    ones, zeros = (1, 1, 1), (0, 0, 0)
    return Window(output, ones, ones, ones, zeros, zeros, output)


@given(st.integers(0, 5), sizes, st.integers(1, 50), st.integers(1, 2000))
def test_blocks_cover_every_output_once_and_are_bounded(
    batch: int, output: Tuple[int, int, int], row_nbytes: int, block_nbytes: int
) -> None:
    covered = np.zeros((batch, *output), int)
    for block in blocks(batch, window_of(output), row_nbytes, block_nbytes):
        images, slices, rows = (slice(*bounds) for bounds in block)
        covered[images, slices, rows] += 1
        count = np.prod([end - begin for begin, end in block])
        assert count == 1 or count * row_nbytes <= block_nbytes
        lying = np.zeros(output, int)
        lying.reshape(-1)[pixels_of(block, window_of(output))] = 1
        assert lying[slices, rows].all()
        assert lying.sum() == lying[slices, rows].size
    assert (covered == 1).all()


def test_the_padding_value_is_read_when_the_step_runs() -> None:
    window = Window((1, 1, 2), (1, 1, 2), (1, 1, 1), (1, 1, 1), (0, 0, 1), (0, 0, 1), (1, 1, 3))
    taps, padding = np.zeros((1, 1, 1, 1, 1, 2, 1, 1, 3), np.float32), np.zeros((), np.uint8)
    x = np.array([5, 6], np.uint8).reshape(1, 1, 1, 1, 1, 2)
    steps = list(fill_columns(taps, x, window, Block((0, 1), (0, 1), (0, 1)), padding))
    for number in (7, 9):
        padding[()] = number
        for step in steps:
            step()
        assert taps.reshape(2, 3).tolist() == [[number, 5, 6], [5, 6, number]]


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("filters", [1, 2, 23])
def test_workers_split_filters_if_there_are_few_pixels(filters: int, batch: int, workers: int) -> None:
    draw = np.random.default_rng(0)
    shapes = [(batch, 40, 6, 7), (filters, 40, 3, 3), (filters,), (batch, filters, 3, 4), (filters,)]
    inputs = [draw.standard_normal(shape).astype(np.float32) for shape in shapes]
    op = OperatorDef.of(
        "FusedConv", ["X", "W", "b", "A", "s"], ["Y"], domain="armnet", kernel=3, stride=2, pad=1, activation="PRelu"
    )
    (expected,) = run_kernel(op, inputs)
    (actual,) = run_kernel(op, inputs, "IM2COL", constants=(1, 2, 4), workers=workers)
    assert_close(actual, expected, terms=9 * 40 + 2)
