"""Functions of one blob: Python's own mathematics, engines, refusals."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ShapeError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.kernel import REFERENCE
from runtime_arm.registry.schema import lookup
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.exact import assert_same
from tests.support.in_place import run_in_place
from tests.support.operands import caffe2, onnx, random

SCALAR: Dict[OperatorDef, Callable[[float], float]] = {
    caffe2("Abs", "X"): abs,
    caffe2("Atan", "X"): math.atan,
    onnx("Asinh", "X"): math.asinh,
    caffe2("Cbrt", "X"): lambda x: math.copysign(abs(x) ** (1 / 3), x),
    caffe2("Ceil", "X"): math.ceil,
    caffe2("Cos", "X"): math.cos,
    caffe2("Cosh", "X"): math.cosh,
    caffe2("Cube", "X"): lambda x: x * x * x,
    caffe2("Erf", "X"): math.erf,
    caffe2("Exp", "X"): math.exp,
    caffe2("Floor", "X"): math.floor,
    caffe2("Negative", "X"): lambda x: -x,
    caffe2("ReplaceNaN", "X", value=2.0): lambda x: x,
    onnx("Round", "X"): round,
    caffe2("Scale", "X", scale=-1.5): lambda x: -1.5 * x,
    caffe2("Sign", "X"): lambda x: (x > 0) - (x < 0),
    caffe2("Sin", "X"): math.sin,
    caffe2("Sinh", "X"): math.sinh,
    caffe2("Sqr", "X"): lambda x: x * x,
    caffe2("StumpFunc", "X", threshold=0.5, low_value=-1.0, high_value=3.0): lambda x: -1 if x <= 0.5 else 3,
    caffe2("Tan", "X"): math.tan,
}
POSITIVE: Dict[OperatorDef, Callable[[float], float]] = {
    onnx("Acosh", "X"): lambda x: math.acosh(x) if x >= 1 else math.nan,
    caffe2("Log", "X"): math.log,
    caffe2("Reciprocal", "X"): lambda x: 1 / x,
    caffe2("Rsqrt", "X"): lambda x: 1 / math.sqrt(x),
    caffe2("Sqrt", "X"): math.sqrt,
}
UNIT: Dict[OperatorDef, Callable[[float], float]] = {
    caffe2("Acos", "X"): math.acos,
    caffe2("Asin", "X"): math.asin,
    onnx("Atanh", "X"): math.atanh,
}
RANGES = ((SCALAR, -640, 640), (POSITIVE, 1, 6400), (UNIT, -63, 63))  # in 64ths
EVERY = [(op, scalar, low, high) for table, low, high in RANGES for op, scalar in table.items()]
OPERATORS = [pytest.param(*row, id=row[0].full_type) for row in EVERY]


@pytest.mark.parametrize(("op", "scalar", "low", "high"), OPERATORS)
def test_computes_its_formula(op: OperatorDef, scalar: Callable[[float], float], low: int, high: int) -> None:
    @given(st.lists(st.integers(low, high).map(lambda n: n / 64), min_size=1, max_size=20))
    @settings(max_examples=15)
    def check(numbers: Any) -> None:
        x = np.array(numbers, np.float32)
        assert_close(run_kernel(op, [x])[0], np.array([scalar(float(number)) for number in x]).astype(np.float32))
        assert_engines_match_reference(op, [x])

    check()


@pytest.mark.parametrize("op", [caffe2(type, "X") for type in ("Cube", "Erf", "Exp", "Rsqrt", "Scale", "Sqrt")])
def test_engines_agree_beyond_a_block(op: OperatorDef) -> None:
    x = np.abs(random((2, BLOCK + 3)))
    assert assert_engines_match_reference(op, [x]) == ["NUMPY"]
    assert allocated_nbytes(op, [np.ones(1 << 20, np.float32)], "NUMPY") < NUMPY_NBYTES
    if lookup(op).inplace:
        np.testing.assert_array_equal(run_in_place(op, [x], "NUMPY"), run_kernel(op, [x], "NUMPY")[0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 4.2, -4.2, 1e30, -1e30])
def test_erf_reaches_one(value: float) -> None:
    assert_engines_match_reference(caffe2("Erf", "X"), [np.array([value], np.float32)])


def test_integers_are_exact() -> None:
    x = np.array([-3, 0, 2097152], np.int64)
    assert_same(run_kernel(caffe2("Cube", "X"), [x], "NUMPY")[0], x * x * x)
    assert_same(run_kernel(onnx("Abs", "X"), [x], "NUMPY")[0], np.array([3, 0, 2097152]))
    assert_same(run_kernel(onnx("Sign", "X"), [np.array([0, 7], np.uint8)])[0], np.array([0, 1], np.uint8))
    bits = np.array([0, 7], np.uint8)
    assert_same(run_kernel(onnx("BitwiseNot", "X"), [bits], "NUMPY")[0], np.array([255, 248], np.uint8))


def test_the_sign_of_nan() -> None:
    """Caffe2's is 0."""
    x = np.array([np.nan, -np.inf, -2, -0.0, 0, 1e-45, np.inf], np.float32)
    expected = np.array([np.nan, -1, -1, 0, 0, 1, 1], np.float32)
    for engine in (REFERENCE, "NUMPY"):
        np.testing.assert_array_equal(run_kernel(onnx("Sign", "X"), [x], engine)[0], expected)
    np.testing.assert_array_equal(run_kernel(caffe2("Sign", "X"), [x])[0], np.nan_to_num(expected))


def test_infinities_are_selected_by_sign() -> None:
    x = np.array([np.inf, -np.inf, 0, np.nan], np.float32)
    assert_same(run_kernel(onnx("IsInf", "X", detect_negative=0), [x])[0], np.array([True, False, False, False]))
    assert_same(run_kernel(caffe2("IsNaN", "X"), [x])[0], np.array([0, 0, 0, 1], np.uint8))


def test_members_may_be_integers_booleans_and_strings() -> None:
    for x, value, expected in (
        (np.array([1, 5, 3]), [3, 1], [1, 0, 1]),
        (np.array([True, False]), [1], [1, 0]),
        (np.array([b"a", b"b"], object), ["b"], [0, 1]),
        (np.array([1]), [], [0]),
    ):
        assert_same(run_kernel(caffe2("IsMemberOf", "X", value=value), [x])[0], np.array(expected, bool))


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        (caffe2("Exp", "X"), "float64"),
        (caffe2("Abs", "X"), "int32"),
        (caffe2("Not", "X"), "int32"),
        (onnx("Exp", "X"), "int32"),
        (onnx("Neg", "X"), "uint8"),
        (caffe2("ReplaceNaN", "X"), "int64"),
        (caffe2("IsMemberOf", "X"), "float32"),
    ],
)
def test_refuses_other_dtypes(op: OperatorDef, dtype: str) -> None:
    with pytest.raises(ShapeError, match=f"input 'X' must be .*; got {dtype}"):
        run_kernel(op, [np.ones(2, dtype)])


@pytest.mark.parametrize("type", ["Abs", "Sin", "Erf", "Sign", "Cube", "Not"])
def test_refuses_to_overwrite_what_caffe2_does_not(type: str) -> None:
    with pytest.raises(ShapeError, match="must not overwrite"):
        run_kernel(caffe2(type, "X", "X"), [np.ones(2, bool if type == "Not" else np.float32)])
