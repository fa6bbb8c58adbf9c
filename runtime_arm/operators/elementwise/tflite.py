"""TensorFlow Lite's elementwise operators of two blobs that neither Caffe2 nor ONNX has. Operands broadcast."""

from __future__ import annotations

from functools import partial
from typing import Any, List

import numpy as np

from runtime_arm.errors import OperatorError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import NUMBERS
from runtime_arm.operators.elementwise.binary import common_shape
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Run
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
