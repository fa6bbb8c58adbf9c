"""TFLite's own operators on integers. Their arguments become the scales of the tensors that they read and write."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

import numpy as np

from exporter.to_tflite.model import Quantization
from exporter.to_tflite.operators import ACTIVATIONS
from exporter.to_tflite.rules import Call, Results, rule
from exporter.to_tflite.rules.activation import kept
from exporter.to_tflite.rules.convolution import dilations_of, padded, scaled_weights, strides_of
from exporter.to_tflite.rules.reduction import reduced
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import convolution_of
from runtime_arm.operators.quantised.tflite.pool import pool_window
from runtime_arm.registry.schema import axis_of

_UNARY = {
    "Abs": "ABS",
    "Elu": "ELU",
    "Exp": "EXP",
    "HardSwish": "HARD_SWISH",
    "Log": "LOG",
    "Logistic": "LOGISTIC",
    "Neg": "NEG",
    "Rsqrt": "RSQRT",
    "Sqrt": "SQRT",
    "Tanh": "TANH",
}
MIDDLE = 128  # between uint8 and int8
_BINARY = {
    "Add": "ADD",
    "Equal": "EQUAL",
    "Greater": "GREATER",
    "GreaterEqual": "GREATER_EQUAL",
    "Less": "LESS",
    "LessEqual": "LESS_EQUAL",
    "Mul": "MUL",
    "NotEqual": "NOT_EQUAL",
    "PRelu": "PRELU",
    "SquaredDifference": "SQUARED_DIFFERENCE",
    "Sub": "SUB",
}


def quantization_of(call: Call, what: str) -> Optional[Quantization]:
    """Scale and zero point of the operand ``what``; None if the operator does not have them."""
    if not call.op.has(f"{what}_scale"):
        return None
    return Quantization((call.op.get_float(f"{what}_scale"),), (call.op.get_int(f"{what}_zero_point", 0),))


def _tagged(call: Call, tensor: int, quantization: Optional[Quantization]) -> int:
    """The tensor with this scale; a copy, if it has another one already."""
    source = call.graph[tensor]
    if quantization is None or source.quantization == quantization:
        return tensor
    if source.value is not None:
        return call.graph.constant(source.value, source.name, quantization)
    if source.quantization is None:
        source.quantization = quantization
        return tensor
    return call.emit("RESHAPE", [tensor, call.ints(*source.shape)], source.shape, source.dtype, quantization)


def _operand(call: Call, index: int = 0, what: str = "X") -> int:
    """An input in the order it has, with its scale."""
    return _tagged(call, call.as_held(index), quantization_of(call, what))


def _plainly(call: Call, index: int = 0, what: str = "X") -> int:
    """An input in the blob's own order, with its scale."""
    return _tagged(call, call.take(index), quantization_of(call, what))


def _activation(call: Call) -> Dict[str, Any]:
    name = call.op.get_str("activation", "NONE")
    return {"FusedActivationFunction": ACTIVATIONS[None if name == "NONE" else name]}


def _fixed(dtype: Any, scale: float, low: int, middle: int) -> Quantization:
    """A result whose scale TFLite prescribes. low: the zero point of int8; middle: of uint8."""
    return Quantization((scale,), (low if dtype == np.int8 else middle,))


# Conversions


@rule("tflite.Quantize", "tflite.Requantize")
def quantize(call: Call) -> Results:
    x = _operand(call)
    return kept(call, call.same_shape("QUANTIZE", x, quantization=quantization_of(call, "Y")))


@rule("tflite.Dequantize")
def dequantize(call: Call) -> Results:
    return kept(call, call.same_shape("DEQUANTIZE", _operand(call)))


@rule("tflite.RescaleOperand")
def rescale(call: Call) -> Results:
    """TFLite's CONCATENATION of uint8 does this itself: it reads operands of any scale."""
    x, wanted = _operand(call), quantization_of(call, "Y")
    assert wanted is not None
    call.graph.rescaled[x] = wanted
    return kept(call, x)


# Elementwise


@rule(*(f"tflite.Quantized{name}" for name in _UNARY))
def unary(call: Call) -> Results:
    type = _UNARY[call.op.type[len("Quantized") :]]
    return kept(call, call.same_shape(type, _operand(call), quantization=quantization_of(call, "Y")))


@rule("tflite.QuantizedRelu")
def relu(call: Call) -> Results:
    type = call.op.get_str("activation", "RELU")
    return kept(call, call.same_shape(type, _operand(call), quantization=quantization_of(call, "Y")))


@rule("tflite.QuantizedLeakyRelu")
def leaky_relu(call: Call) -> Results:
    alpha, y = call.op.get_float("alpha"), quantization_of(call, "Y")
    return kept(call, call.same_shape("LEAKY_RELU", _operand(call), quantization=y, Alpha=alpha))


@rule("tflite.QuantizedGelu")
def gelu(call: Call) -> Results:
    near, y = call.op.get_bool("approximate"), quantization_of(call, "Y")
    return kept(call, call.same_shape("GELU", _operand(call), quantization=y, Approximate=near))


@rule(*(f"tflite.Quantized{name}" for name in _BINARY))
def binary(call: Call) -> Results:
    order = call.joint_order([0, 1])
    operands = [_tagged(call, call.broadcast(index, order), quantization_of(call, "AB"[index])) for index in (0, 1)]
    options = _activation(call) if call.op.has("activation") else {}
    type = _BINARY[call.op.type[len("Quantized") :]]
    y = call.emit(type, operands, call.shape_in(order), quantization=quantization_of(call, "Y"), **options)
    return call.result(y, order)


# Sums of products


def _bias(call: Call, index: int, filters: int) -> int:
    """The bias; its scales are the products of those of X and the weights."""
    value = call.constant_value(index, "the bias") if call.has(index) else np.zeros(filters, np.int32)
    x = np.float32(call.op.get_float("X_scale"))
    scales = tuple(float(x * np.float32(scale)) for scale in call.op.get_floats("W_scales"))
    name = call.op.input[index] if call.has(index) else "bias"
    return call.graph.constant(value, name, Quantization(scales, (0,) * len(scales)))


@rule("tflite.QuantizedConv")
def conv(call: Call) -> Results:
    """Pictures (N, H, W, C), filters (M, kernel, C / group)."""
    convolution = convolution_of(call.op, call.spec(0), call.spec(1))
    window, weights = convolution.window, call.constant_value(1, "the weights")
    x, padding = padded(call, _plainly(call), window)
    depthwise = convolution.group == convolution.channels and convolution.group > 1
    options: Dict[str, Any] = {"Padding": padding, **strides_of(window), **dilations_of(window), **_activation(call)}
    if depthwise:
        options["DepthMultiplier"] = convolution.filters // convolution.channels
    w = scaled_weights(call, weights.transpose(3, 1, 2, 0), 3) if depthwise else scaled_weights(call, weights, 0)
    y = call.emit(
        "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D",
        [x, w, _bias(call, 2, convolution.filters)],
        call.outputs[0].shape,
        quantization=quantization_of(call, "Y"),
        **options,
    )
    return call.result(y)


@rule("tflite.QuantizedConvTranspose")
def conv_transpose(call: Call) -> Results:
    """TFLite has no uint8 with a scale for each filter: numbers are shifted by 128 before the operator and back after
    it.
    """
    strides, y, stored = call.op.get_ints("strides"), quantization_of(call, "Y"), call.constant_value(1, "the weights")
    moved = stored.dtype == np.uint8 and len(call.op.get_floats("W_scales")) > 1
    x, shape = _plainly(call), call.outputs[0].shape
    bias = [_bias(call, 3, len(stored))] if call.has(3) else []
    options: Dict[str, Any] = {
        "Padding": 0 if call.op.get_str("auto_pad", "VALID") == "SAME_UPPER" else 1,
        "StrideH": strides[0],
        "StrideW": strides[1],
        **_activation(call),
    }
    if not moved:
        inputs = [call.ints(*shape), scaled_weights(call, stored, 0), x, *bias]
        return call.result(call.emit("TRANSPOSE_CONV", inputs, shape, quantization=y, **options))
    x = call.as_int8(x, _moved(call.graph[x].quantization))
    inputs = [call.ints(*shape), _signed_weights(call, stored), x, *bias]
    signed = call.emit("TRANSPOSE_CONV", inputs, shape, np.int8, _moved(y), **options)
    unsigned = call.same_shape("QUANTIZE", signed, quantization=y)
    call.graph.signed[unsigned] = signed
    return call.result(unsigned)


def _moved(of: Optional[Quantization]) -> Quantization:
    """The scale of numbers of uint8 once they are int8."""
    assert of is not None
    return of._replace(zero_point=tuple(zero - MIDDLE for zero in of.zero_point))


def _signed_weights(call: Call, stored: Array) -> int:
    """Weights of uint8 as int8 whose zero points are 0, with a scale along the filters."""
    centred, scales = stored.astype(np.int16) - call.op.get_int("W_zero_point", 0), call.op.get_floats("W_scales")
    if centred.size and not -MIDDLE <= int(centred.min()) <= int(centred.max()) < MIDDLE:
        raise ExportError("the weights minus their zero point do not fit into int8")
    of = Quantization(tuple(scales), (0,) * len(scales))
    return call.graph.constant(centred.astype(np.int8), call.op.input[1], of)


@rule("tflite.QuantizedFullyConnected")
def fully_connected(call: Call) -> Results:
    weights = call.constant_value(1, "the weights")
    inputs = [_plainly(call), scaled_weights(call, weights, 0), _bias(call, 2, len(weights))]
    options: Dict[str, Any] = {"KeepNumDims": call.op.get_bool("keep_num_dims"), **_activation(call)}
    y = quantization_of(call, "Y")
    return call.result(call.emit("FULLY_CONNECTED", inputs, call.outputs[0].shape, quantization=y, **options))


@rule("tflite.QuantizedMatMul")
def mat_mul(call: Call) -> Results:
    inputs = [_plainly(call, index, "AB"[index]) for index in (0, 1)]
    y = quantization_of(call, "Y")
    return call.result(call.emit("BATCH_MATMUL", inputs, call.outputs[0].shape, quantization=y))


# Pools, reductions, resizing


@rule("tflite.QuantizedAveragePool", "tflite.QuantizedMaxPool")
def pool(call: Call) -> Results:
    """X and Y have one scale."""
    window: Window = pool_window(call.op, call.spec())
    average = call.op.type == "QuantizedAveragePool"
    lowest = None if average else float(np.iinfo(call.spec().dtype).min)
    x, padding = padded(call, _plainly(call, 0, "Y"), window, lowest)
    options: Dict[str, Any] = {"FilterHeight": window.kernel[0], "FilterWidth": window.kernel[1]}
    y = call.emit(
        "AVERAGE_POOL_2D" if average else "MAX_POOL_2D",
        [x],
        call.outputs[0].shape,
        quantization=call.graph[x].quantization,
        Padding=padding,
        **strides_of(window),
        **options,
        **_activation(call),
    )
    return call.result(y)


@rule("tflite.QuantizedMean", "tflite.QuantizedSum")
def reduce(call: Call) -> Results:
    ndim = call.spec().ndim
    axes = sorted({axis_of(call.op, axis, ndim) for axis in call.op.get_ints("axes", range(ndim))})
    kind = call.op.type[len("Quantized") :]
    y = reduced(call, kind, axes, call.op.get_bool("keepdims"), _operand(call))
    assert y.tensor is not None
    call.graph[y.tensor].quantization = quantization_of(call, "Y")
    return y


@rule("tflite.QuantizedResizeBilinear")
def resize_bilinear(call: Call) -> Results:
    x = call.take()
    options: Dict[str, Any] = {
        "AlignCorners": call.op.get_bool("align_corners"),
        "HalfPixelCenters": call.op.get_bool("half_pixel_centers"),
    }
    shape = call.outputs[0].shape
    inputs = [x, call.ints(*shape[1:3])]
    return call.result(call.emit("RESIZE_BILINEAR", inputs, shape, quantization=call.graph[x].quantization, **options))


# Rows


def _rows(call: Call, type: str, y: Quantization, options: Sequence[Any] = ()) -> Results:
    x = _plainly(call)
    return call.result(call.same_shape(type, x, quantization=y, **dict(options)))


@rule("tflite.QuantizedSoftmax")
def softmax(call: Call) -> Results:
    dtype = call.outputs[0].dtype
    y = Quantization((1 / 32768,), (0,)) if dtype == np.int16 else _fixed(dtype, 1 / 256, -128, 0)
    return _rows(call, "SOFTMAX", y, [("Beta", call.op.get_float("beta", 1.0))])


@rule("tflite.QuantizedLogSoftmax")
def log_softmax(call: Call) -> Results:
    return _rows(call, "LOG_SOFTMAX", _fixed(call.outputs[0].dtype, 16 / 256, 127, 255))


@rule("tflite.QuantizedL2Normalize")
def l2_normalize(call: Call) -> Results:
    return _rows(call, "L2_NORMALIZATION", _fixed(call.outputs[0].dtype, 1 / 128, 0, 128))


# Integer weights with floats


@rule("tflite.HybridFullyConnected")
def hybrid(call: Call) -> Results:
    """The kernel quantises the inputs; see ``convolution.conv`` for convolutions."""
    weights = call.constant_value(1, "the weights")
    inputs = [call.take(), scaled_weights(call, weights, 0), *([call.take(2)] if call.has(2) else [])]
    options: Dict[str, Any] = {
        "AsymmetricQuantizeInputs": call.op.get_bool("asymmetric"),
        "KeepNumDims": call.outputs[0].ndim == call.spec().ndim != 2,
    }
    return call.result(call.emit("FULLY_CONNECTED", inputs, call.outputs[0].shape, **options))
