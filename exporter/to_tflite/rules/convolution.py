"""Convolutions and transposed convolutions, and the windows that pools have too. TFLite's pictures are (N, H, W, C)."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from exporter.to_tflite.graph import Operand
from exporter.to_tflite.layout import Order, channels_last, plain
from exporter.to_tflite.model import Quantization
from exporter.to_tflite.operators import SAME, VALID
from exporter.to_tflite.rules import Call, Results, rule
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import convolution_of
from runtime_arm.operators.conv.transposed import transposed_of
from runtime_arm.operators.quantised.tflite.hybrid import hybrid_convolution

NO_DILATION: Dict[str, Any] = {"DilationHFactor": 1, "DilationWFactor": 1}
LARGEST_DENSE = 1 << 24  # elements of a grouped transposed convolution's weights with the zeros between the groups


class Picture(NamedTuple):
    """A tensor (N, H, W, C) and the order in which it has the blob's dimensions. ``flat``: the blob has no height."""

    tensor: int
    order: Order
    flat: bool


def picture_of(call: Call, last: bool, index: int = 0) -> Picture:
    """An input as a picture; (N, C, L) gets a height of 1. last: the blob itself has its channels last."""
    rank = call.spec(index).ndim
    order = plain(rank) if last else channels_last(rank)
    tensor = call.take(index, order)
    if rank == 3:
        n, length, channels = call.graph[tensor].shape
        return Picture(call.graph.reshaped(tensor, (n, 1, length, channels)), order, True)
    if rank != 4:
        raise ExportError(f"pictures must have 1 or 2 dimensions, they have {rank - 2}")
    return Picture(tensor, order, False)


def finished(call: Call, tensor: int, picture: Picture, index: int = 0) -> Operand:
    """The output that a picture holds."""
    y = call.graph.reshaped(tensor, call.shape_in(picture.order, index)) if picture.flat else tensor
    return call.result(y, picture.order, index)


def in_two(window: Window) -> Window:
    """The window with two dimensions."""
    if len(window.image) == 2:
        return window
    return Window(*((start, *values) for start, values in zip((1, 1, 1, 1, 0, 0, 1), window)))


def padded(call: Call, x: int, window: Window, value: Union[float, Literal["zero"], None] = "zero") -> Tuple[int, int]:
    """A picture padded for a window, and TFLite's word for the padding that is left to the operator.

    value: the stored value of explicit padding, or "zero" for the real number 0; None: no padding may be added,
    ExportError if it is needed.
    """
    reach = [d * (k - 1) + 1 for d, k in zip(window.dilation, window.kernel)]
    needed = [
        (out - 1) * stride + size - image - head
        for out, stride, size, image, head in zip(window.output, window.stride, reach, window.image, window.head)
    ]
    if not any(window.head) and max(needed) <= 0:
        return x, VALID
    if list(window.head) == _same_heads(window, reach):
        return x, SAME
    if value is None:
        raise ExportError(f"TFLite has no such padding: {list(window.head)} before and {needed} after the picture")
    pads = [[0, 0], *([head, max(tail, 0)] for head, tail in zip(window.head, needed)), [0, 0]]
    shape = [n + head + tail for n, (head, tail) in zip(call.graph[x].shape, pads)]
    inputs = [x, call.graph.constant(np.array(pads, np.int32))]
    dtype, quantization = call.graph[x].dtype, call.graph[x].quantization
    if value == "zero":
        return call.emit("PAD", inputs, shape, dtype, quantization), VALID
    filling = call.graph.constant(np.array(value, dtype), "padding", quantization)
    return call.emit("PADV2", [*inputs, filling], shape, dtype, quantization), VALID


def _same_heads(window: Window, reach: Sequence[int]) -> Optional[List[int]]:
    """The head pads of TFLite's SAME; None if its output has another size."""
    if any(out != -(-image // stride) for out, image, stride in zip(window.output, window.image, window.stride)):
        return None
    totals = [
        max((out - 1) * stride + size - image, 0)
        for out, stride, size, image in zip(window.output, window.stride, reach, window.image)
    ]
    return [total // 2 for total in totals]


def strides_of(window: Window) -> Dict[str, Any]:
    """The options of a window's strides."""
    return {"StrideH": window.stride[0], "StrideW": window.stride[1]}


def dilations_of(window: Window) -> Dict[str, Any]:
    """The options of a window's dilations."""
    return {"DilationHFactor": window.dilation[0], "DilationWFactor": window.dilation[1]}


def filters_last(weights: Array, last: bool) -> Array:
    """Weights (M, C, kernel) as TFLite's (M, kernel, C), the kernel with two dimensions."""
    w = weights if last else np.moveaxis(weights, 1, -1)
    return np.ascontiguousarray(w.reshape(w.shape[0], 1, *w.shape[1:]) if w.ndim == 3 else w)


@rule("Conv", "Conv1D", "Conv2D", "ConvRelu", "onnx.Conv", "tflite.HybridConv", "tflite.HybridDepthwiseConv")
def conv(call: Call) -> Results:
    """Also for 8-bit weights with floats, which the kernel quantises."""
    convolution = (hybrid_convolution if call.op.domain == "tflite" else convolution_of)(
        call.op, call.spec(0), call.spec(1)
    )
    picture, window = picture_of(call, convolution.channels_last), in_two(convolution.window)
    weights = filters_last(call.constant_value(1, "the weights"), convolution.channels_last)
    bias = call.value(2) if call.has(2) else np.zeros(convolution.filters, call.spec().dtype)
    if bias is None:
        raise ExportError(f"the bias {call.op.input[2]!r} must be constant")
    x, padding = padded(call, picture.tensor, window)
    shape = (convolution.batch, *window.output, convolution.filters)
    options: Dict[str, Any] = {"Padding": padding, **strides_of(window), **dilations_of(window)}
    if convolution.group == convolution.channels and convolution.group > 1:
        options["DepthMultiplier"] = convolution.filters // convolution.channels
        operands = [x, scaled_weights(call, weights.transpose(3, 1, 2, 0), 3), _bias(call, bias)]
        y = call.emit("DEPTHWISE_CONV_2D", operands, shape, **options)
    else:
        y = call.emit("CONV_2D", [x, scaled_weights(call, weights, 0), _bias(call, bias)], shape, **options)
    y = call.same_shape("RELU", y) if call.op.type == "ConvRelu" else y
    return finished(call, y, picture)


def scaled_weights(call: Call, weights: Array, axis: int) -> int:
    """Constant weights; of integers, with one scale or one along an axis."""
    scales, quantization = tuple(call.op.get_floats("W_scales")), None
    if scales:
        quantization = Quantization(scales, (call.op.get_int("W_zero_point", 0),) * len(scales), axis)
    name = call.op.input[1] if len(call.op.input) > 1 else "weights"
    return call.graph.constant(np.ascontiguousarray(weights), name, quantization)


def _bias(call: Call, bias: Array) -> int:
    return call.graph.constant(bias, call.op.input[2] if len(call.op.input) > 2 else "bias")


@rule("ConvTranspose", "onnx.ConvTranspose")
def conv_transpose(call: Call) -> Results:
    """Weights (C, M / group, kernel). Padding that TFLite does not have is cut off the result."""
    transposed = transposed_of(call.op, call.spec(0), call.spec(1))
    picture, window = picture_of(call, transposed.channels_last), in_two(transposed.window)
    if set(window.dilation) != {1}:
        raise ExportError("TFLite's transposed convolutions have no dilation")
    weights = filters_last(call.constant_value(1, "the weights"), transposed.channels_last)
    dense = np.ascontiguousarray(_dense(weights, transposed.group).transpose(3, 1, 2, 0))
    bias = call.value(2) if call.has(2) else np.zeros(transposed.filters, weights.dtype)
    if bias is None:
        raise ExportError(f"the bias {call.op.input[2]!r} must be constant")
    size, padding, start = _transposed_size(window)
    shape = (transposed.batch, *size, transposed.filters)
    operands = [call.ints(*shape), scaled_weights(call, dense, 0), picture.tensor, _bias(call, bias)]
    y = call.emit("TRANSPOSE_CONV", operands, shape, Padding=padding, **strides_of(window))
    if tuple(size) != tuple(window.image):
        begin, whole = [0, *start, 0], [transposed.batch, *window.image, transposed.filters]
        y = call.emit("SLICE", [y, call.ints(*begin), call.ints(*whole)], whole)
    return finished(call, y, picture)


def _dense(weights: Array, group: int) -> Array:
    """The weights (C, kernel, M / group) of groups as (C, kernel, M), zero between the groups."""
    if group == 1:
        return weights
    channels, height, width, each = weights.shape
    if weights.size * group > LARGEST_DENSE:
        raise ExportError(f"TFLite's transposed convolutions have one group, this has {group}")
    dense = np.zeros((channels, height, width, each * group), weights.dtype)
    for part in range(group):
        rows, columns = (slice(part * n, (part + 1) * n) for n in (channels // group, each))
        dense[rows, :, :, columns] = weights[rows]
    return dense


def _transposed_size(window: Window) -> Tuple[List[int], int, List[int]]:
    """The size that TRANSPOSE_CONV makes, its padding, and where in its result the output starts."""
    whole = [(out - 1) * stride + kernel for out, stride, kernel in zip(window.output, window.stride, window.kernel)]
    rest = [n - head - image for n, head, image in zip(whole, window.head, window.image)]
    if not any(window.head) and not any(rest):
        return whole, VALID, [0, 0]
    if list(window.head) == _same_heads(window, window.kernel):
        return list(window.image), SAME, [0, 0]
    wide = [max(n, head + image) for n, head, image in zip(whole, window.head, window.image)]
    if any(n >= size + stride for n, size, stride in zip(wide, whole, window.stride)):
        raise ExportError("TFLite's transposed convolutions have no such additional size")
    return wide, VALID, list(window.head)
