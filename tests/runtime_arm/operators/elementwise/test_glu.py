"""Gated linear units: NumPy, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import OperatorError
from tests.support.operands import caffe2, onnx, random


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_one_half_gates_the_other(dim: int) -> None:
    x = random((2, 4, 6))
    a, b = np.split(x.astype(np.float64), 2, dim)
    assert_close(run_kernel(caffe2("Glu", "X", dim=dim), [x])[0], (a / (1 + np.exp(-b))).astype(np.float32))


@pytest.mark.parametrize(
    ("op", "shapes", "rule"),
    [
        (caffe2("Glu", "X"), [(2, 3)], "dimension 1 must be even"),
        (caffe2("Glu", "X", dim=2), [(2, 4)], "dim 2 is out of range"),
        (onnx("SwiGLU", "A B"), [(2, 4), (4,)], "inputs must have one shape"),
    ],
)
def test_refuses(op: Any, shapes: Any, rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, [random(shape) for shape in shapes])
