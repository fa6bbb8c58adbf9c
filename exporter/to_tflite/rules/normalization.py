"""Normalisations, and softmax."""

from __future__ import annotations

from typing import Sequence, Tuple

import numpy as np

from exporter.to_tflite.layout import channels_last, plain
from exporter.to_tflite.operators import VALID
from exporter.to_tflite.rules import Call, Results, rule
from exporter.to_tflite.rules.activation import kept, shifted
from exporter.to_tflite.rules.convolution import NO_DILATION, finished, picture_of
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array
from runtime_arm.operators.common.windows import channels_last as has_channels_last
from runtime_arm.operators.norm.softmax import as_stack
from runtime_arm.registry.schema import axis_of


@rule("Softmax", "onnx.Softmax", "onnx.LogSoftmax")
def softmax(call: Call) -> Results:
    """TFLite's is over the last dimension. Caffe2 takes all elements from the axis on together."""
    outer, n, inner = as_stack(call.op, call.spec().shape)
    shape = call.spec().shape
    alone = [axis for axis, size in enumerate(shape) if size == n]
    axis = axis_of(call.op, call.op.get_int("axis", -1 if call.op.domain else 1), call.spec().ndim)
    if inner == 1 and int(np.prod(shape[axis:])) == n and n != 1:
        found = [one for one in alone if one >= axis]
        axis = found[0] if found else axis
    if shape[axis] != n:
        x = call.graph.reshaped(call.take(), (outer, n))
        return call.result(call.graph.reshaped(_softmax(call, x), shape))
    order = call.order()
    if order[-1] != axis:
        order = (*(one for one in range(len(shape)) if one != axis), axis)
    return call.result(_softmax(call, call.take(0, order)), order)


def _softmax(call: Call, x: int) -> int:
    """Over the last dimension of a tensor. TFLite's kernels take one to four dimensions."""
    shape = call.graph[x].shape
    flat = call.graph.reshaped(x, (int(np.prod(shape[:-1])), shape[-1])) if len(shape) > 4 else x
    if call.op.type == "LogSoftmax":
        return call.graph.reshaped(call.same_shape("LOG_SOFTMAX", flat), shape)
    return call.graph.reshaped(call.same_shape("SOFTMAX", flat, Beta=1.0), shape)


def _along(call: Call, value: Array, axis: int) -> int:
    """A vector as a constant along one dimension of the first input's tensor."""
    order = call.order()
    shape = [-1 if one == axis else 1 for one in order]
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return call.graph.constant(np.ascontiguousarray(value.reshape(shape)))


def _channel_axis(call: Call) -> int:
    return call.spec().ndim - 1 if has_channels_last(call.op) and call.op.domain != "onnx" else 1


def _affine(call: Call, x: int, factor: Array, addend: Array, axis: int) -> int:
    y = call.same_shape("MUL", x, _along(call, factor, axis))
    return call.same_shape("ADD", y, _along(call, addend, axis))


@rule("SpatialBN", "onnx.BatchNormalization")
def batch_norm(call: Call) -> Results:
    """A product and a sum for each channel."""
    if call.op.type == "SpatialBN" and not call.op.get_int("is_test", 0):
        raise ExportError("it uses the statistics of each batch, as in training")
    scale, bias, mean, variance = (
        call.constant_value(index, "a parameter").astype(np.float64).reshape(-1) for index in range(1, 5)
    )
    factor = scale / np.sqrt(variance + call.op.get_float("epsilon", 1e-5))
    dtype = call.spec().dtype
    y = _affine(call, call.as_held(), factor.astype(dtype), (bias - mean * factor).astype(dtype), _channel_axis(call))
    return kept(call, y)


@rule("AffineChannel")
def affine_channel(call: Call) -> Results:
    factor, addend = (call.constant_value(index, "a parameter").reshape(-1) for index in (1, 2))
    return kept(call, _affine(call, call.as_held(), factor, addend, _channel_axis(call)))


def _moments(call: Call, x: int, axes: Sequence[int]) -> Tuple[int, int]:
    """The tensor minus its mean over places in the tensor, and the variance, whose dimensions stay as 1."""
    shape = [1 if at in axes else n for at, n in enumerate(call.graph[x].shape)]
    mean = call.emit("MEAN", [x, call.ints(*axes)], shape, KeepDims=True)
    centred = call.same_shape("SUB", x, mean)
    squares = call.same_shape("SQUARE", centred)
    return centred, call.emit("MEAN", [squares, call.ints(*axes)], shape, KeepDims=True)


def _normalized(call: Call, x: int, axes: Sequence[int], epsilon: float) -> int:
    centred, variance = _moments(call, x, axes)
    return call.same_shape("MUL", centred, call.same_shape("RSQRT", shifted(call, variance, epsilon)))


@rule("InstanceNorm", "onnx.InstanceNormalization")
def instance_norm(call: Call) -> Results:
    call.refuse_outputs_from(1)
    axis, order = _channel_axis(call), call.order()
    places = [at for at, one in enumerate(order) if one not in (0, axis)]
    y = _normalized(call, call.as_held(), places, call.op.get_float("epsilon", 1e-5))
    factor, addend = (call.constant_value(index, "a parameter").reshape(-1) for index in (1, 2))
    return kept(call, _affine(call, y, factor, addend, axis))


@rule("GroupNorm", "onnx.GroupNormalization")
def group_norm(call: Call) -> Results:
    """Over (N, H W, group, C / group)."""
    call.refuse_outputs_from(1)
    axis, ndim = _channel_axis(call), call.spec().ndim
    order = plain(ndim) if axis == ndim - 1 else channels_last(ndim)
    x = call.take(0, order)
    shape = call.graph[x].shape
    group = call.op.get_int("num_groups" if call.op.domain == "onnx" else "group", 32)
    grouped = call.graph.reshaped(x, (shape[0], int(np.prod(shape[1:-1])), group, shape[-1] // group))
    y = call.graph.reshaped(_normalized(call, grouped, [1, 3], call.op.get_float("epsilon", 1e-5)), shape)
    factor, addend = (call.constant_value(index, "a parameter").reshape(-1) for index in (1, 2))
    if factor.size == group != shape[-1]:
        factor, addend = (np.repeat(value, shape[-1] // group) for value in (factor, addend))
    y = call.same_shape("MUL", y, call.graph.constant(factor))
    return call.result(call.same_shape("ADD", y, call.graph.constant(addend)), order)


@rule("LayerNorm", "onnx.LayerNormalization")
def layer_norm(call: Call) -> Results:
    """Over all dimensions from the axis on."""
    call.refuse_outputs_from(1)
    onnx, ndim = call.op.domain == "onnx", call.spec().ndim
    axis = axis_of(call.op, call.op.get_int("axis", -1 if onnx else 1), ndim)
    y = _normalized(call, call.take(), range(axis, ndim), call.op.get_float("epsilon", 1e-5))
    scaled_ = onnx or call.op.get_bool("elementwise_affine")
    for index, type in ((1, "MUL"), (2, "ADD")):
        if scaled_ and call.has(index):
            value = call.constant_value(index, "a parameter")
            y = call.same_shape(
                type, y, call.graph.constant(value.reshape(call.spec().shape[axis:]) if not onnx else value)
            )
    return call.result(y)


@rule("onnx.RMSNormalization", "com.microsoft.SimplifiedLayerNormalization")
def rms_norm(call: Call) -> Results:
    call.refuse_outputs_from(1)
    ndim, x = call.spec().ndim, call.take()
    axis = axis_of(call.op, call.op.get_int("axis", -1), ndim)
    shape = [1 if at >= axis else n for at, n in enumerate(call.graph[x].shape)]
    mean = call.emit("MEAN", [call.same_shape("SQUARE", x), call.ints(*range(axis, ndim))], shape, KeepDims=True)
    y = call.same_shape("MUL", x, call.same_shape("RSQRT", shifted(call, mean, call.op.get_float("epsilon", 1e-5))))
    return call.result(call.same_shape("MUL", y, call.graph.constant(call.constant_value(1, "the scale"))))


@rule("LRN", "onnx.LRN")
def local_response(call: Call) -> Results:
    """X / (bias + alpha / size * sum of squares) ** beta; a 1x1 convolution adds up the squares of the channels around.

    TFLite's LOCAL_RESPONSE_NORMALIZATION leaves out the last channel of its window.
    """
    call.refuse_outputs_from(1)
    op, size = call.op, call.op.get_int("size")
    picture = picture_of(call, has_channels_last(op) and not op.domain)
    channels = call.graph[picture.tensor].shape[-1]
    distance = np.arange(channels) - np.arange(channels)[:, None]
    inside = (distance >= -((size - 1) // 2)) & (distance <= size // 2)
    alpha, beta = op.get_float("alpha", 1e-4 if op.domain else 0.0), op.get_float("beta", 0.75 if op.domain else 0.0)
    dtype = call.spec().dtype
    filters = (inside * (alpha / size)).astype(dtype).reshape(channels, 1, 1, channels)
    operands = [
        call.same_shape("SQUARE", picture.tensor),
        call.graph.constant(filters),
        call.graph.constant(np.full(channels, op.get_float("bias", 1.0), dtype)),
    ]
    scale = call.same_shape("CONV_2D", *operands, Padding=VALID, StrideH=1, StrideW=1, **NO_DILATION)
    factor = call.same_shape("POW", scale, call.number(-beta))
    return finished(call, call.same_shape("MUL", picture.tensor, factor), picture)


@rule("onnx.LpNormalization", "Normalize")
def length_one(call: Call) -> Results:
    """Vectors along an axis divided by their length."""
    axis = axis_of(call.op, call.op.get_int("axis", -1), call.spec().ndim)
    if call.op.get_int("p", 2) != 2:
        raise ExportError("only the Euclidean length is translated")
    order, x = call.order(), call.as_held()
    at = order.index(axis)
    shape = [1 if place == at else n for place, n in enumerate(call.graph[x].shape)]
    total = call.emit("SUM", [call.same_shape("SQUARE", x), call.ints(at)], shape, KeepDims=True)
    length = call.same_shape("SQRT", call.same_shape("MAXIMUM", total, call.number(1e-24)))
    return call.result(call.same_shape("DIV", x, length), order)
