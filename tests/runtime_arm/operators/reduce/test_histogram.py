"""Histogram and IntegralImage: edges of bins, refusals."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from runtime_arm.errors import ArgumentError, ShapeError
from tests.support.operands import caffe2, random


def test_bins_are_closed_below_and_open_above() -> None:
    values = np.array([0, 0.1, 0.25, 0.5, 0.74, 0.75, 1, 1.1, -1, 2, np.nan], np.float32)
    op = caffe2("Histogram", "X", bin_edges=[0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_array_equal(run_kernel(op, [values])[0], [2, 1, 2, 1])
    twice = caffe2("Histogram", "X Z", bin_edges=[0.0, 1.0])
    np.testing.assert_array_equal(run_kernel(twice, [values, values[:3].reshape(3, 1)])[0], [9])


REFUSALS: Dict[str, Any] = {
    "ascending numbers": (ArgumentError, caffe2("Histogram", "X", bin_edges=[0.0, 0.0]), [random((3,))]),
    "2 or more": (ArgumentError, caffe2("Histogram", "X", bin_edges=[0.0]), [random((3,))]),
    "X' must be float": (ShapeError, caffe2("Histogram", "X", bin_edges=[0.0, 1.0]), [np.zeros(3, np.int32)]),
    "N, C, H, W": (ShapeError, caffe2("IntegralImage", "X"), [random((2, 3))]),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refuses(message: str) -> None:
    error, op, inputs = REFUSALS[message]
    with pytest.raises(error, match=message):
        run_kernel(op, inputs)
