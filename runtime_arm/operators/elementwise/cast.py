"""Casts: Caffe2's Cast, FloatToHalf and HalfToFloat; ONNX's Cast, CastLike and BitCast.

The rule for floats that do not fit an integer is in common/casting.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, List

import numpy as np

from runtime_arm.errors import ArgumentError, OperatorError
from runtime_arm.netdef import Array, OperatorDef, dtypes
from runtime_arm.operators.common.cast_kernel import cast_kernel, cast_scratch, no_strings
from runtime_arm.operators.common.casting import LARGEST_HALF, STRING, caffe2_dtype, cast
from runtime_arm.operators.common.dtypes import BOOL, CAFFE2_NUMBERS, NUMBERS
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import TensorSpec


@operator("Cast", dtypes=BOOL + CAFFE2_NUMBERS + ("uint8", "int8", "uint16", "int16"))
def caffe2_cast(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X in the dtype ``to``, given by name or number. Floats become strings with six decimals."""
    return [x.with_dtype(caffe2_dtype(op, "to"))]


@caffe2_cast.reference
def caffe2_cast_reference(op: OperatorDef, x: Array) -> List[Any]:
    dtype = caffe2_dtype(op, "to")
    if dtype != STRING:
        return [cast(x, dtype)]
    return [_strings(x, lambda value: b"%f" % value if x.dtype.kind == "f" else b"%d" % value)]


caffe2_cast.kernel("NUMPY", supports=no_strings, scratch=cast_scratch)(cast_kernel)


def _strings(x: Array, text: Callable[[Any], bytes]) -> Array:
    y = np.empty(x.shape, object)
    y.reshape(-1)[:] = [text(value) for value in x.reshape(-1)]
    return y


@operator("FloatToHalf", dtypes=("float32",))
def float_to_half(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X in float16, rounded to nearest, ties to even.

    Numbers beyond float16 (65520 and more) become infinite, or with ``clip`` (0) +-65504. NaN stays NaN. Source:
    Caffe2's half_float_ops.cc.
    """
    return [x.with_dtype("float16")]


@float_to_half.reference
def float_to_half_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [(np.clip(x, -LARGEST_HALF, LARGEST_HALF) if op.get_bool("clip") else x).astype(np.float16)]


@float_to_half.kernel("NUMPY")
def float_to_half_numpy(call: Call) -> Run:
    x, y = call.inputs[0], call.outputs[0]
    if call.op.get_bool("clip"):
        return partial(np.clip, x, -LARGEST_HALF, LARGEST_HALF, out=y, casting="unsafe")
    return cast_kernel(call)


@operator("HalfToFloat", dtypes=("float16",), unpacks=True)
def half_to_float(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X in float32. Source: Caffe2's half_float_ops.cc."""
    return [x.with_dtype("float32")]


half_to_float.reference(lambda op, x: [x.astype(np.float32)])
half_to_float.kernel("NUMPY")(cast_kernel)


@operator("Cast", domain="onnx", dtypes=BOOL + NUMBERS + ("object",))
def onnx_cast(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X in the dtype ``to``. Strings are converted to numbers as Python's float() does."""
    dtype = dtypes.dtype_of(op.get_int("to"))
    if dtype is None:
        raise ArgumentError(op, f"to is not a data type: {op.get_int('to')}")
    return [x.with_dtype(dtype)]


@onnx_cast.reference
def onnx_cast_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [_onnx_cast(op, x, dtypes.dtype_of(op.get_int("to")))]


onnx_cast.kernel("NUMPY", supports=no_strings, scratch=cast_scratch)(cast_kernel)


def _onnx_cast(op: OperatorDef, x: Array, dtype: Any) -> Array:
    if x.dtype == STRING:
        return x.copy() if dtype == STRING else _numbers(op, x, dtype)
    return _strings(x, lambda value: str(value).encode()) if dtype == STRING else cast(x, dtype)


def _numbers(op: OperatorDef, x: Array, dtype: Any) -> Array:
    try:
        values = np.array([float(text) for text in x.reshape(-1)], np.float64)
    except ValueError as error:
        raise OperatorError(op, str(error)) from None
    numbers: Array = cast(values, dtype).reshape(x.shape)
    return numbers


@operator("CastLike", domain="onnx", inputs=2, dtypes=BOOL + NUMBERS + ("object",))
def cast_like(op: OperatorDef, x: TensorSpec, like: TensorSpec) -> List[TensorSpec]:
    """Y = X in the dtype of the second input."""
    return [x.with_dtype(like.dtype)]


@cast_like.reference
def cast_like_reference(op: OperatorDef, x: Array, like: Array) -> List[Any]:
    return [_onnx_cast(op, x, like.dtype)]


cast_like.kernel("NUMPY", supports=no_strings, scratch=cast_scratch)(cast_kernel)


@operator("BitCast", domain="onnx", dtypes=BOOL + NUMBERS)
def bit_cast(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = the bits of X, read as the dtype ``to``, which must have the same size."""
    dtype = dtypes.dtype_of(op.get_int("to"))
    if dtype is None or dtype == STRING or dtype.itemsize != x.dtype.itemsize:
        raise ArgumentError(op, f"to must have as many bits as {x.dtype.name}, got {dtype or op.get_int('to')}")
    return [x.with_dtype(dtype)]


@bit_cast.reference
def bit_cast_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [x.view(bit_cast.shape(op, TensorSpec.known(x))[0].dtype).copy()]


@bit_cast.kernel("NUMPY")
def bit_cast_numpy(call: Call) -> Run:
    x, y = call.inputs[0], call.outputs[0]
    return partial(np.copyto, y.view(x.dtype), x)
