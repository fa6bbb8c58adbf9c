"""ArgMax, ArgMin and TopK: ties, NaN, refusals."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from runtime_arm.errors import ArgumentError, ShapeError
from tests.support.operands import caffe2, onnx, random

NAN = np.nan


@pytest.mark.parametrize(("type", "expected"), [("ArgMax", [0, 0, 0, 1]), ("ArgMin", [0, 2, 0, 0])])
def test_nan_is_chosen_only_where_it_comes_first(type: str, expected: Any) -> None:
    x = np.array([[NAN, 3, 2], [1, NAN, 0], [NAN, NAN, NAN], [1, 2, NAN]], np.float32)
    np.testing.assert_array_equal(run_kernel(caffe2(type, "X", keepdims=0), [x])[0], expected)
    np.testing.assert_array_equal(run_kernel(caffe2(type, "X", axis=0), [x.T.copy()])[0], [expected])


@pytest.mark.parametrize("type", ["ArgMax", "ArgMin"])
def test_the_position_among_no_elements_is_0(type: str) -> None:
    np.testing.assert_array_equal(run_kernel(caffe2(type, "X", axis=0), [random((0, 3))])[0], [[0, 0, 0]])


def test_the_last_of_equal_elements_may_be_selected() -> None:
    x = np.array([[1, 3, 3, 0], [2, 2, 2, 2]], np.int32)
    op = onnx("ArgMax", "X", axis=1, keepdims=0)
    np.testing.assert_array_equal(run_kernel(op, [x])[0], [1, 0])
    np.testing.assert_array_equal(run_kernel(op.with_args(select_last_index=1), [x])[0], [2, 3])


def test_top_k_pads_and_returns_flat_indices() -> None:
    x = np.array([[1, 5], [7, 2], [3, 3]], np.float32)
    values, indices, flat = run_kernel(caffe2("TopK", "X", "v i f", k=4, axis=0), [x])
    np.testing.assert_array_equal(values, [[7, 5], [3, 3], [1, 2], [0, 0]])
    np.testing.assert_array_equal(indices, [[1, 0], [2, 2], [0, 1], [-1, -1]])
    np.testing.assert_array_equal(flat, [2, 1, 4, 5, 0, 3, -1, -1])


@pytest.mark.parametrize("k", [np.array([2]), np.array(2)])
def test_top_k_takes_k_as_an_input(k: Any) -> None:
    values, indices = run_kernel(caffe2("TopK", "X k", "v i"), [np.array([1, 3, 2], np.float32), k], constants=[1])
    np.testing.assert_array_equal(values, [3, 2])
    np.testing.assert_array_equal(indices, [1, 2])


def test_top_k_leaves_nan_to_the_end() -> None:
    values, indices = run_kernel(caffe2("TopK", "X", "v i", k=3), [np.array([1, NAN, 3, NAN, 0], np.float32)])
    np.testing.assert_array_equal(values, [3, 1, 0])
    np.testing.assert_array_equal(indices, [2, 0, 4])


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float16])
def test_onnx_top_k_of_the_smallest(dtype: Any) -> None:
    x = np.array([[4, 1, 4, 0, 1]], dtype)
    for largest, expected in [(0, [3, 1, 4]), (1, [0, 2, 1])]:
        values, indices = run_kernel(onnx("TopK", "X K", "v i", largest=largest), [x, np.array([3])], constants=[1])
        np.testing.assert_array_equal(indices, [expected])
        np.testing.assert_array_equal(values, x[:, expected])


@pytest.mark.parametrize("axis", [0, 1])
def test_where_y_has_no_elements_neither_must_x(axis: int) -> None:
    """As in onnxruntime."""
    (y,) = run_kernel(onnx("ArgMax", "X", axis=axis), [random((0, 0))])
    assert y.shape == ((1, 0), (0, 1))[axis]


REFUSALS: Dict[str, Any] = {
    "axis must be -1 or from 0 to 1, got 2": (ArgumentError, caffe2("ArgMax", "X", axis=2), [random((2, 3))]),
    "got -2": (ArgumentError, caffe2("ArgMin", "X", axis=-2), [random((2, 3))]),
    "to -1, got -1": (ArgumentError, caffe2("ArgMax", "X"), [random(())]),
    "X' must be int32": (ShapeError, caffe2("ArgMax", "X"), [np.zeros(3, np.uint8)]),
    "a dimension": (ShapeError, onnx("ArgMax", "X"), [random(())]),
    "an element along the axis": (ShapeError, onnx("ArgMin", "X", axis=1), [random((2, 0))]),
    "k must be 1 or more, got -1": (ArgumentError, caffe2("TopK", "X", "v i"), [random((3,))]),
    "one int64": (ShapeError, caffe2("TopK", "X k", "v i"), [random((3,)), np.array([1], np.int32)]),
    "K must be from 0 to 3, got 4": (ShapeError, onnx("TopK", "X K", "v i"), [random((3,)), np.array([4])]),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refuses(message: str) -> None:
    error, op, inputs = REFUSALS[message]
    with pytest.raises(error, match=message):
        run_kernel(op, inputs, constants=[1])
