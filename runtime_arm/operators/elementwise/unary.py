"""Mathematical functions of one blob, elementwise: Caffe2's and ONNX's.

Functions that are one NumPy ufunc are listed in the table; those that take a formula follow (common/formulas.py).
"""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import (
    BOOL,
    CAFFE2_NUMBERS,
    FLOAT32,
    FLOAT32_64,
    FLOATS,
    INTEGERS,
    NUMBERS,
    SIGNED,
    Dtypes,
)
from runtime_arm.operators.common.erf import erf, erf_into
from runtime_arm.operators.common.formulas import declare_unary, ufunc_kernel, unary
from runtime_arm.records import NamedTuple
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import TensorSpec


class Row(NamedTuple):
    """An operator that is one ufunc: its name in Caffe2 and in ONNX, and the dtypes that it takes there."""

    caffe2: str
    caffe2_dtypes: Dtypes
    inplace: bool
    onnx: str
    onnx_dtypes: Dtypes
    ufunc: Any
    doc: str


UFUNCS = (
    Row("Abs", FLOAT32, False, "Abs", NUMBERS, np.absolute, "Y = |X|."),
    Row("Acos", FLOAT32, False, "Acos", FLOATS, np.arccos, "Y = arccos X, NaN outside -1 to 1."),
    Row("", (), True, "Acosh", FLOATS, np.arccosh, "Y = arcosh X, NaN below 1."),
    Row("Asin", FLOAT32, False, "Asin", FLOATS, np.arcsin, "Y = arcsin X, NaN outside -1 to 1."),
    Row("", (), True, "Asinh", FLOATS, np.arcsinh, "Y = arsinh X."),
    Row("Atan", FLOAT32, False, "Atan", FLOATS, np.arctan, "Y = arctan X."),
    Row("", (), True, "Atanh", FLOATS, np.arctanh, "Y = artanh X, NaN outside of -1 to 1."),
    Row("", (), True, "BitwiseNot", INTEGERS, np.invert, "Y = X with every bit inverted."),
    Row("Cbrt", FLOAT32, True, "", (), np.cbrt, "Y = the cube root of X, with X's sign."),
    Row("Ceil", FLOAT32, True, "Ceil", FLOATS, np.ceil, "Y = the smallest whole number >= X."),
    Row("Cos", FLOAT32, False, "Cos", FLOATS, np.cos, "Y = cos X, X in radians."),
    Row("Cosh", FLOAT32, False, "Cosh", FLOATS, np.cosh, "Y = cosh X."),
    Row("Exp", FLOAT32, True, "Exp", FLOATS, np.exp, "Y = e ** X."),
    Row("Floor", FLOAT32, True, "Floor", FLOATS, np.floor, "Y = the largest whole number <= X."),
    Row("Log", FLOAT32, True, "Log", FLOATS, np.log, "Y = the natural logarithm of X, NaN below 0."),
    Row("Negative", CAFFE2_NUMBERS, True, "Neg", FLOATS + SIGNED, np.negative, "Y = -X."),
    Row("Not", BOOL, False, "Not", BOOL, np.logical_not, "Y = not X."),
    Row("Reciprocal", FLOAT32, True, "Reciprocal", FLOATS, np.reciprocal, "Y = 1 / X."),
    Row("", (), True, "Round", FLOATS, np.rint, "Y = X rounded to a whole number, ties to even."),
    Row("", (), True, "Sign", NUMBERS, np.sign, "Y = 1 where X > 0, -1 where X < 0, 0 where X is 0, else NaN."),
    Row("Sin", FLOAT32, False, "Sin", FLOATS, np.sin, "Y = sin X, X in radians."),
    Row("Sinh", FLOAT32, False, "Sinh", FLOATS, np.sinh, "Y = sinh X."),
    Row("Sqr", FLOAT32, True, "", (), np.square, "Y = X squared."),
    Row("Sqrt", FLOAT32_64, True, "Sqrt", FLOATS, np.sqrt, "Y = the square root of X, NaN below 0."),
    Row("Tan", FLOAT32, False, "Tan", FLOATS, np.tan, "Y = tan X, X in radians."),
    Row("Tanh", FLOAT32, True, "Tanh", FLOATS, np.tanh, "Y = tanh X."),
)


def _declare_table() -> None:
    for row in UFUNCS:
        schemas = []
        if row.caffe2:
            schemas += declare_unary(row.caffe2, row.ufunc, row.doc, row.caffe2_dtypes, (), inplace=row.inplace)
        if row.onnx:
            schemas += declare_unary(row.onnx, row.ufunc, row.doc, (), row.onnx_dtypes)
        for schema in schemas:
            schema.kernel("NUMPY", splits_work=True)(ufunc_kernel(row.ufunc))


_declare_table()


@unary("Cube", lambda x: x**3, caffe2=CAFFE2_NUMBERS, onnx=(), fast=CAFFE2_NUMBERS, inplace=False, scratch=1)
def cube(x: Array, y: Array, t: Array) -> None:
    """Y = X ** 3."""
    np.square(x, out=t)
    np.multiply(x, t, out=y)


@unary("Rsqrt", lambda x: 1 / np.sqrt(x), onnx=())
def rsqrt(x: Array, y: Array) -> None:
    """Y = 1 / the square root of X."""
    np.sqrt(x, out=y)
    np.reciprocal(y, out=y)


@unary("Erf", erf, fast=FLOAT32, inplace=False, scratch=2)
def erf_operator(x: Array, y: Array, t: Array, u: Array) -> None:
    """Y = 2 / sqrt(pi) times the integral of exp(-t^2) for t from 0 to X."""
    erf_into(x, y, t, u)


@unary("Scale", lambda x, scale: x * scale, caffe2=FLOAT32_64, onnx=(), scale=1.0)
def scale_operator(x: Array, y: Array, scale: float) -> None:
    """Y = scale X."""
    np.multiply(x, scale, out=y)


def _sign(x: Any) -> Any:
    return (x > 0).astype(np.int8) - (x < 0).astype(np.int8)


def _replace_nan(x: Any, value: float) -> Any:
    return np.where(np.isnan(x), value, x)


def _stump(x: Any, threshold: float, low_value: float, high_value: float) -> Any:
    return np.where(x <= threshold, low_value, high_value)


declare_unary("Sign", _sign, "Y = 1 where X > 0, -1 where X < 0, else 0.", CAFFE2_NUMBERS, (), inplace=False)
declare_unary("ReplaceNaN", _replace_nan, "Y = value where X is NaN, else X.", FLOAT32_64, (), value=0.0)
declare_unary(
    "StumpFunc",
    _stump,
    "Y = low_value where X <= threshold, else high_value.",
    FLOAT32,
    (),
    inplace=False,
    threshold=0.0,
    low_value=0.0,
    high_value=0.0,
)


@operator("IsNaN", dtypes=FLOAT32_64, kind=Kind.ELEMENTWISE)
def is_nan(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = 1 where X is NaN, else 0; uint8."""
    return [x.with_dtype(np.uint8)]


@is_nan.reference
def is_nan_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [np.isnan(x).astype(np.uint8)]


@operator("IsNaN", domain="onnx", dtypes=FLOATS, kind=Kind.ELEMENTWISE)
def onnx_is_nan(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = True where X is NaN."""
    return [x.with_dtype(np.bool_)]


@onnx_is_nan.reference
def onnx_is_nan_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [np.isnan(x)]


@operator("IsInf", domain="onnx", dtypes=FLOATS, kind=Kind.ELEMENTWISE)
def is_inf(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = True where X is infinite with a sign that detect_positive or detect_negative selects."""
    return [x.with_dtype(np.bool_)]


@is_inf.reference
def is_inf_reference(op: OperatorDef, x: Array) -> List[Any]:
    positive, negative = op.get_bool("detect_positive", True), op.get_bool("detect_negative", True)
    return [((x == np.inf) & positive) | ((x == -np.inf) & negative)]


@operator("IsMemberOf", dtypes=(*BOOL, "int32", "int64", "object"), kind=Kind.ELEMENTWISE)
def is_member_of(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = True where X is one of the integers or strings ``value``."""
    return [x.with_dtype(np.bool_)]


@is_member_of.reference
def is_member_of_reference(op: OperatorDef, x: Array) -> List[Any]:
    members: Any = [text.encode() for text in op.get_strs("value")] if x.dtype == object else op.get_ints("value")
    if x.dtype == np.bool_:
        members = [bool(member) for member in members]
    return [np.array([value in members for value in x.reshape(-1).tolist()], np.bool_).reshape(x.shape)]
