"""ONNX's operators on 8-bit integers. Their inputs of scales and zero points become the scales of tensors.

TFLite rounds in another way, so a result may be one step off. Its kernels with a scale for each filter compute only on
int8, so uint8 is shifted by 128 before them and back after them; both shifts vanish if only such operators read the
tensor. If weights of uint8 minus their zero point do not fit into int8, TFLite's older kernels take them, which have
one scale and compute on uint8.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np

from exporter.to_tflite.model import Quantization
from exporter.to_tflite.rules import Call, Results, rule
from exporter.to_tflite.rules.convolution import (
    dilations_of,
    filters_last,
    finished,
    in_two,
    padded,
    picture_of,
    strides_of,
)
from exporter.to_tflite.rules.linear import rows_of
from exporter.to_tflite.rules.reduction import reduced
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array
from runtime_arm.operators.common.windows import onnx_window
from runtime_arm.operators.conv.convolution import convolution_of
from runtime_arm.operators.quantised.microsoft.products import transposed
from runtime_arm.registry.schema import axis_of

_INT8, _UINT8 = np.dtype(np.int8), np.dtype(np.uint8)
_BYTES = (_INT8, _UINT8)
_FROM_0_TO_1 = Quantization((1 / 256,), (-128,))  # what TFLite prescribes for SOFTMAX and LOGISTIC


def _scale(call: Call, index: int, shift: int = 0) -> Quantization:
    """The scale at this input, with the zero point at the next one."""
    scale = call.constant_value(index, "the scale")
    zero = call.constant_value(index + 1, "the zero point") if call.has(index + 1) else np.zeros(1, np.int8)
    if scale.size != 1 or zero.size != 1:
        raise ExportError("TFLite's activations have one scale")
    return Quantization((float(scale.reshape(())),), (int(zero.reshape(())) + shift,))


def _shift(dtype: Any) -> int:
    """The number to add to a zero point when integers become int8."""
    if dtype not in _BYTES:
        raise ExportError(f"TFLite has no such operator on {dtype}")
    return -128 if dtype == _UINT8 else 0


def _signed(call: Call, tensor: int, scale: int) -> int:
    """A tensor of 8-bit integers as int8, with the scale at an input."""
    graph, source = call.graph, call.graph[tensor]
    wanted = _scale(call, scale, _shift(source.dtype))
    if source.value is not None:
        moved = (source.value.astype(np.int16) + _shift(source.dtype)).astype(np.int8)
        return graph.constant(moved, source.name, wanted)
    _state(call, tensor, scale)
    return tensor if source.dtype == _INT8 else call.as_int8(tensor, wanted)


def _state(call: Call, tensor: int, scale: int) -> None:
    """Gives a tensor the scale at an input. ExportError if it has another one: a tensor of TFLite has one scale for all
    its readers.
    """
    held, wanted = call.graph[tensor], _scale(call, scale)
    if held.quantization not in (None, wanted):
        raise ExportError(
            "it reads integers with another scale than they were written with, or are read with elsewhere"
        )
    held.quantization = wanted


def _rescaled(call: Call, tensor: int, wanted: Quantization) -> int:
    """A tensor of int8 with another scale."""
    if call.graph[tensor].quantization == wanted:
        return tensor
    return call.same_shape("QUANTIZE", tensor, dtype=_INT8, quantization=wanted)


def _wanted(call: Call, index: int) -> Quantization:
    """The scale of the output, which is given at this input, for the output as int8."""
    return _scale(call, index, _shift(call.outputs[0].dtype))


def _stated(call: Call, tensor: int) -> int:
    """A tensor of int8 in the type of the output."""
    of = call.graph[tensor].quantization
    if call.outputs[0].dtype == _INT8 or of is None:
        return tensor
    moved = Quantization(of.scale, (of.zero_point[0] + 128,))
    unsigned = call.same_shape("QUANTIZE", tensor, quantization=moved)
    call.graph.signed[unsigned] = tensor
    return unsigned


# Conversions


@rule("onnx.QuantizeLinear", "com.microsoft.QuantizeLinear")
def quantize(call: Call) -> Results:
    x = call.same_shape("QUANTIZE", call.as_held(), dtype=_INT8, quantization=_wanted(call, 1))
    return call.result(_stated(call, x), call.order())


@rule("onnx.DequantizeLinear", "com.microsoft.DequantizeLinear")
def dequantize(call: Call) -> Results:
    return call.result(call.same_shape("DEQUANTIZE", _signed(call, call.as_held(), 1)), call.order())


# Sums of products


def _weights(call: Call, index: int, filters: int, axis: int) -> Tuple[Array, Quantization]:
    """Constant weights as int8 whose zero points are 0, and their scales along the filters; as uint8 with one scale and
    one zero point if they do not fit into int8.
    """
    stored = call.constant_value(index, "the weights").astype(np.int16)
    scales = call.constant_value(index + 1, "the scale").astype(np.float32)
    zero = call.constant_value(index + 2, "the zero point").astype(np.int16) if call.has(index + 2) else np.zeros(1)
    along = [-1 if at == axis else 1 for at in range(stored.ndim)]
    centred = stored - zero.reshape(along if zero.size > 1 else 1)
    if centred.size and not -128 <= int(centred.min()) <= int(centred.max()) <= 127:
        if not scales.size == zero.size == 1 or {call.spec().dtype, call.outputs[0].dtype} != {_UINT8}:
            raise ExportError(
                "the weights minus their zero points do not fit into int8, and TFLite's other kernels have one scale "
                "and compute on uint8: quantise the network with weights of int8"
            )
        up = -int(np.iinfo(call.spec(index).dtype).min)
        moved = Quantization((float(scales.reshape(())),), (int(zero.reshape(())) + up,))
        return (stored + up).astype(np.uint8), moved
    each = np.broadcast_to(scales.reshape(-1), filters)
    return centred.astype(np.int8), Quantization(tuple(float(one) for one in each), (0,) * filters)


def _bias(call: Call, bias: Optional[Array], x: int, scales: Quantization, filters: int) -> int:
    of = call.graph[x].quantization
    assert of is not None
    products = tuple(float(np.float32(of.scale[0]) * np.float32(scale)) for scale in scales.scale)
    value = np.zeros(filters, np.int32) if bias is None else bias
    return call.graph.constant(value, "bias", Quantization(products, (0,) * len(products)))


def _read(call: Call, tensor: int, weights: Array) -> int:
    """The tensor in the type of the weights, with the scale at input 1."""
    if weights.dtype == _INT8:
        return _signed(call, tensor, 1)
    _state(call, tensor, 1)
    return tensor


def _sums(
    call: Call, type: str, inputs: Sequence[int], shape: Sequence[int], weights: Array, y: int, options: Any = ()
) -> int:
    """The result of an operator with such weights, in the type of the output. y: the input with the output's scale."""
    wanted = _wanted(call, y) if weights.dtype == _INT8 else _scale(call, y)
    found = call.emit(type, inputs, shape, weights.dtype, wanted, **dict(options))
    return _stated(call, found) if weights.dtype == _INT8 else found


@rule("onnx.QLinearConv")
def conv(call: Call) -> Results:
    """X (N, C, H, W), filters (M, C / group, kernel)."""
    convolution = convolution_of(call.op, call.spec(0), call.spec(3))
    stored, scales = _weights(call, 3, convolution.filters, 0)
    weights, picture, window = filters_last(stored, False), picture_of(call, False), in_two(convolution.window)
    x = _read(call, picture.tensor, weights)
    given = call.constant_value(8, "the bias") if call.has(8) else None
    bias = _bias(call, given, x, scales, convolution.filters)
    x, padding = padded(call, x, window)
    options: Dict[str, Any] = {"Padding": padding, **strides_of(window), **dilations_of(window)}
    type = "CONV_2D"
    if convolution.group == convolution.channels and convolution.group > 1:
        type, weights, scales = "DEPTHWISE_CONV_2D", weights.transpose(3, 1, 2, 0), scales._replace(axis=3)
        options["DepthMultiplier"] = convolution.filters // convolution.channels
    w = call.graph.constant(np.ascontiguousarray(weights), call.op.input[3], scales)
    shape = (convolution.batch, *window.output, convolution.filters)
    return finished(call, _sums(call, type, [x, w, bias], shape, weights, 6, options), picture)


@rule("onnx.QLinearMatMul")
def mat_mul(call: Call) -> Results:
    """With a constant matrix: a fully connected layer."""
    weights = call.value(3)
    if weights is not None and weights.ndim == 2 and call.spec().ndim >= 2:
        return _connected(call, weights, 6, None)
    a, b = (_signed(call, call.take(index), index + 1) for index in (0, 3))
    y = call.emit("BATCH_MATMUL", [a, b], call.outputs[0].shape, _INT8, _wanted(call, 6))
    return call.result(_stated(call, y))


@rule("com.microsoft.QGemm")
def gemm(call: Call) -> Results:
    if not call.has(7) or call.op.get_float("alpha", 1.0) != 1.0 or call.op.get_bool("transA"):
        raise ExportError("TFLite's layers on integers give integers, and do not scale or transpose their inputs")
    weights = transposed(call.op, np.zeros((1, 1)), call.constant_value(3, "the weights"))[1]
    bias = call.constant_value(6, "the bias") if call.has(6) else np.zeros(1, np.int32)
    if bias.size not in (1, weights.shape[1]):
        raise ExportError("the bias differs from row to row")
    return _connected(call, weights, 7, np.broadcast_to(bias.reshape(-1), weights.shape[1]))


def _connected(call: Call, matrix: Array, y: int, bias: Optional[Array]) -> Results:
    """matrix: constant, (K, M). y: the input with the output's scale."""
    count = matrix.shape[1]
    centred, scales = _weights(call, 3, count, 0 if call.op.get_bool("transB") else 1)
    filters = centred if call.op.get_bool("transB") else centred.T
    source, filters = rows_of(call, filters, int(np.prod(call.spec().shape[:-1])))
    x = _read(call, source, filters)
    w = call.graph.constant(np.ascontiguousarray(filters), call.op.input[3], scales)
    inputs = [x, w, _bias(call, bias, x, scales, count)]
    result = _sums(call, "FULLY_CONNECTED", inputs, (call.graph[x].shape[0], count), filters, y)
    return call.result(call.graph.reshaped(result, call.outputs[0].shape))


# Elementwise


@rule("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
def binary(call: Call) -> Results:
    places = (0, 3)
    order = call.joint_order(places)
    operands = [_signed(call, call.broadcast(index, order), index + 1) for index in places]
    type = "ADD" if call.op.type == "QLinearAdd" else "MUL"
    y = call.emit(type, operands, call.shape_in(order), _INT8, _wanted(call, 6))
    return call.result(_stated(call, y), order)


@rule("com.microsoft.QLinearSigmoid")
def sigmoid(call: Call) -> Results:
    y = call.same_shape("LOGISTIC", _signed(call, call.as_held(), 1), dtype=_INT8, quantization=_FROM_0_TO_1)
    return call.result(_stated(call, _rescaled(call, y, _wanted(call, 3))), call.order())


@rule("com.microsoft.QLinearLeakyRelu")
def leaky_relu(call: Call) -> Results:
    x, alpha = _signed(call, call.as_held(), 1), call.op.get_float("alpha", 0.01)
    y = call.same_shape("LEAKY_RELU", x, dtype=_INT8, quantization=_wanted(call, 3), Alpha=alpha)
    return call.result(_stated(call, y), call.order())


@rule("com.microsoft.QLinearSoftmax")
def softmax(call: Call) -> Results:
    """Along the last dimension."""
    old, ndim = 0 < call.op.get_int("opset", 13) < 13, call.spec().ndim
    axis = axis_of(call.op, call.op.get_int("axis", 1 if old else -1), ndim)
    if axis != ndim - 1:
        raise ExportError("TFLite's softmax of integers goes along the last dimension")
    y = call.same_shape("SOFTMAX", _signed(call, call.take(), 1), dtype=_INT8, quantization=_FROM_0_TO_1, Beta=1.0)
    return call.result(_stated(call, _rescaled(call, y, _wanted(call, 3))))


@rule("com.microsoft.QLinearConcat")
def concat(call: Call) -> Results:
    """The scale of Y, then each blob with its own."""
    places, wanted = range(2, len(call.operands), 3), _wanted(call, 0)
    order = call.joint_order(places)
    axis = axis_of(call.op, call.op.get_int("axis"), len(order))
    parts = [_rescaled(call, _signed(call, call.take(index, order), index + 1), wanted) for index in places]
    y = call.emit("CONCATENATION", parts, call.shape_in(order), _INT8, wanted, Axis=order.index(axis))
    return call.result(_stated(call, y), order)


# Pools and means


def _mean(call: Call, axes: Sequence[int], keepdims: bool) -> Results:
    y = reduced(call, "Mean", axes, keepdims, _signed(call, call.as_held(), 1))
    assert y.tensor is not None
    made = call.graph[y.tensor]
    made.dtype, made.quantization = _INT8, _wanted(call, 3)
    return y._replace(tensor=_stated(call, y.tensor))


@rule("com.microsoft.QLinearGlobalAveragePool")
def global_average_pool(call: Call) -> Results:
    first = 1 if call.op.get_bool("channels_last") else 2
    return _mean(call, range(first, first + call.spec().ndim - 2), True)


@rule("com.microsoft.QLinearReduceMean")
def reduce_mean(call: Call) -> Results:
    ndim = call.spec().ndim
    axes = sorted({axis_of(call.op, axis, ndim) for axis in call.op.get_ints("axes")} or set(range(ndim)))
    return _mean(call, axes, call.op.get_bool("keepdims", True))


@rule("com.microsoft.QLinearAveragePool")
def average_pool(call: Call) -> Results:
    """TFLite's has one scale, and divides by the pixels inside the picture."""
    last = call.op.get_bool("channels_last")
    picture, shape = picture_of(call, last), call.spec().shape
    window = in_two(onnx_window(call.op, shape[1:-1] if last else shape[2:]))
    if call.op.get_bool("count_include_pad") and any(window.head + window.tail):
        raise ExportError("TFLite's averages do not count padding")
    x, padding = padded(call, _signed(call, picture.tensor, 1), window, None)
    sizes: Dict[str, Any] = {"FilterHeight": window.kernel[0], "FilterWidth": window.kernel[1]}
    y = call.emit(
        "AVERAGE_POOL_2D",
        [x],
        (shape[0], *window.output, call.graph[x].shape[-1]),
        _INT8,
        call.graph[x].quantization,
        Padding=padding,
        **strides_of(window),
        **sizes,
    )
    return finished(call, _stated(call, _rescaled(call, y, _wanted(call, 3))), picture)
