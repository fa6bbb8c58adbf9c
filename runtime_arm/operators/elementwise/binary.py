"""Arithmetic, comparison and logic of two blobs, elementwise: Caffe2's and ONNX's operators.

ONNX broadcasts as NumPy does. Caffe2 does too, and in an older way with ``broadcast=1`` (common/broadcasting.py,
``second_shape``). Operators that are one NumPy ufunc are listed in the tables. ONNX's take more dtypes.
"""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError, OperatorError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import broadcast, second_shape
from runtime_arm.operators.common.dtypes import (
    BOOL,
    CAFFE2_NUMBERS,
    FLOATS,
    INTEGERS,
    NUMBERS,
    Dtypes,
    require_same_dtype,
)
from runtime_arm.operators.common.formulas import apply, exactly, only_for
from runtime_arm.records import NamedTuple
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

CAFFE2_ORDERED = BOOL + CAFFE2_NUMBERS
CAFFE2_BITS = ("bool", "int32", "int64")
EQUATABLE = BOOL + NUMBERS + ("object",)


class Row(NamedTuple):
    """An operator that is one ufunc: its name in Caffe2 and in ONNX, and the dtypes that it takes there."""

    caffe2: str
    caffe2_dtypes: Dtypes
    inplace: Tuple[int, ...]
    onnx: str
    onnx_dtypes: Dtypes
    ufunc: Any
    doc: str


ARITHMETIC = (
    Row("Add", CAFFE2_NUMBERS, (0, 1), "Add", NUMBERS, np.add, "C = A + B."),
    Row("Sub", CAFFE2_NUMBERS, (0, 1), "Sub", NUMBERS, np.subtract, "C = A - B."),
    Row("Mul", CAFFE2_NUMBERS, (0, 1), "Mul", NUMBERS, np.multiply, "C = A B."),
    Row("And", BOOL, (0,), "And", BOOL, np.logical_and, "C = A and B."),
    Row("Or", BOOL, (0,), "Or", BOOL, np.logical_or, "C = A or B."),
    Row("Xor", BOOL, (0,), "Xor", BOOL, np.logical_xor, "C = A or B, but not both."),
    Row("BitwiseAnd", CAFFE2_BITS, (0,), "BitwiseAnd", INTEGERS, np.bitwise_and, "C = A & B, bit by bit."),
    Row("BitwiseOr", CAFFE2_BITS, (0,), "BitwiseOr", INTEGERS, np.bitwise_or, "C = A | B, bit by bit."),
    Row("BitwiseXor", CAFFE2_BITS, (0,), "BitwiseXor", INTEGERS, np.bitwise_xor, "C = A ^ B, bit by bit."),
)
COMPARISON = (
    Row("EQ", CAFFE2_ORDERED, (), "Equal", EQUATABLE, np.equal, "C = A == B."),
    Row("NE", CAFFE2_ORDERED, (), "", (), np.not_equal, "C = A != B."),
    Row("LT", CAFFE2_ORDERED, (), "Less", NUMBERS, np.less, "C = A < B."),
    Row("LE", CAFFE2_ORDERED, (), "LessOrEqual", NUMBERS, np.less_equal, "C = A <= B."),
    Row("GT", CAFFE2_ORDERED, (), "Greater", NUMBERS, np.greater, "C = A > B."),
    Row("GE", CAFFE2_ORDERED, (), "GreaterOrEqual", NUMBERS, np.greater_equal, "C = A >= B."),
)


def _declare_table() -> None:
    for rows, dtype in ((ARITHMETIC, None), (COMPARISON, np.bool_)):
        for row in rows:
            if row.caffe2:
                _declare(row.caffe2, "", row.caffe2_dtypes, row.inplace, row.ufunc, dtype, row.doc)
            if row.onnx:
                inplace = (0, 1) if row.inplace else ()
                _declare(row.onnx, "onnx", row.onnx_dtypes, inplace, row.ufunc, dtype, row.doc)


def _declare(
    type: str, domain: str, dtypes: Dtypes, inplace: Tuple[int, ...], ufunc: Any, result: Any, doc: str
) -> None:
    """Declares one operator of the tables. ``result``: the dtype of its output; None for that of its inputs."""

    def shape(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
        return [TensorSpec(common_shape(op, a, b), result or a.dtype)]

    shape.__doc__ = doc
    overwritten = {0: inplace} if inplace else {}
    schema = operator(type, domain=domain, inputs=2, dtypes=dtypes, inplace=overwritten, kind=Kind.ELEMENTWISE)(shape)

    @schema.reference
    def reference(op: OperatorDef, a: Array, b: Array) -> List[Any]:
        b = b.reshape(second_shape(op, TensorSpec.known(a), TensorSpec.known(b)))
        return [ufunc(a, b).astype(np.bool_) if result else exactly(ufunc, a, b)]

    schema.kernel("NUMPY", splits_work=True)(lambda call: apply(call, ufunc, *operands(call)))


def common_shape(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> Shape:
    """The shape of the result for two operands of one dtype. ShapeError if it overwrites an input of another shape."""
    require_same_dtype(op, a, b)
    shape = broadcast(op, (a, b), (a.shape, second_shape(op, a, b)))
    overwritten = [spec for name, spec in zip(op.input, (a, b)) if name == op.output[0]]
    same = all(spec.shape == shape for spec in overwritten)
    require(op, same, f"the output, {list(shape)}, overwrites an input of another shape", a, b)
    second = op.get_bool("broadcast") and op.output[0] == op.input[1]
    require(op, not second, "with broadcast=1 the output may overwrite only the first input", a, b)
    return shape


def operands(call: Call) -> Tuple[Array, Array]:
    """Both inputs, the second one reshaped so that it broadcasts as the operator says."""
    a, b = call.inputs
    return a, b.reshape(second_shape(call.op, TensorSpec(a.shape, a.dtype), TensorSpec(b.shape, b.dtype)))


_declare_table()


@operator("Div", inputs=2, dtypes=CAFFE2_NUMBERS, inplace={0: 0}, kind=Kind.ELEMENTWISE)
def div(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """C = A / B. Integers are divided towards zero; dividing them by 0 is an error."""
    return [TensorSpec(common_shape(op, a, b), a.dtype)]


@operator("Div", domain="onnx", inputs=2, dtypes=NUMBERS, inplace={0: (0, 1)}, kind=Kind.ELEMENTWISE)
def onnx_div(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """C = A / B. Integers are divided towards zero; dividing them by 0 is an error."""
    return [TensorSpec(common_shape(op, a, b), a.dtype)]


@onnx_div.reference
@div.reference
def div_reference(op: OperatorDef, a: Array, b: Array) -> List[Any]:
    b = b.reshape(second_shape(op, TensorSpec.known(a), TensorSpec.known(b)))
    if a.dtype.kind == "f":
        return [exactly(np.divide, a, b)]
    _refuse_zero(op, b)
    return [np.floor_divide(a - np.fmod(a, b), b)]


@onnx_div.kernel("NUMPY", supports=only_for(FLOATS), splits_work=True)
@div.kernel("NUMPY", supports=only_for(FLOATS), splits_work=True)
def div_numpy(call: Call) -> Run:
    return apply(call, np.divide, *operands(call))


def _refuse_zero(op: OperatorDef, divisor: Array) -> None:
    if not divisor.all():
        raise OperatorError(op, "integer division by 0")


@operator("Mod", dtypes=("int32", "int64"), inplace={0: 0}, kind=Kind.ELEMENTWISE)
def mod(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = the remainder of X / divisor. It has the sign of X, or with sign_follow_divisor that of the divisor."""
    if op.get_int("divisor", 0) == 0:
        raise ArgumentError(op, "divisor must not be 0")
    return [x]


@mod.reference
def mod_reference(op: OperatorDef, x: Array) -> List[Any]:
    remainder = np.mod if op.get_bool("sign_follow_divisor") else np.fmod
    return [remainder(x, x.dtype.type(op.get_int("divisor")))]


@operator("Mod", domain="onnx", inputs=2, dtypes=NUMBERS, inplace={0: (0, 1)}, kind=Kind.ELEMENTWISE)
def onnx_mod(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """C = the remainder of A / B. It has the sign of B, or with fmod=1 that of A. Integers: B must not be 0."""
    return [TensorSpec(common_shape(op, a, b), a.dtype)]


@onnx_mod.reference
def onnx_mod_reference(op: OperatorDef, a: Array, b: Array) -> List[Any]:
    if a.dtype.kind != "f":
        _refuse_zero(op, b)
    return [np.fmod(a, b) if op.get_bool("fmod") else np.mod(a, b)]


@operator("BitShift", domain="onnx", inputs=2, dtypes=INTEGERS, inplace={0: (0, 1)}, kind=Kind.ELEMENTWISE)
def bit_shift(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """C = A << B or A >> B, as ``direction`` says: LEFT or RIGHT."""
    if op.get_str("direction") not in ("LEFT", "RIGHT"):
        raise ArgumentError(op, f"direction must be LEFT or RIGHT, got {op.get_str('direction')!r}")
    return [TensorSpec(common_shape(op, a, b), a.dtype)]


@bit_shift.reference
def bit_shift_reference(op: OperatorDef, a: Array, b: Array) -> List[Any]:
    return [(np.left_shift if op.get_str("direction") == "LEFT" else np.right_shift)(a, b)]
