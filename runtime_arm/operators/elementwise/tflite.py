"""TensorFlow Lite's elementwise operators that neither Caffe2 nor ONNX has. Two operands broadcast."""

from __future__ import annotations

from functools import partial
from typing import Any, List, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError, OperatorError
from runtime_arm.netdef import Array, OperatorDef, dtypes
from runtime_arm.operators.common.cast_kernel import saturate
from runtime_arm.operators.common.dtypes import FLOAT32, FLOATS, NUMBERS
from runtime_arm.operators.common.formulas import in_blocks, level
from runtime_arm.operators.elementwise.binary import common_shape
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import Operator, operator
from runtime_arm.registry.specs import TensorSpec

_SHIFTABLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")


@operator("FloorDiv", domain="tflite", inputs=2, dtypes=NUMBERS, inplace={0: (0, 1)}, kind=Kind.ELEMENTWISE)
def floor_div(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """C = floor(A / B). Dividing integers by 0 is an error."""
    return [TensorSpec(common_shape(op, a, b), a.dtype)]


def _divided(op: OperatorDef, a: Array, b: Array, out: Array) -> None:
    if a.dtype.kind == "f":
        np.floor(np.divide(a, b, out=out), out=out)
        return
    if not np.all(b):
        raise OperatorError(op, "integer division by 0")
    np.floor_divide(a, b, out=out)


@floor_div.reference
def floor_div_reference(op: OperatorDef, a: Array, b: Array) -> List[Any]:
    result = np.empty(np.broadcast(a, b).shape, a.dtype)
    with np.errstate(all="ignore"):
        _divided(op, a, b, result)
    return [result]


@floor_div.kernel("NUMPY")
def floor_div_numpy(call: Call) -> Run:
    return partial(_divided, call.op, call.inputs[0], call.inputs[1], call.outputs[0])


@operator("Atan2", domain="tflite", inputs=2, dtypes=("float32", "float64"), inplace={0: (0, 1)}, kind=Kind.ELEMENTWISE)
def atan2(op: OperatorDef, y: TensorSpec, x: TensorSpec) -> List[TensorSpec]:
    """The angle of the point (X, Y), from -pi to pi."""
    return [TensorSpec(common_shape(op, y, x), y.dtype)]


@atan2.reference
def atan2_reference(op: OperatorDef, y: Array, x: Array) -> List[Any]:
    return [np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(y.dtype)]


@operator("RightShift", domain="tflite", inputs=2, dtypes=_SHIFTABLE, inplace={0: (0, 1)}, kind=Kind.ELEMENTWISE)
def right_shift(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """C = floor(A / 2^B), with B clipped to 0..(number of bits - 1)."""
    return [TensorSpec(common_shape(op, a, b), a.dtype)]


@right_shift.reference
def right_shift_reference(op: OperatorDef, a: Array, b: Array) -> List[Any]:
    places = np.clip(b, 0, a.dtype.itemsize * 8 - 1)
    return [np.right_shift(a, places).astype(a.dtype)]


def _plain(schema: Operator, ufunc: np.ufunc) -> None:
    schema.kernel("NUMPY")(lambda call: partial(ufunc, call.inputs[0], call.inputs[1], out=call.outputs[0]))


_plain(atan2, np.arctan2)


_UPPER, _LOWER = 16.619047164916992, -9.0  # beyond these LiteRT takes 1 and exp(X)


@operator("Logistic", domain="tflite", dtypes=FLOAT32, inplace={0: 0}, kind=Kind.ELEMENTWISE)
def logistic(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = 1 / (1 + exp(-X)), every step rounded to float32; 1 above 16.619, exp(X) below -9.

    The bits are those of LiteRT's reference kernel (reference_ops/logistic.h), except for the exponential: here it is
    rounded correctly, there it is the C library's, which is off by one unit for about one number in 3,000. If the
    result becomes an integer, that matters only if it is also a tie between two integers.
    """
    return [x]


@logistic.reference
def logistic_reference(op: OperatorDef, x: Array) -> List[Any]:
    with np.errstate(all="ignore"):
        decay = np.exp(-x.astype(np.float64)).astype(np.float32)
        small = np.exp(x.astype(np.float64)).astype(np.float32)
        inner = np.float32(1) / (np.float32(1) + decay)
    return [np.where(x > np.float32(_UPPER), np.float32(1), np.where(x < np.float32(_LOWER), small, inner))]


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    length = (min(BLOCK, outputs[0].size),)
    return [TensorSpec(length, np.float64), TensorSpec(length, np.float32), TensorSpec(length, np.bool_)]


@logistic.kernel("NUMPY", scratch=_scratch, splits_work=True)
def logistic_numpy(call: Call) -> Run:
    return in_blocks(call, _logistic)


def _logistic(x: Array, y: Array, exponential: Array, result: Array, beyond: Array) -> None:
    np.negative(x, out=exponential)
    np.exp(exponential, out=exponential)
    np.copyto(result, exponential, casting="same_kind")
    result += 1
    np.divide(level(1, result), result, out=result)
    np.greater(x, level(_UPPER, x), out=beyond)
    np.copyto(result, 1, where=beyond)
    np.less(x, level(_LOWER, x), out=beyond)
    np.copyto(exponential, x)
    np.exp(exponential, out=exponential)
    np.copyto(result, exponential, where=beyond, casting="same_kind")
    np.copyto(y, result)


@operator("Cast", domain="tflite", dtypes=FLOATS, kind=Kind.ELEMENTWISE)
def cast(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X as integers of the dtype ``to``, rounded towards zero.

    What does not fit becomes the largest or smallest integer, NaN the largest. All other casts of TFLite are ONNX's.
    Source: LiteRT's cast.cc.
    """
    dtype = dtypes.dtype_of(op.get_int("to"))
    if dtype is None or dtype.kind not in "iu":
        raise ArgumentError(op, f"to must be an integer data type: {op.get_int('to')}")
    return [x.with_dtype(dtype)]


@cast.reference
def cast_reference(op: OperatorDef, x: Array) -> List[Any]:
    dtype = dtypes.dtype_of(op.get_int("to"))
    limits = np.iinfo(dtype)
    whole = [limits.max if np.isnan(value) else _whole(value, limits) for value in x.reshape(-1)]
    return [np.array(whole, dtype).reshape(x.shape)]


def _whole(value: Any, limits: Any) -> int:
    return int(limits.min) if value <= limits.min else int(limits.max) if value >= limits.max else int(value)


def _cast_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    length = (min(BLOCK, outputs[0].size),)
    return [TensorSpec(length, np.float64), TensorSpec(length, np.bool_)]


@cast.kernel("NUMPY", scratch=_cast_scratch, splits_work=True)
def cast_numpy(call: Call) -> Run:
    return in_blocks(call, _cast_block)


def _cast_block(x: Array, y: Array, values: Array, beyond: Array) -> None:
    limits = np.iinfo(y.dtype)
    if x.size and limits.min <= x.min().item() and x.max().item() <= limits.max:  # of Python's, which compares exactly
        np.copyto(y, x, casting="unsafe")
    else:
        saturate(x, values, y, beyond, limits.max)
