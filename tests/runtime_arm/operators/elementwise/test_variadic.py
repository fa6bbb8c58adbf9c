"""Sum, Mean, Max and Min of many blobs: NumPy, engines, refusals."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ShapeError
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.exact import assert_same
from tests.support.in_place import run_in_place
from tests.support.operands import caffe2, onnx, random

TYPES = {"Sum": np.add, "Mean": np.add, "Max": np.maximum, "Min": np.minimum}


@given(st.sampled_from(sorted(TYPES)), st.lists(st.lists(st.sampled_from([0, 1]), max_size=3), min_size=1, max_size=4))
@settings(max_examples=100)
def test_onnx_broadcasts_as_numpy(type: str, broadcast: Any) -> None:
    shapes = [[1 if one else n for one, n in zip(ones, (4, 3, 2)[3 - len(ones) :])] for ones in broadcast]
    inputs = [random(shape, seed) for seed, shape in enumerate(shapes)]
    op = onnx(type, " ".join(f"X{i}" for i in range(len(inputs))))
    expected = np.asarray(reduce(TYPES[type], inputs)) / (len(inputs) if type == "Mean" else 1)
    assert_close(run_kernel(op, inputs)[0], expected.astype(np.float32), magnitude=10)
    assert assert_engines_match_reference(op, inputs, magnitude=10) == ["NUMPY"]


@pytest.mark.parametrize("type", ["Sum", "SumInt", "SumRelu", "Mean", "Max", "Min"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_engines_agree_and_may_overwrite_the_first(type: str, count: int) -> None:
    inputs = [random((3, 50), seed) for seed in range(count)]
    op = caffe2(type, " ".join(f"X{i}" for i in range(count)))
    assert assert_engines_match_reference(op, inputs, magnitude=10) == ["NUMPY"]
    np.testing.assert_array_equal(run_in_place(op, inputs, "NUMPY"), run_kernel(op, inputs, "NUMPY")[0])
    assert allocated_nbytes(op, [np.ones(1 << 20, np.float32)] * count, "NUMPY") < NUMPY_NBYTES


def test_caffe2s_max_compares_only_the_number_of_elements() -> None:
    a, b = random((2, 3)), random((3, 2), 1)
    assert_same(run_kernel(caffe2("Max", "A B"), [a, b], "NUMPY")[0], np.maximum(a, b.reshape(2, 3)))


def test_there_is_one_weight_per_blob() -> None:
    a, b, op = random((2, 3)), random((2, 3), 1), caffe2("WeightedSum", "A v B w")
    assert_close(run_kernel(op, [a, np.array([2], "f4"), b, np.array(-1, "f4")])[0], 2 * a - b)
    with pytest.raises(ShapeError, match="one number each"):
        run_kernel(op, [a, np.ones(2, "f4"), b, np.ones(1, "f4")])
    with pytest.raises(ShapeError, match="each blob needs a weight"):
        run_kernel(caffe2("WeightedSum", "A v B"), [a, np.ones(1, "f4"), b])


@pytest.mark.parametrize(
    ("op", "inputs", "rule"),
    [
        (caffe2("Sum", "A B"), [np.ones((2, 3), "f4"), np.ones(3, "f4")], "inputs must have one shape"),
        (caffe2("Mean", "A B"), [np.ones(3, "i4"), np.ones(3, "i4")], "float32 or float64"),
        (caffe2("Max", "A B"), [np.ones(3, "f4"), np.ones((2, 3), "f4")], "or broadcast to it"),
        (caffe2("Max", "A B C"), [np.ones(3, "f4"), np.ones(3, "f4"), np.ones((3, 1), "f4")], "must have one shape"),
        (caffe2("Max", "A B"), [np.ones(3, "f4"), np.ones(4, "f4")], "shapes do not broadcast"),
        (onnx("Max", "A B"), [np.ones(3, "f4"), np.ones(3, "f8")], "of one dtype"),
        (caffe2("Sum", ""), [], "takes 1 or more inputs, got 0"),
    ],
)
def test_refuses(op: Any, inputs: Any, rule: str) -> None:
    with pytest.raises(ShapeError, match=rule):
        run_kernel(op, inputs)
