"""ONNX's Clip: NumPy, engines, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import ShapeError
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.exact import assert_same
from tests.support.in_place import run_in_place
from tests.support.operands import onnx, random


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("bounds", ["X L H", "X L", "X - H", "X"])
def test_either_bound_may_be_left_out(bounds: str, dtype: str) -> None:
    x = np.arange(12).astype(dtype).reshape(3, 4)
    operands = {"X": x, "L": np.array(3, dtype), "H": np.array([7], dtype), "-": None}
    inputs = [operands[name] for name in bounds.split()]
    expected = np.clip(x, 3 if "L" in bounds else None, 7 if "H" in bounds else None) if bounds != "X" else x
    assert_same(run_kernel(onnx("Clip", bounds), inputs, "NUMPY")[0], expected)
    assert_engines_match_reference(onnx("Clip", bounds), inputs)
    if "-" not in bounds:
        assert_same(run_in_place(onnx("Clip", bounds), inputs, "NUMPY"), expected)


def test_the_upper_bound_wins() -> None:
    inputs = [random((5,)), np.array(2, np.float32), np.array(1, np.float32)]
    assert_same(run_kernel(onnx("Clip", "X L H"), inputs, "NUMPY")[0], np.ones(5, np.float32))


def test_allocates_nothing_of_the_size_of_a_blob() -> None:
    assert allocated_nbytes(onnx("Clip", "X L"), [random((1 << 20,)), np.zeros((), np.float32)], "NUMPY") < NUMPY_NBYTES


@pytest.mark.parametrize(("low", "rule"), [(np.zeros(2, "f4"), "one number each"), (np.zeros(1, "f8"), "of one dtype")])
def test_refuses(low: Any, rule: str) -> None:
    with pytest.raises(ShapeError, match=rule):
        run_kernel(onnx("Clip", "X L"), [random((3,)), low])
