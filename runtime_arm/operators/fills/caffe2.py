"""Caffe2's fills: operators that make a blob from their arguments. Weights are GivenTensorFills.

Weights come in two forms. In armnet's own form ``values`` is a tensor: the blob is that tensor, not a copy. In Caffe2's
form ``values`` is a list of floats, integers or strings, which becomes a blob of ``shape`` in the operator's dtype.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, List, Optional

import numpy as np

from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.machine.memory import require_memory
from runtime_arm.netdef import Argument, Array, OperatorDef, dtypes
from runtime_arm.operators.common.casting import STRING, caffe2_dtype
from runtime_arm.operators.quantised.parameters import stated_quantization
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import integers_of, operator, require
from runtime_arm.registry.specs import Quantization, Shape, TensorSpec

ANY_DTYPE = "GivenTensorFill"  # the fill whose tensor may have any dtype: for some, Caffe2 has no fill of their own
LISTED: Dict[str, np.dtype[Any]] = {
    **{type: np.dtype(dtype) for type, dtype in dtypes.DTYPE_OF_FILL.items() if type != ANY_DTYPE},
    "GivenTensorStringFill": STRING,
}


def filled_shape(op: OperatorDef, like: Optional[TensorSpec] = None) -> Shape:
    """A fill's shape: ``shape``, or the input's shape, or with input_as_shape its content; plus extra_shape."""
    shape, extra = op.get_ints("shape"), op.get_ints("extra_shape")
    if like is None:
        if extra or op.get_bool("input_as_shape"):
            raise ArgumentError(op, "extra_shape and input_as_shape need an input")
        result = shape
    elif shape:
        raise ArgumentError(op, "give either shape or an input, not both")
    elif op.get_bool("input_as_shape"):
        vector = like.ndim == 1 and like.dtype == np.int64 and like.size > 0
        require(op, vector, "with input_as_shape the input must be a vector of int64", like)
        result = (*integers_of(op, like, "shape"), *extra)
    else:
        result = (*like.shape, *extra)
    if any(n < 0 for n in result):
        raise ArgumentError(op, f"dimensions must not be negative, got {list(result)}")
    require_memory(TensorSpec(result, np.uint8).nbytes, f"{op.signature()}: a blob of shape {list(result)}")
    return result


def narrowed(op: OperatorDef, integers: Any, dtype: Any) -> Array:
    """Integers as ``dtype``; ShapeError unless they all fit. As bool, every number but 0 is true."""
    values = np.asarray(integers, np.int64)
    if np.dtype(dtype) == np.bool_:
        return np.asarray(values != 0)
    limits = np.iinfo(dtype)
    wrong = values[(values < limits.min) | (values > limits.max)]
    if wrong.size:
        raise ArgumentError(op, f"{wrong[0]} does not fit into {np.dtype(dtype).name}")
    return values.astype(dtype)


def _listed(op: OperatorDef, argument: Argument, dtype: Any) -> Array:
    """The vector of ``dtype`` in a list argument."""
    kind = "strings" if dtype == STRING else "floats" if np.dtype(dtype).kind == "f" else "ints"
    if argument.kind not in (kind, ""):
        raise ArgumentError(op, f"values must be a tensor or a list of {kind}, got {argument.kind}")
    if kind == "strings":
        strings = np.empty(len(argument.strings), object)
        strings[:] = argument.strings
        return strings
    return np.asarray(argument.floats, dtype) if kind == "floats" else narrowed(op, argument.ints, dtype)


def given(op: OperatorDef, like: Optional[TensorSpec], dtype: Any) -> Array:
    """The blob that ``values`` describes. ShapeError if its elements do not fill the shape."""
    argument = op.argument("values") or Argument("values")
    if argument.t is None:
        return shaped(op, _listed(op, argument, dtype), filled_shape(op, like))
    if argument.t.dtype != dtype and op.type != ANY_DTYPE:
        raise ArgumentError(op, f"values must be {np.dtype(dtype).name}, got {argument.t.dtype.name}")
    return shaped(op, argument.t, filled_shape(op, like) if like is not None or op.has("shape") else argument.t.shape)


def shaped(op: OperatorDef, values: Array, shape: Shape) -> Array:
    """``values`` in ``shape``, without a copy. ShapeError if they do not fill it."""
    size = TensorSpec(shape, values.dtype).size
    if values.size != size:
        raise ShapeError(op, f"values has {values.size} elements, but shape {list(shape)} needs {size}")
    return values.reshape(shape)


def _spec(array: Array, quantization: Optional[Quantization] = None) -> TensorSpec:
    return TensorSpec(array.shape, array.dtype, None, quantization)


def _known(like: Optional[Array]) -> Optional[TensorSpec]:
    return None if like is None else TensorSpec.known(like)


def _listed_dtype(op: OperatorDef) -> np.dtype[Any]:
    """The dtype of the blob that a list becomes."""
    if op.type in LISTED:
        return LISTED[op.type]
    dtype = caffe2_dtype(op, "dtype")
    if dtype.name not in ("float32", "float64", "bool", "int16", "int32", "int64", "object"):
        raise ArgumentError(op, f"dtype must not be {dtype.name}")
    return dtype


def _declare_given_tensor_fill(type: str) -> None:
    @operator(type, inputs=(0, 1))
    def schema(op: OperatorDef, like: Optional[TensorSpec] = None) -> List[TensorSpec]:
        """Y = ``values``, a tensor or a list. A list becomes the dtype in the operator's name, or ``dtype``."""
        return [_spec(given(op, like, _listed_dtype(op)))]

    @schema.reference
    def reference(op: OperatorDef, like: Optional[Array] = None) -> List[Any]:
        return [given(op, _known(like), _listed_dtype(op))]


for _type in (ANY_DTYPE, *LISTED):
    _declare_given_tensor_fill(_type)


@operator("GivenTensorByteStringToUInt8Fill", inputs=(0, 1))
def byte_string_fill(op: OperatorDef, like: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Y = the bytes of the string ``values``, as uint8."""
    return [_spec(_given_bytes(op, like))]


@byte_string_fill.reference
def byte_string_fill_reference(op: OperatorDef, like: Optional[Array] = None) -> List[Any]:
    return [_given_bytes(op, _known(like))]


def _given_bytes(op: OperatorDef, like: Optional[TensorSpec] = None) -> Array:
    """The bytes in the argument ``values``: a string, a list of one string, or a tensor."""
    argument = op.argument("values") or Argument("values")
    if argument.t is not None:
        return given(op, like, argument.t.dtype)
    if argument.s is None and len(argument.strings) != 1:
        raise ArgumentError(op, "values must be a string or a tensor")
    values = np.frombuffer(argument.strings[0] if argument.s is None else argument.s, np.uint8)
    return shaped(op, values, filled_shape(op, like))


@operator("Int8GivenTensorFill", inputs=0)
def int8_given_tensor_fill(op: OperatorDef) -> List[TensorSpec]:
    """Y = the bytes ``values``; their real values are Y_scale * (byte - Y_zero_point)."""
    return [_spec(_given_bytes(op), stated_quantization(op))]


@int8_given_tensor_fill.reference
def int8_given_tensor_fill_reference(op: OperatorDef) -> List[Any]:
    return [_given_bytes(op)]


@operator("Int8GivenIntTensorFill", inputs=0)
def int8_given_int_tensor_fill(op: OperatorDef) -> List[TensorSpec]:
    """Y = the integers ``values`` as int32; their real values are Y_scale * (integer - Y_zero_point)."""
    return [_spec(given(op, None, np.int32), stated_quantization(op))]


@int8_given_int_tensor_fill.reference
def int8_given_int_tensor_fill_reference(op: OperatorDef) -> List[Any]:
    return [given(op, None, np.int32)]


def _constant(op: OperatorDef) -> Array:
    """The argument ``value`` as an array of one element, in ``dtype``, or without one in float32 or int64."""
    dtype = _constant_dtype(op)
    if dtype == STRING:
        text = np.empty((), object)
        text[()] = op.get_str("value", "").encode()
        return text
    if dtype.kind == "f":
        return np.asarray(op.get_float("value", 0.0), dtype)
    return narrowed(op, op.get_int("value", 0), dtype)


def _constant_dtype(op: OperatorDef) -> np.dtype[Any]:
    value = op.argument("value")
    if op.has("dtype") or value is None or value.f is not None:
        op.get_int("dtype", dtypes.FLOAT)
        return caffe2_dtype(op, "dtype")
    op.get_int("value")
    return np.dtype(np.int64)


@operator("ConstantFill", inputs=(0, 2), inplace={0: 0})
def constant_fill(
    op: OperatorDef, like: Optional[TensorSpec] = None, value: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Every element of Y is ``value``, or the one element of the second input. Its shape: see ``filled_shape``."""
    dtype = _constant(op).dtype
    single = value is None or (value.size == 1 and value.dtype == dtype)
    require(op, single, f"the second input must be one {dtype.name}", value)
    return [TensorSpec(filled_shape(op, like), dtype)]


@constant_fill.reference
def constant_fill_reference(op: OperatorDef, like: Optional[Array] = None, value: Optional[Array] = None) -> List[Any]:
    element = _constant(op) if value is None else value.reshape(())
    return [np.full(filled_shape(op, _known(like)), element, element.dtype)]


@constant_fill.kernel("NUMPY")
def constant_fill_numpy(call: Call) -> Run:
    value = call.inputs[1].reshape(()) if len(call.inputs) == 2 else _constant(call.op)
    return partial(np.copyto, call.outputs[0], value)


@operator("Float16ConstantFill", inputs=0)
def float16_constant_fill(op: OperatorDef) -> List[TensorSpec]:
    """Every element of Y is ``value``, in float16."""
    return [TensorSpec(filled_shape(op), np.float16)]


@float16_constant_fill.reference
def float16_constant_fill_reference(op: OperatorDef) -> List[Any]:
    return [np.full(filled_shape(op), op.get_float("value", 0.0), np.float16)]


@operator("DiagonalFill", inputs=(0, 1), inplace={0: 0})
def diagonal_fill(op: OperatorDef, like: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Y = ``value`` where all indices are equal, else 0. Y has two dimensions, or more of equal length.

    In a tall matrix the diagonal starts again below the square part, one row lower each time, as in Caffe2.
    """
    shape = filled_shape(op, like)
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise ShapeError(op, f"the shape must have two or equal dimensions, got {list(shape)}")
    return [TensorSpec(shape, _constant(op).dtype)]


@diagonal_fill.reference
def diagonal_fill_reference(op: OperatorDef, like: Optional[Array] = None) -> List[Any]:
    value = _constant(op)
    y = np.zeros(filled_shape(op, _known(like)), value.dtype)
    step = sum(TensorSpec(y.shape[axis:], y.dtype).size for axis in range(1, y.ndim + 1))
    y.reshape(-1)[::step] = value
    return [y]


@operator("RangeFill", inputs=(0, 1), inplace={0: 0})
def range_fill(op: OperatorDef, like: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Y = 0, 1, 2, ... in float32, in memory order."""
    return [TensorSpec(filled_shape(op, like), np.float32)]


@range_fill.reference
def range_fill_reference(op: OperatorDef, like: Optional[Array] = None) -> List[Any]:
    spec = TensorSpec(filled_shape(op, _known(like)), np.float32)
    return [np.arange(spec.size).astype(np.float32).reshape(spec.shape)]


@operator("LengthsRangeFill", dtypes=("int32",))
def lengths_range_fill(op: OperatorDef, lengths: TensorSpec) -> List[TensorSpec]:
    """Y = 0 to n - 1 for each n in lengths, one after the other, int32."""
    require(op, lengths.ndim == 1, "lengths must be a vector", lengths)
    counts = integers_of(op, lengths, "lengths")
    require(op, all(n >= 0 for n in counts), f"lengths must not be negative, got {counts}")
    return [TensorSpec((sum(counts),), np.int32)]


@lengths_range_fill.reference
def lengths_range_fill_reference(op: OperatorDef, lengths: Array) -> List[Any]:
    return [np.concatenate([np.arange(n, dtype=np.int32) for n in lengths] + [np.zeros(0, np.int32)])]
