"""Conversions, functions of one or two numbers, pools, means and rows."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from exporter.to_onnx.call import Call
from exporter.to_onnx.operand import Results
from exporter.to_onnx.qdq import elementwise, integers, operand, reals, result, rule
from exporter.to_onnx.rules.tflite import RANK, window
from exporter.to_onnx.rules.tflite import max_pool as pool_bytes
from runtime_arm.errors import ExportError
from runtime_arm.operators.quantised.tflite.parameters import Affine, affine
from runtime_arm.registry.schema import axis_of, lookup
from runtime_arm.registry.specs import TensorSpec

_UNARY = {
    "Abs": "Abs",
    "Elu": "Elu",
    "Exp": "Exp",
    "HardSwish": "HardSwish",
    "Log": "Log",
    "Logistic": "Sigmoid",
    "Sqrt": "Sqrt",
    "Tanh": "Tanh",
}
_BINARY = {"Add": "Add", "Mul": "Mul", "Sub": "Sub"}
_ITSELF = Affine(np.float32(1), 0)  # the scale by which an integer stands for itself


@rule("tflite.Quantize")
def quantize(call: Call) -> Results:
    """ONNX rounds halves to the even integer, TFLite away from zero."""
    spec = lookup(call.op).infer(call.op, [TensorSpec((1,), np.float32)])[0]
    return integers(call, call.x, affine(call.op, "Y", spec.dtype), spec.dtype)


@rule("tflite.Requantize")
def requantize(call: Call) -> Results:
    spec = lookup(call.op).infer(call.op, [TensorSpec((1,), call.dtype())])[0]
    return integers(call, operand(call), affine(call.op, "Y", spec.dtype), spec.dtype)


@rule(*(f"tflite.Quantized{name}" for name in _UNARY))
def unary(call: Call) -> Results:
    return elementwise(call, lambda x: call.node(_UNARY[call.op.type[len("Quantized") :]], x))


@rule("tflite.QuantizedLeakyRelu")
def leaky_relu(call: Call) -> Results:
    return elementwise(call, lambda x: call.node("LeakyRelu", x, alpha=call.op.get_float("alpha")))


@rule("tflite.QuantizedGelu")
def gelu(call: Call) -> Results:
    near = "tanh" if call.op.get_bool("approximate") else "none"
    return elementwise(call, lambda x: call.node("Gelu", x, approximate=near))


@rule(*(f"tflite.Quantized{name}" for name in _BINARY))
def binary(call: Call) -> Results:
    return elementwise(call, lambda a, b: call.node(_BINARY[call.op.type[len("Quantized") :]], a, b), "AB")


@rule("tflite.QuantizedPRelu")
def p_relu(call: Call) -> Results:
    """If the picture is available with its channels first, constant slopes have them first, too."""
    slopes, first = call.value(1), call.graph.channels_first.get(call.x)
    if first is None or slopes is None:
        return elementwise(call, lambda a, b: call.node("PRelu", a, b), "AB")
    whole = slopes.reshape((1,) * (RANK - slopes.ndim) + slopes.shape)
    turned = call.constant(np.moveaxis(whole, -1, 1), slopes.dtype)
    y = call.node("PRelu", operand(call, 0, "A", first), operand(call, 1, "B", turned))
    return call.channels_last(result(call, y), RANK)


# Pictures (N, H, W, C)


@rule("tflite.QuantizedAveragePool")
def average_pool(call: Call) -> Results:
    """X and Y have one scale."""
    dtype = call.dtype()
    x = reals(call, call.channels_first(call.x, RANK), affine(call.op, "Y", dtype), dtype)
    y = call.node("AveragePool", x, **window(call, call.op.get_ints("kernel_shape")))
    return call.channels_last(result(call, y), RANK)


@rule("tflite.QuantizedMaxPool")
def max_pool(call: Call) -> Results:
    """ONNX has it on bytes and on floats; integers of 16 bits are exact as floats."""
    if call.dtype() != np.int16:
        return pool_bytes(call)
    x = reals(call, call.channels_first(call.x, RANK), _ITSELF, call.dtype())
    y = call.node("MaxPool", x, **window(call, call.op.get_ints("kernel_shape")))
    return call.channels_last(integers(call, y, _ITSELF, call.dtype()), RANK)


@rule("tflite.QuantizedMean")
def mean(call: Call) -> Results:
    axes = sorted({axis_of(call.op, axis, call.rank()) for axis in call.op.get_ints("axes", range(call.rank()))})
    keep = int(call.op.get_bool("keepdims"))
    return result(call, call.node("ReduceMean", operand(call), call.ints(*axes), keepdims=keep))


@rule("tflite.QuantizedResizeBilinear")
def resize_bilinear(call: Call) -> Results:
    """X and Y have one scale, which the operator need not know: the integers themselves are interpolated."""
    size = call.value(1)
    if size is None:
        raise ExportError("the size of the result must be known")
    aligned, half = call.op.get_bool("align_corners"), call.op.get_bool("half_pixel_centers")
    x = reals(call, call.channels_first(call.x, RANK), _ITSELF, call.dtype())
    options: Dict[str, Any] = {
        "mode": "linear",
        "coordinate_transformation_mode": "align_corners" if aligned else "half_pixel" if half else "asymmetric",
    }
    dims = call.known_dims() or (None,) * RANK
    if dims[0] is None or dims[3] is None:
        raise ExportError("the number of pictures and channels must be known")
    sizes = call.ints(dims[0], dims[3], *(int(n) for n in size))
    y = call.node("Resize", x, "", "", sizes, **options)
    return call.channels_last(integers(call, y, _ITSELF, call.dtype()), RANK)


# Rows


@rule("tflite.QuantizedSoftmax")
def softmax(call: Call) -> Results:
    """The scale of the result is 1/256 by TFLite's definition, 1/32768 for int16."""
    dtype = lookup(call.op).infer(call.op, [TensorSpec((1,), call.dtype())])[0].dtype
    x, beta = operand(call), call.op.get_float("beta", 1.0)
    x = x if beta == 1.0 else call.node("Mul", x, call.constant(beta, np.float32))
    wide = dtype == np.int16
    y = Affine(np.float32(1 / 32768 if wide else 1 / 256), -128 if dtype == np.int8 else 0)
    return integers(call, call.node("Softmax", x, axis=-1), y, dtype)
