"""Softmax, LogSoftmax and Hardmax: NumPy, engines against the reference kernels, refusals."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_each_close
from runtime_arm.errors import ArgumentError, ShapeError
from tests.support.in_place import run_in_place
from tests.support.operands import caffe2, onnx, random

# |X| reaches 40 here: the exponential makes relative errors of the rounding errors of X - maximum, up to 80 units.
EXPONENT = 80

shapes = st.lists(st.integers(0, 7), min_size=1, max_size=4)
dtypes = st.sampled_from([np.float32, np.float64])


@settings(max_examples=40)
@given(shapes, dtypes, st.integers(-4, 3))
def test_softmax_of_caffe2_by_numpy(shape: Any, dtype: Any, axis: int) -> None:
    op = caffe2("Softmax", "X", axis=axis % len(shape))
    assert assert_engines_match_reference(op, [10 * random(shape, dtype=dtype)], amplification=EXPONENT) == ["NUMPY"]


@settings(max_examples=60)
@given(shapes, dtypes, st.integers(-4, 3), st.sampled_from(["Softmax", "LogSoftmax"]))
def test_softmax_along_an_axis_by_numpy(shape: Any, dtype: Any, axis: int, type: str) -> None:
    op = onnx(type, "X", axis=axis % len(shape))
    assert assert_engines_match_reference(op, [10 * random(shape, dtype=dtype)], amplification=EXPONENT) == ["NUMPY"]


@pytest.mark.parametrize("type", ["Softmax", "LogSoftmax"])
def test_large_and_infinite_values_do_not_overflow(type: str) -> None:
    x = np.array([[1000, 1001, 1002], [-np.inf, 0, 0], [np.inf, 0, 1], [np.nan, 0, 1]], np.float32)
    assert assert_engines_match_reference(onnx(type, "X"), [x]) == ["NUMPY"]


def test_hardmax_takes_the_first_of_equals() -> None:
    (y,) = run_kernel(onnx("Hardmax", "X", axis=0), [np.array([[1, 2], [1, 3]], np.float32)])
    np.testing.assert_array_equal(y, [[1, 0], [0, 1]])


REFUSALS: Dict[str, Any] = {
    "axis 1 is out of range": (ArgumentError, caffe2("Softmax", "X"), [random((3,))]),
    "a dimension": (ShapeError, caffe2("Softmax", "X", axis=0), [random(())]),
    "axis 2 is out of range": (ArgumentError, onnx("Softmax", "X", axis=2), [random((2, 3))]),
    "floats": (ShapeError, onnx("Hardmax", "X"), [np.zeros((2, 3), np.int64)]),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refuses(message: str) -> None:
    error, op, inputs = REFUSALS[message]
    with pytest.raises(error, match=message):
        run_kernel(op, inputs)


@pytest.mark.parametrize("n", [2, 16, 17, 300, 40000])
@pytest.mark.parametrize("spread", [0.0, 10.0, 1e3, 3e38])
def test_rows_far_apart_by_numpy(n: int, spread: float) -> None:
    x = random((7, n)) + np.linspace(-1, 1, 7, dtype=np.float32)[:, np.newaxis] * np.float32(spread)
    assert assert_engines_match_reference(onnx("Softmax", "x", "y"), [x], terms=n, magnitude=1.0) == ["NUMPY"]


def test_one_infinite_row_spoils_no_other() -> None:
    x = random((5, 9))
    x[1, 2], x[2, 3], x[3] = np.inf, np.nan, -np.inf
    (actual,), (expected,) = (run_kernel(onnx("Softmax", "x", "y"), [x], engine) for engine in ("NUMPY", "REFERENCE"))
    assert_each_close(actual, expected, terms=9)


def test_softmax_may_overwrite_its_input() -> None:
    op = onnx("Softmax", "x", "y")
    x = random((6, 20)) * 30
    (expected,) = run_kernel(op, [x], "NUMPY")
    np.testing.assert_array_equal(run_in_place(op, [x], "NUMPY"), expected)
