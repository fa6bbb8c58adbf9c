"""PRelu, a ReLU with a learnt slope for negative inputs: Caffe2's and ONNX's."""

from __future__ import annotations

from functools import partial
from typing import Any, Iterator, List, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import broadcast
from runtime_arm.operators.common.dtypes import FLOAT32, FLOAT32_64, FLOATS, require_same_dtype
from runtime_arm.operators.common.formulas import block_scratch, exactly, level, only_for
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


@operator("PRelu", inputs=2, dtypes=FLOAT32, inplace={0: 0})
def prelu(op: OperatorDef, x: TensorSpec, slope: TensorSpec) -> List[TensorSpec]:
    """Y = X where X > 0, else slope X. There is one slope, or one per channel.

    Channels are dimension 1, or the last with order="NHWC". He et al., Delving Deep into Rectifiers, 2015.
    """
    require_same_dtype(op, x, slope)
    if op.get_str("order", "NCHW") not in ("NCHW", "NHWC"):
        raise ArgumentError(op, f"order must be NCHW or NHWC, got {op.get_str('order')!r}")
    require(op, x.ndim > max(_channel_axis(op), 0), "X must have a channel dimension", x, slope)
    require(op, slope.size in (1, x.shape[_channel_axis(op)]), "there must be one slope, or one per channel", x, slope)
    return [x]


def _channel_axis(op: OperatorDef) -> int:
    return -1 if op.get_str("order", "NCHW") == "NHWC" else 1


@operator("PRelu", domain="onnx", inputs=2, dtypes=(*FLOATS, "int32", "int64", "uint32", "uint64"), inplace={0: 0})
def onnx_prelu(op: OperatorDef, x: TensorSpec, slope: TensorSpec) -> List[TensorSpec]:
    """Y = X where X >= 0, else slope X; the slope broadcasts to X."""
    require_same_dtype(op, x, slope)
    require(op, broadcast(op, (x, slope)) == x.shape, "the slope must broadcast to X", x, slope)
    return [x]


def _slope_shape(op: OperatorDef, x: Shape, slope: Array) -> Shape:
    """The shape in which the slope broadcasts to x."""
    shape = [1] * len(x)
    if op.domain == "onnx":
        shape[len(x) - slope.ndim :] = slope.shape
    else:
        shape[_channel_axis(op)] = slope.size
    return tuple(shape)


@prelu.reference
@onnx_prelu.reference
def prelu_reference(op: OperatorDef, x: Array, slope: Array) -> List[Any]:
    slope = slope.reshape(_slope_shape(op, x.shape, slope))
    return [exactly(lambda x, slope: np.where(x > 0, x, slope * x), x, slope)]


def _pieces(shape: Shape) -> Iterator[Tuple[Any, ...]]:
    """Indices that cut an array into contiguous pieces of at most a block each."""
    inner, axis = 1, len(shape)
    while axis > 0 and inner * shape[axis - 1] <= BLOCK:
        axis -= 1
        inner *= shape[axis]
    if axis == 0:
        yield (...,)  # no dimensions: () would copy the number
        return
    step = BLOCK // inner
    for outer in np.ndindex(*shape[: axis - 1]):
        for start in range(0, shape[axis - 1], step):
            yield (*outer, slice(start, start + step))


@prelu.kernel("NUMPY", supports=only_for(FLOAT32_64), scratch=block_scratch(1))
@onnx_prelu.kernel("NUMPY", supports=only_for(FLOAT32_64), scratch=block_scratch(1))
def prelu_numpy(call: Call) -> Run:
    x, slope = call.inputs
    y, scratch = call.outputs[0], call.scratch[0]
    slopes = np.broadcast_to(slope.reshape(_slope_shape(call.op, x.shape, slope)), x.shape)
    runs = [partial(_prelu_piece, x[piece], slopes[piece], y[piece], scratch) for piece in _pieces(x.shape)]

    def run() -> None:
        for piece in runs:
            piece()

    return run


def _prelu_piece(x: Array, slope: Array, y: Array, scratch: Array) -> None:
    negative = scratch[: x.size]
    zeros = level(0, negative)
    np.minimum(x.reshape(-1), zeros, out=negative)
    shaped = negative.reshape(x.shape)
    np.multiply(shaped, slope, out=shaped)
    positive = y.reshape(-1)
    np.maximum(x.reshape(-1), zeros, out=positive)
    positive += negative
