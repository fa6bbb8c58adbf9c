"""Permutations of dimensions: NumPy, engines, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import OperatorDef


@given(
    st.permutations(range(4)),
    st.lists(st.integers(0, 4), min_size=4, max_size=4),
    st.sampled_from(["f4", "i8", "u1", "?"]),
)
@settings(max_examples=60)
def test_transpose_agrees_with_numpy(axes: Any, shape: Any, dtype: str) -> None:
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    op = OperatorDef.of("Transpose", ["X"], ["Y"], axes=axes)
    assert assert_engines_match_reference(op, [x]) == ["NUMPY"]
    np.testing.assert_array_equal(run_kernel(op, [x])[0], x.transpose(axes))


@pytest.mark.parametrize("shape", [(2, 300, 5, 16), (1, 129, 2, 40), (128, 1, 1, 16)])
def test_blocks_of_long_transpositions_join_seamlessly(shape: Any) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for axes in ((0, 3, 2, 1), (3, 2, 1, 0), (2, 3, 0, 1)):
        op = OperatorDef.of("Transpose", ["X"], ["Y"], axes=axes)
        np.testing.assert_array_equal(run_kernel(op, [x], "NUMPY")[0], x.transpose(axes))


@given(st.integers(1, 4), st.integers(1, 3), st.lists(st.integers(0, 3), max_size=3), st.booleans())
@settings(max_examples=60)
def test_channel_shuffle_engines_agree(group: int, each: int, space: Any, last: bool) -> None:
    shape = (2, *space, group * each) if last else (2, group * each, *space)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    op = OperatorDef.of("ChannelShuffle", ["X"], ["Y"], group=group, order="NHWC" if last else "NCHW")
    assert assert_engines_match_reference(op, [x]) == ["NUMPY"]


def test_layouts_are_inverse() -> None:
    x = np.arange(120).reshape(2, 3, 4, 5)
    (nhwc,) = run_kernel(OperatorDef.of("NCHW2NHWC", ["X"], ["Y"]), [x], "NUMPY")
    np.testing.assert_array_equal(nhwc[1, 3, 2], x[1, :, 3, 2])
    np.testing.assert_array_equal(run_kernel(OperatorDef.of("NHWC2NCHW", ["X"], ["Y"]), [nhwc], "NUMPY")[0], x)


@pytest.mark.parametrize(
    ("type", "arguments", "shape", "rule"),
    [
        ("Transpose", {"axes": [0, 1]}, (2, 3, 4), "not a permutation"),
        ("Transpose", {"axes": [0, 3, 1]}, (2, 3, 4), "not a permutation"),
        ("NCHW2NHWC", {}, (2, 3), "three dimensions"),
        ("ChannelShuffle", {"group": 4}, (1, 6, 2, 2), "divisible by group 4"),
        ("ChannelShuffle", {"group": 0}, (1, 6, 2, 2), "divisible by group 0"),
        ("ChannelShuffle", {"order": "CNHW"}, (1, 6, 2, 2), "order must be"),
    ],
)
def test_refuses(type: str, arguments: Any, shape: Any, rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(OperatorDef.of(type, ["X"], ["Y"], **arguments), [np.zeros(shape, np.float32)])
