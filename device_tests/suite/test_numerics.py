"""Arithmetic in which ARM and x86 differ unless care is taken: casts, rounding, subnormal numbers, NaN."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel, supporting_engines
from runtime_arm.netdef import OperatorDef, dtypes
from runtime_arm.operators.common.casting import to_integers
from runtime_arm.operators.quantised.rounding import requantize

inf, nan = np.inf, np.nan
FLOATS = [0.9, -0.9, 300.5, -1.5, 2147483520.0, 3e9, -3e9, 1e19, -1e19, inf, -inf, nan]
INTEGERS: Dict[str, List[int]] = {
    "int32": [0, 0, 300, -1, 2147483520, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), -(2**31)],
    "int64": [0, 0, 300, -1, 2147483520, 3 * 10**9, -3 * 10**9, 2**63 - 1, -(2**63), 2**63 - 1, -(2**63), -(2**63)],
    "uint8": [0, 0, 44, 255, 128, 255, 0, 255, 0, 255, 0, 0],
    "int8": [0, 0, 44, -1, -128, -1, 0, -1, 0, -1, 0, 0],
}


def outputs_of(op: OperatorDef, *inputs: Any) -> List[Any]:
    """The first output, by the reference kernel and by every engine."""
    return [run_kernel(op, inputs, engine)[0] for engine in ["REFERENCE", *supporting_engines(op, inputs)]]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_casts_of_numbers_that_do_not_fit(dtype: str) -> None:
    x = np.array(FLOATS, np.float32)
    assert to_integers(x, dtype).tolist() == INTEGERS[dtype]
    number = dtypes.number_of(np.dtype(dtype))
    assert number is not None
    for y in outputs_of(OperatorDef.of("Cast", ["x"], ["y"], domain="onnx", to=number), x):
        assert y.tolist() == INTEGERS[dtype]


def test_halves_are_rounded_to_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 8388609.0], np.float32)
    for y in outputs_of(OperatorDef.of("Round", ["x"], ["y"], domain="onnx"), x):
        assert y.tolist() == [0, 2, 2, 0, -2, -2, 0, 8388609]
    quantize = OperatorDef.of("QuantizeLinear", ["x", "scale", "zero"], ["y"], domain="onnx")
    for y in outputs_of(quantize, x[:6], np.float32(1), np.uint8(10)):
        assert y.tolist() == [10, 12, 12, 10, 8, 8]


def test_numbers_that_do_not_fit_saturate_when_quantised() -> None:
    x = np.array([1e30, -1e30, inf, -inf, 300, -300], np.float32)
    quantize = OperatorDef.of("QuantizeLinear", ["x", "scale", "zero"], ["y"], domain="onnx")
    for y in outputs_of(quantize, x, np.float32(1), np.int8(0)):
        assert y.tolist() == [127, -128, 127, -128, 127, -128]
    for z in outputs_of(OperatorDef.of("Int8Quantize", ["x"], ["y"], Y_scale=1.0, Y_zero_point=0), x):
        assert getattr(z, "values", z).tolist() == [
            0,
            0,
            0,
            0,
            255,
            0,
        ]  # as in Caffe2, which goes through the smallest int32


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("onnx_even", [0, 0, 2, 2, -2, -2, 127, -128]),
        ("gemmlowp", [0, 1, 2, 3, -1, -2, 127, -128]),
        ("tflite_ref", [0, 1, 2, 3, -1, -2, 127, -128]),
        ("tflite_real", [0, 1, 2, 3, -2, -3, 127, -128]),
    ],
)
def test_requantisation_rounds_by_its_rule(rule: str, expected: List[int]) -> None:
    sums = np.array([0, 1, 3, 5, -3, -5, 2**31 - 1, -(2**31)], np.int32)
    assert requantize(sums, 0.5, 0, np.int8, rule).tolist() == expected


def test_half_precision_rounds_to_even_and_overflows_to_infinity() -> None:
    x = np.array([2049.0, 2051.0, 65519.0, 65520.0, 6e-8, 2e-8, nan], np.float32)
    for y in outputs_of(OperatorDef.of("FloatToHalf", ["x"], ["y"]), x):
        assert y[:-1].tolist() == [2048, 2052, 65504, inf, 2.0**-24, 0.0]
        assert np.isnan(y[-1])


def test_subnormal_numbers_are_kept_or_become_zero() -> None:
    """NEON on 32-bit ARM has no subnormal numbers."""
    x = np.array([1e-40, -1e-40, 1e-45], np.float32)
    for type, result in (("Abs", np.abs(x)), ("Relu", np.maximum(x, 0)), ("Negative", -x)):
        for y in outputs_of(OperatorDef.of(type, ["x"], ["y"]), x):
            assert np.all((y == result) | (y == 0)), type
    for y in outputs_of(OperatorDef.of("Add", ["x", "b"], ["y"]), x, np.ones(3, np.float32)):
        assert y.tolist() == [1, 1, 1]


def test_nan_propagates_and_affects_no_other_element() -> None:
    x = np.array([nan, -1, 2, nan], np.float32)
    for type in ("Sigmoid", "Tanh", "Exp", "Sqrt"):
        for y in outputs_of(OperatorDef.of(type, ["x"], ["y"]), x):
            assert np.isnan(y[[0, 3]]).all(), type
    for y in outputs_of(OperatorDef.of("IsNaN", ["x"], ["y"], domain="onnx"), x):
        assert y.tolist() == [True, False, False, True]


def test_integers_divide_towards_zero() -> None:
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    for y in outputs_of(OperatorDef.of("Div", ["a", "b"], ["y"]), a, b):
        assert y.tolist() == [3, -3, -3, 3]


def test_sums_of_eight_bit_products_are_exact_beyond_float_precision() -> None:
    """2**24 + 1 is not a float32, so the blocks of a product must be added up as integers."""
    x, w = np.full((1, 300), 255, np.uint8), np.full((300, 1), 255, np.uint8)
    op = OperatorDef.of("MatMulInteger", ["x", "w"], ["y"], domain="onnx")
    for y in outputs_of(op, x, w):
        assert y.tolist() == [[255 * 255 * 300]]
