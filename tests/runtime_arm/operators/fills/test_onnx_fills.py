"""ONNX's constants and ranges: NumPy, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import run_kernel
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef.dtypes import DOUBLE
from tests.support.exact import assert_same
from tests.support.operands import onnx


@given(
    st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([-3, -1, 1, 2])),
    st.sampled_from(["i2", "i4", "i8", "f4", "f8"]),
)
@settings(max_examples=100)
def test_ranges_agree_with_numpy(bounds: Any, dtype: str) -> None:
    inputs = [np.array(number, dtype) for number in bounds]
    assert_same(run_kernel(onnx("Range", "S L D"), inputs, constants=(0, 1, 2))[0], np.arange(*bounds, dtype=dtype))


def test_the_diagonal_moves_by_k() -> None:
    op = onnx("EyeLike", "X", k=-1, dtype=DOUBLE)
    assert_same(run_kernel(op, [np.zeros((3, 2), np.int8)])[0], np.eye(3, 2, -1))


@pytest.mark.parametrize(
    ("op", "inputs", "rule"),
    [
        (onnx("Range", "S L D"), [0, 1, 0], "0 to 1 by 0 is not a finite range"),
        (onnx("Range", "S L D"), [0.0, np.inf, 1.0], "not a finite range"),
        (onnx("Range", "S L D"), [0, 1 << 62, 1], "more than the"),
        (onnx("ConstantOfShape", "S"), [[1 << 40, 1 << 40]], "more than the"),
        (onnx("ConstantOfShape", "S"), [[2, -1]], "not be negative"),
        (onnx("ConstantOfShape", "S", value=np.zeros(2)), [[1]], "one element, got shape"),
        (onnx("EyeLike", "X"), [[1.0]], "a matrix"),
        (onnx("EyeLike", "X", dtype=4), [[[1.0]]], "must be a number type, got 4"),
    ],
)
def test_refuses(op: Any, inputs: Any, rule: str) -> None:
    with pytest.raises(ArmnetError, match=rule):
        run_kernel(op, [np.asarray(value) for value in inputs], constants=range(len(inputs)))
