"""Joining and splitting: inverses, engines, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import OperatorDef


@given(
    st.integers(0, 2),
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from(["f4", "i8", "?"]),
)
@settings(max_examples=80)
def test_split_undoes_concat(axis: int, lengths: List[int], negative: bool, dtype: str) -> None:
    shapes = [[n if i == axis else 2 + i for i in range(3)] for n in lengths]
    parts = [np.random.default_rng(n).integers(0, 9, shapes[n]).astype(dtype) for n in range(len(shapes))]
    names = [f"x{i}" for i in range(len(parts))]
    at = axis - 3 if negative else axis
    concat = OperatorDef.of("Concat", names, ["Y", "lengths"], axis=at)
    assert assert_engines_match_reference(concat, parts) == ["NUMPY"]
    joined, found = run_kernel(concat, parts, "NUMPY")
    np.testing.assert_array_equal(joined, np.concatenate(parts, axis))
    split = OperatorDef.of("Split", ["Y", "lengths"], names, axis=at)
    assert assert_engines_match_reference(split, [joined, found], constants=(1,)) == ["NUMPY"]
    for part, expected in zip(run_kernel(split, [joined, found], "NUMPY", constants=(1,)), parts):
        np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize("axis", [-4, 0, 1, 3])
def test_unstacking_undoes_stacking(axis: int) -> None:
    parts = [np.random.default_rng(seed).standard_normal((2, 3, 4)) for seed in range(3)]
    stack = OperatorDef.of("Concat", ["a", "b", "c"], ["Y", "lengths"], axis=axis, add_axis=1)
    assert assert_engines_match_reference(stack, parts) == ["NUMPY"]
    stacked = run_kernel(stack, parts, "NUMPY")[0]
    unstack = OperatorDef.of("Split", ["Y"], ["a", "b", "c"], axis=axis, add_axis=1)
    assert assert_engines_match_reference(unstack, [stacked]) == ["NUMPY"]
    for part, expected in zip(run_kernel(unstack, [stacked], "NUMPY"), parts):
        np.testing.assert_array_equal(part, expected)


def test_lengths_may_be_relative() -> None:
    x, lengths = np.arange(12), np.array([1, 1, 2, 2], np.int32)
    op = OperatorDef.of("SplitByLengths", ["X", "l"], ["A", "B"], axis=0, use_scaling_lengths=1)
    assert [len(part) for part in run_kernel(op, [x, lengths], "NUMPY", constants=(1,))] == [4, 8]


@pytest.mark.parametrize(
    ("op", "shapes", "rule"),
    [
        (OperatorDef.of("Concat", ["a", "b"], ["Y", "l"], axis=0), [(2, 3), (2, 4)], "the same dimensions except 0"),
        (
            OperatorDef.of("Concat", ["a", "b"], ["Y", "l"], axis=0),
            [(2, 3), (2, 3, 1)],
            "the same dimensions except 0",
        ),
        (
            OperatorDef.of("Concat", ["a", "b"], ["Y", "l"], axis=0, add_axis=1),
            [(2, 3), (1, 3)],
            "the same dimensions except",
        ),
        (OperatorDef.of("Concat", ["a"], ["Y", "l"], axis=1, order="NCHW"), [(2, 3)], "axis or order"),
        (OperatorDef.of("Concat", ["a"], ["Y", "l"], order="NHWC"), [(2, 3)], "axis 3 is out of range"),
        (OperatorDef.of("Concat", ["a"], ["Y"], axis=0), [(2, 3)], "takes 2 outputs, got 1"),
        (OperatorDef.of("Split", ["a"], ["x", "y"], axis=1), [(2, 3)], "divisible by the number of outputs, 2"),
        (OperatorDef.of("Split", ["a"], ["x", "y"], axis=1, split=[4, -1]), [(2, 3)], "add up to dimension 1"),
        (OperatorDef.of("Split", ["a"], ["x", "y"], axis=1, split=[1, 1, 1]), [(2, 3)], "must be 2"),
        (OperatorDef.of("Split", ["a"], ["x", "y"], axis=1, add_axis=1), [(2, 3)], "must equal the number of outputs"),
        (OperatorDef.of("Split", ["a"], ["x", "y"], domain="onnx", num_outputs=3), [(2, 3)], "num_outputs is 3"),
    ],
)
def test_refuses(op: OperatorDef, shapes: Any, rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, [np.zeros(shape, np.float32) for shape in shapes])
