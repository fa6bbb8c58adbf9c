"""Reductions: NumPy, engines against the reference kernels, refusals."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.registry.schema import DataDependent
from tests.support.onnx_nodes import onnxruntime_outputs
from tests.support.operands import caffe2, onnx, random

PARTIAL = ("ReduceFrontSum", "ReduceFrontMean", "ReduceFrontMax", "ReduceBackSum", "ReduceBackMean", "ReduceBackMax")
NAMED = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2")


shapes = st.lists(st.integers(1, 6), min_size=0, max_size=4)
subsets = st.lists(st.integers(0, 3), max_size=4)
dtypes = st.sampled_from([np.float32, np.float64, np.int32, np.int64])


def operand(shape: Any, dtype: Any) -> Any:
    return (20 * random(shape)).astype(dtype)


@settings(max_examples=150)
@given(
    shapes,
    subsets,
    dtypes,
    st.booleans(),
    st.sampled_from([*NAMED, "ReduceProd", "ReduceSumSquare", "ReduceLogSumExp"]),
)
def test_onnx_reductions_by_numpy(shape: Any, subset: Any, dtype: Any, keepdims: bool, type: str) -> None:
    is_float = np.dtype(dtype).kind == "f"
    if type == "ReduceLogSumExp" and not is_float:
        return
    axes = np.array(sorted({axis for axis in subset if axis < len(shape)}), np.int64)
    x = operand(shape, dtype) / (40 if is_float else 1)
    magnitude = np.abs(x).sum() ** (2 if type == "ReduceSumSquare" else 1)
    op = onnx(type, "X axes", keepdims=int(keepdims))
    inputs = [x.astype(dtype), axes]
    engines = assert_engines_match_reference(op, inputs, terms=1296, magnitude=magnitude, constants=[1])
    slow = type == "ReduceLogSumExp" or (type in ("ReduceMean", "ReduceL2") and not is_float)
    assert engines == ([] if slow else ["NUMPY"])


@settings(max_examples=50)
@given(shapes, subsets, st.booleans(), st.sampled_from(NAMED))
def test_caffe2_reductions_by_numpy(shape: Any, subset: Any, keepdims: bool, type: str) -> None:
    axes = [axis for axis in subset if axis < len(shape)]
    x = random(shape)
    op = caffe2(type, "X", axes=axes, keepdims=int(keepdims))
    assert assert_engines_match_reference(op, [x], terms=1296, magnitude=np.abs(x).sum()) == ["NUMPY"]


@pytest.mark.parametrize("shape", [(2, 7, 5, 5), (1, 7, 5, 5), (3, 4)])
@pytest.mark.parametrize("type", PARTIAL)
def test_front_and_back_by_numpy(shape: Any, type: str) -> None:
    assert assert_engines_match_reference(caffe2(type, "X", num_reduce_dim=2), [random(shape)], terms=25) == ["NUMPY"]


@pytest.mark.parametrize(("type", "expected"), [("Sum", [1, 30, 18]), ("Mean", [1, 15, 6]), ("Max", [1, 20, 7])])
def test_lengths_say_how_many_elements_count(type: str, expected: Any) -> None:
    x, lengths = np.array([[1, 10, 5], [2, 20, 6], [3, 30, 7]], np.float32), np.array([1, 2, 3], np.int32)
    (front,) = run_kernel(caffe2(f"ReduceFront{type}", "X l"), [x, lengths])
    (back,) = run_kernel(caffe2(f"ReduceBack{type}", "X l"), [x.T.copy(), lengths])
    np.testing.assert_array_equal([front, back], [expected] * 2)
    assert assert_engines_match_reference(caffe2(f"ReduceFront{type}", "X l"), [x, lengths]) == []


def test_integer_means_round_towards_zero() -> None:
    x = np.array([[-7, 7]], np.int32).T * np.ones(2, np.int32)
    x[:, 1] = 0
    (y,) = run_kernel(caffe2("ReduceBackMean", "X"), [x])
    np.testing.assert_array_equal(y, [-3, 3])


NOTHING = [
    ("ReduceSum", 0, 0),
    ("ReduceMean", 0, 0),
    ("ReduceMax", np.finfo(np.float32).min, -np.inf),
    ("ReduceMin", np.finfo(np.float32).max, np.inf),
    ("ReduceL1", 0, 0),
    ("ReduceL2", 0, 0),
]


@pytest.mark.parametrize(("type", "of_caffe2", "of_onnx"), NOTHING)
def test_reductions_over_no_elements(type: str, of_caffe2: float, of_onnx: float) -> None:
    x = np.zeros((0, 3), np.float32)
    (y,) = run_kernel(caffe2(type, "X", axes=[0]), [x])
    np.testing.assert_array_equal(y, np.full((1, 3), of_caffe2, np.float32))
    (y,) = run_kernel(onnx(type, "X axes"), [x, np.array([0])], constants=[1])
    np.testing.assert_array_equal(y, np.full((1, 3), of_onnx, np.float32))


@pytest.mark.parametrize(("type", "of_onnx"), [(type, of_onnx) for type, _, of_onnx in NOTHING])
def test_onnxruntime_reduces_no_elements_to_the_same(type: str, of_onnx: float) -> None:
    (y,) = onnxruntime_outputs(onnx(type, "X axes"), [np.zeros((0, 3), np.float32), np.array([0])], [np.float32])
    np.testing.assert_array_equal(y, np.full((1, 3), of_onnx, np.float32))


def test_log_sum_exp_survives_large_and_infinite_values() -> None:
    x = np.array([[1000, 1000], [-np.inf, -np.inf], [np.inf, 0]], np.float32)
    (y,) = run_kernel(onnx("ReduceLogSumExp", "X axes", keepdims=0), [x, np.array([1])], constants=[1])
    np.testing.assert_array_equal(y, np.array([1000 + np.log(2), -np.inf, np.inf], np.float32))


def test_without_axes_noop_reduces_each_element_on_its_own() -> None:
    x = random((2, 3))
    (y,) = run_kernel(onnx("ReduceSumSquare", "X", noop_with_empty_axes=1), [x])
    np.testing.assert_array_equal(y, x * x)


def test_planning_stops_at_axes_that_are_only_known_when_running() -> None:
    with pytest.raises(DataDependent):
        run_kernel(onnx("ReduceSum", "X axes"), [random((2, 3)), np.array([1])])


@pytest.mark.parametrize("type", ["SumElements", "SumSqrElements"])
def test_elements_may_be_averaged(type: str) -> None:
    x = np.array([[1, 2], [3, 6]], np.float32)
    values = x if type == "SumElements" else x * x
    np.testing.assert_array_equal(run_kernel(caffe2(type, "X"), [x])[0], values.sum())
    np.testing.assert_array_equal(run_kernel(caffe2(type, "X", average=1), [x])[0], values.mean())
    np.testing.assert_array_equal(run_kernel(caffe2(type, "X", average=1), [x[:0]])[0], np.float32(0))


REFUSALS: Dict[str, Any] = {
    "X' must be float16 or": (ShapeError, caffe2("ReduceMean", "X"), [np.zeros(3, np.int32)]),
    "axis 2 is out of range": (ArgumentError, caffe2("ReduceSum", "X", axes=[2]), [random((2, 3))]),
    "axis 0 is out of range": (ArgumentError, caffe2("ReduceSum", "X", axes=[0]), [random(())]),
    "num_reduce_dim": (ArgumentError, caffe2("ReduceFrontSum", "X", num_reduce_dim=3), [random((2, 3))]),
    "one int32 per result": (ShapeError, caffe2("ReduceFrontSum", "X l"), [random((2, 3)), np.ones(2, np.int32)]),
    "from 1 to 2": (ShapeError, caffe2("ReduceFrontMax", "X l"), [random((2, 3)), np.array([0, 1, 2], np.int32)]),
    "batch of matrices": (ShapeError, caffe2("RowwiseMax", "X"), [random((2, 3))]),
    "axes must be from 0 to 1": (ArgumentError, caffe2("Moments", "X", "mean var", axes=[-1]), [random((2, 3))]),
    "shapes do not match": (ShapeError, caffe2("SumReduceLike", "A B"), [random((2, 3, 4)), random((5,))]),
    "axis -3 is out of range": (ArgumentError, onnx("CumSum", "X axis"), [random((2, 3)), np.array(-3)]),
    "one integer": (ShapeError, onnx("CumSum", "X axis"), [random((2, 3)), np.array([0, 1])]),
    "float64; got": (ShapeError, onnx("ReduceLogSum", "X"), [np.ones(3, np.int32)]),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refuses(message: str) -> None:
    error, op, inputs = REFUSALS[message]
    with pytest.raises(error, match=message):
        run_kernel(op, inputs, constants=[1] if op.domain else [])
