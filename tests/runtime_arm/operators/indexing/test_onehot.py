"""One-hot encodings and buckets: worked examples, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from runtime_arm.errors import OperatorError, ResourceError
from runtime_arm.netdef import OperatorDef


def test_batch_bucket_one_hot() -> None:
    x = np.array([[2, 3], [4, 1], [2, 5]], np.float32)
    boundaries = np.array([0.1, 2.5, 1, 3.1, 4.5], np.float32)
    op = OperatorDef.of("BatchBucketOneHot", ["X", "l", "b"], ["Y"])
    (y,) = run_kernel(op, [x, np.array([2, 3], np.int32), boundaries])
    assert y.tolist() == [[0, 1, 0, 0, 1, 0, 0], [0, 0, 1, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0, 1]]


def test_buckets_include_their_upper_boundary_and_nan_is_below_all() -> None:
    x = np.array([-1, -0.5, 0, 7, np.nan, -np.inf], np.float32)
    (y,) = run_kernel(OperatorDef.of("Bucketize", ["X"], ["Y"], boundaries=[-1.0, 0.0]), [x])
    assert y.tolist() == [0, 1, 1, 2, 0, 0]


@pytest.mark.parametrize(
    ("type", "inputs", "rule"),
    [
        ("OneHot", [np.array([0, 4]), np.array([4])], "index 4 is out of range"),
        ("OneHot", [np.array([-1]), np.array([4])], "index -1 is out of range"),
        ("OneHot", [np.array([0], np.int32), np.array([4])], "vector of int64"),
        ("OneHot", [np.array([0]), np.array([4, 4])], "one int64"),
        ("SegmentOneHot", [np.array([2], np.int32), np.array([0]), np.array([3])], "do not fit the indices"),
        ("SegmentOneHot", [np.array([1], np.int32), np.array([3]), np.array([3])], "index 3 is out of range"),
        ("BatchOneHot", [np.zeros((2, 2), "i4"), np.array([1, 1], "i4"), np.array([0], "i4")], "add up to the number"),
        ("BatchOneHot", [np.zeros((2, 2), "i4"), np.array([1], "i4"), np.array([0], "i4")], "for each of X's columns"),
        ("Bucketize", [np.zeros(2, np.float64)], "must be float32"),
    ],
)
def test_refuses(type: str, inputs: List[Any], rule: str) -> None:
    op = OperatorDef.of(type, ["a", "b", "c"][: len(inputs)], ["Y"])
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, inputs, constants=(1, 2))


def test_boundaries_must_ascend() -> None:
    with pytest.raises(OperatorError, match="must ascend"):
        run_kernel(OperatorDef.of("Bucketize", ["X"], ["Y"], boundaries=[1.0, 0.0]), [np.zeros(2, np.float32)])


@pytest.mark.parametrize("domain", ["", "onnx"])
def test_absurd_depths_are_refused_before_allocating(domain: str) -> None:
    inputs = [np.array([0]), np.array([2**60]), np.array([0, 1], np.float32)]
    op = OperatorDef.of("OneHot", ["i", "n", "v"][: 3 if domain else 2], ["Y"], domain=domain)
    with pytest.raises(ResourceError, match="bytes"):
        run_kernel(op, inputs[: len(op.input)], constants=(1, 2))
