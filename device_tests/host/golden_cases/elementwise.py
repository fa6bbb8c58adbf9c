"""Activations, arithmetic, comparisons and casts."""

from __future__ import annotations

from typing import Iterator

import numpy as np

from device_tests.host.golden_cases.case import FAR, SPECIAL, Case, case, onnx
from runtime_arm.netdef.dtypes import FLOAT, INT32, INT64, UINT8


def elementwise() -> Iterator[Case]:
    """Activations, arithmetic, comparisons, casts."""
    activations = "Elu HardSigmoid LeakyRelu Relu Selu Sigmoid Softplus Softsign Swish Tanh ThresholdedRelu Gelu Mish"
    functions = "Abs Atan Ceil Cos Cosh Erf Exp Floor Reciprocal Sign Sin Sinh Tan"
    yield from case(f"{activations} {functions} Cbrt Cube Negative Sqr ReluN Clip StumpFunc", "3x5x7")
    yield from onnx(f"{activations} {functions} Asinh Celu Clip HardSwish Neg Round Shrink", "3x5x7")
    yield from case("Acos Asin", "unit 3x5x7")
    yield from case("Logit", np.linspace(0.1, 0.9, 50, dtype=np.float32))
    yield from onnx("Acos Asin Atanh", "unit 3x5x7")
    yield from onnx("Acosh", np.linspace(1, 9, 50, dtype=np.float32))
    yield from case("Log Sqrt Rsqrt", "pos 3x5x7")
    yield from onnx("Log Sqrt", "pos 3x5x7")
    yield from case("Relu Sigmoid Tanh Floor Ceil Abs Negative Clip Sign ReplaceNaN", SPECIAL)
    yield from onnx("Round Clip Relu Sign IsNaN IsInf Floor", SPECIAL)
    yield from onnx("Abs Neg Sign", "int32 4x5")
    yield from case("Clip", "3x5x7", min=-0.3, max=0.7)
    yield from case("Scale", "3x5x7", scale=2.5)
    yield from case("Pow", "pos 4x5", exponent=2.5)
    yield from case("Pow", "4x5", exponent=3.0)
    yield from onnx("Pow", "pos 4x5", "4x5")
    yield from onnx("Pow", "4x5", np.float32(2))
    yield from case("PRelu", "2x3x4x5", "!3")
    yield from onnx("PRelu", "2x3x4x5", "!3x1x1")
    yield from case("Add Sub Mul Div LT LE GT GE EQ NE", "2x3x4", "pos 3x1")
    yield from case("Add Sub Mul", "int32 2x3x4", "int32 4")
    yield from case("Add Mul", "2x3x4x5", "3", broadcast=1, axis=1)
    yield from case("And Or Xor", "bool 3x4", "bool 3x4")
    yield from case("BitwiseAnd BitwiseOr BitwiseXor", "int32 3x4", "int32 3x4")
    yield from case("Not", "bool 3x4")
    yield from onnx("Add Sub Mul Div Less LessOrEqual Greater GreaterOrEqual Equal", "2x3x4", "pos 3x1")
    yield from onnx("Mod", "int32 2x3x4", np.array([3, -4, 5, 7], np.int32))
    yield from onnx("Div", "int32 2x3x4", np.array([3, -4, 5, 7], np.int32))
    yield from onnx("And Or Xor", "bool 3x1", "bool 4")
    yield from onnx("BitwiseAnd BitwiseOr BitwiseXor", "uint8 3x1", "uint8 4")
    yield from onnx("Not", "bool 3x4")
    yield from onnx("BitwiseNot", "int8 3x4")
    yield from case("Max Min Sum Mean SumRelu", "3x4", "3x4", "3x4")
    yield from case("SumInt", "int32 3x4", "int32 3x4")
    yield from onnx("Max Min Sum Mean", "3x1", "4", "2x3x4")
    yield from case("Where", "bool 3x4", "3x4", "3x4")
    yield from case("Conditional", "bool 3", "3x4", "3x4")
    yield from onnx("Where", "bool 3x1", "4", "3x4")
    yield from case("Cast", "3x5x7", to="INT32")
    yield from case("FloatToHalf", "3x5x7")
    yield from case("HalfToFloat", "float16 3x5x7")
    for to in (INT32, UINT8, INT64):
        yield from onnx("Cast", FAR, to=to)
    yield from onnx("Cast", "int32 4x5", to=FLOAT)
    yield from onnx("CastLike", FAR, np.int8(0))
    yield from onnx("BitCast", "float32 4x5", to=INT32)
    yield from case("Dropout", "3x4", is_test=1, outputs=2)
    yield from onnx("Dropout", "3x4")
    yield from case("Power", "pos 3x4", domain="caffe", power=2.0, scale=0.5, shift=1.0)
