"""Activations and other elementwise functions of one input; they keep the order of its dimensions."""

from __future__ import annotations

import math

import numpy as np

from exporter.to_tflite.graph import Operand
from exporter.to_tflite.rules import Call, Results, rule
from runtime_arm.operators.elementwise.activation import LARGEST, SELU_ALPHA, SELU_SCALE

_SAME = {
    "Abs": "ABS",
    "Ceil": "CEIL",
    "Cos": "COS",
    "Exp": "EXP",
    "Floor": "FLOOR",
    "Log": "LOG",
    "Neg": "NEG",
    "Negative": "NEG",
    "Relu": "RELU",
    "Round": "ROUND",
    "Rsqrt": "RSQRT",
    "Sigmoid": "LOGISTIC",
    "Sign": "SIGN",
    "Sin": "SIN",
    "Sqr": "SQUARE",
    "Sqrt": "SQRT",
    "Tanh": "TANH",
}
_LIMITS = {(0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1", (0.0, 1.0): "RELU_0_TO_1"}


def kept(call: Call, tensor: int) -> Operand:
    """The output in the order of the first input."""
    return call.result(tensor, call.order())


@rule(*_SAME, *(f"onnx.{name}" for name in _SAME), "tflite.Logistic")
def same_in_tflite(call: Call) -> Results:
    """TFLite has them under other names."""
    return kept(
        call, call.same_shape("LOGISTIC" if call.op.domain == "tflite" else _SAME[call.op.type], call.as_held())
    )


@rule("Not", "onnx.Not")
def logical_not(call: Call) -> Results:
    return kept(call, call.same_shape("LOGICAL_NOT", call.as_held()))


def scaled(call: Call, x: int, factor: float) -> int:
    """A tensor times a number."""
    return x if factor == 1 else call.same_shape("MUL", x, call.number(factor))


def shifted(call: Call, x: int, addend: float) -> int:
    """A tensor plus a number."""
    return x if addend == 0 else call.same_shape("ADD", x, call.number(addend))


def limited(call: Call, x: int, least: float, most: float) -> int:
    """A tensor limited to a range."""
    type = _LIMITS.get((least, most))
    if type is not None and call.spec().dtype.kind == "f":
        return call.same_shape(type, x)
    if least == 0 and most >= LARGEST and call.spec().dtype.kind == "f":
        return call.same_shape("RELU", x)
    if least > -LARGEST:
        x = call.same_shape("MAXIMUM", x, call.number(least))
    return call.same_shape("MINIMUM", x, call.number(most)) if most < LARGEST else x


@rule("Clip")
def clip(call: Call) -> Results:
    least, most = call.op.get_float("min", -LARGEST), call.op.get_float("max", LARGEST)
    return kept(call, limited(call, call.as_held(), least, most))


@rule("onnx.Clip")
def onnx_clip(call: Call) -> Results:
    """The bounds are inputs, each of which may be left out."""
    bounds = [call.constant_value(index, "a bound") if call.has(index) else None for index in (1, 2)]
    least, most = (
        default if bound is None else float(bound.reshape(())) for bound, default in zip(bounds, (-math.inf, math.inf))
    )
    return kept(call, limited(call, call.as_held(), least, most))


@rule("ReluN")
def relu_n(call: Call) -> Results:
    return kept(call, limited(call, call.as_held(), 0.0, call.op.get_float("n", 6.0)))


@rule("LeakyRelu", "onnx.LeakyRelu")
def leaky_relu(call: Call) -> Results:
    return kept(call, call.same_shape("LEAKY_RELU", call.as_held(), Alpha=call.op.get_float("alpha", 0.01)))


@rule("Elu", "onnx.Elu")
def elu(call: Call) -> Results:
    """TFLite's has alpha = 1; for any other, the negative part is multiplied."""
    x, alpha = call.as_held(), call.op.get_float("alpha", 1.0)
    if alpha == 1:
        return kept(call, call.same_shape("ELU", x))
    return kept(call, _two_sided(call, x, alpha, 1.0))


@rule("Selu", "onnx.Selu")
def selu(call: Call) -> Results:
    name = "gamma" if call.op.domain == "onnx" else "scale"
    alpha, scale = call.op.get_float("alpha", SELU_ALPHA), call.op.get_float(name, SELU_SCALE)
    return kept(call, _two_sided(call, call.as_held(), alpha, scale))


def _two_sided(call: Call, x: int, alpha: float, scale: float) -> int:
    """scale * (max(x, 0) + alpha * (exp(min(x, 0)) - 1))"""
    negative = call.same_shape("ELU", call.same_shape("MINIMUM", x, call.number(0.0)))
    return scaled(call, call.same_shape("ADD", call.same_shape("RELU", x), scaled(call, negative, alpha)), scale)


@rule("HardSigmoid", "onnx.HardSigmoid")
def hard_sigmoid(call: Call) -> Results:
    alpha, beta = call.op.get_float("alpha", 0.2), call.op.get_float("beta", 0.5)
    return kept(call, limited(call, shifted(call, scaled(call, call.as_held(), alpha), beta), 0.0, 1.0))


@rule("onnx.HardSwish")
def hard_swish(call: Call) -> Results:
    return kept(call, call.same_shape("HARD_SWISH", call.as_held()))


@rule("Swish", "onnx.Swish")
def swish(call: Call) -> Results:
    x = call.as_held()
    gate = scaled(call, x, call.op.get_float("alpha", 1.0)) if call.op.domain == "onnx" else x
    return kept(call, call.same_shape("MUL", x, call.same_shape("LOGISTIC", gate)))


@rule("caffe.Swish")
def caffe_swish(call: Call) -> Results:
    x = call.as_held()
    gate = call.same_shape("LOGISTIC", scaled(call, x, call.op.get_float("beta", 1.0)))
    return kept(call, call.same_shape("MUL", x, gate))


@rule("Gelu", "onnx.Gelu", "com.microsoft.Gelu")
def gelu(call: Call) -> Results:
    near = call.op.get_bool("fast_gelu") or call.op.get_str("approximate", "none") == "tanh"
    return kept(call, call.same_shape("GELU", call.as_held(), Approximate=near))


@rule("Softplus", "onnx.Softplus")
def softplus(call: Call) -> Results:
    return kept(call, _softplus(call, call.as_held()))


def _softplus(call: Call, x: int) -> int:
    """max(x, 0) + log(1 + exp(-|x|)), which does not overflow."""
    small = call.same_shape("EXP", call.same_shape("NEG", call.same_shape("ABS", x)))
    return call.same_shape("ADD", call.same_shape("RELU", x), call.same_shape("LOG", shifted(call, small, 1.0)))


@rule("Mish", "onnx.Mish")
def mish(call: Call) -> Results:
    x = call.as_held()
    return kept(call, call.same_shape("MUL", x, call.same_shape("TANH", _softplus(call, x))))


@rule("Softsign", "onnx.Softsign")
def softsign(call: Call) -> Results:
    x = call.as_held()
    return kept(call, call.same_shape("DIV", x, shifted(call, call.same_shape("ABS", x), 1.0)))


@rule("Reciprocal", "onnx.Reciprocal")
def reciprocal(call: Call) -> Results:
    x = call.as_held()
    return kept(call, call.emit("DIV", [call.number(1.0), x], call.graph[x].shape))


@rule("Cube")
def cube(call: Call) -> Results:
    x = call.as_held()
    return kept(call, call.same_shape("MUL", call.same_shape("SQUARE", x), x))


@rule("Scale")
def scale_(call: Call) -> Results:
    return kept(call, scaled(call, call.as_held(), call.op.get_float("scale", 1.0)))


@rule("caffe.Power")
def power(call: Call) -> Results:
    """(shift + scale X) ** power"""
    exponent, scale, shift = (
        call.op.get_float(name, default) for name, default in (("power", 1.0), ("scale", 1.0), ("shift", 0.0))
    )
    base = shifted(call, scaled(call, call.as_held(), scale), shift)
    return kept(call, base if exponent == 1 else call.same_shape("POW", base, call.number(exponent)))


@rule("caffe.Exp", "caffe.Log")
def exponential(call: Call) -> Results:
    """The exponential or logarithm of any base; -1 means e."""
    base = call.op.get_float("base", -1.0)
    factor = 1.0 if base == -1.0 else math.log(base)
    x = shifted(call, scaled(call, call.as_held(), call.op.get_float("scale", 1.0)), call.op.get_float("shift", 0.0))
    if call.op.type == "Log":
        return kept(call, scaled(call, call.same_shape("LOG", x), 1 / factor))
    return kept(call, call.same_shape("EXP", scaled(call, x, factor)))


@rule("PRelu", "onnx.PRelu")
def p_relu(call: Call) -> Results:
    """Caffe2 has one slope per channel, ONNX's slopes broadcast; TFLite's have no batch dimension."""
    slope, order, rank = call.constant_value(1, "the slope"), call.order(), call.spec().ndim
    if call.op.domain != "onnx" and slope.size > 1:
        axis = rank - 1 if call.op.get_str("order", "NCHW") == "NHWC" else 1
        slope = slope.reshape([-1 if at == axis else 1 for at in range(rank)])
    wide = slope.reshape((1,) * (rank - slope.ndim) + slope.shape) if slope.ndim <= rank else slope.reshape(1)
    wide = np.ascontiguousarray(wide.transpose(order))
    if rank > 1 and wide.shape[0] == 1:
        wide = wide[0]
    return kept(call, call.same_shape("PRELU", call.as_held(), call.graph.constant(wide)))


@rule("Copy", "CopyCPUToCPU", "CopyFromCPUInput", "NanCheck")
def nothing(call: Call) -> Results:
    """The identity. NanCheck can stop a run of Caffe2 but changes no number."""
    return call.operand()


@rule("Dropout", "onnx.Dropout")
def dropout(call: Call) -> Results:
    """The identity in inference."""
    call.refuse_outputs_from(1)
    return call.operand()


@rule("Cast", "onnx.Cast", "tflite.Cast")
def cast(call: Call) -> Results:
    """TFLite's CAST of floats saturates; the others keep the low bits of int32 or int64 where a float does not fit."""
    x, dtype = call.as_held(), call.outputs[0].dtype
    wide = {"int8": np.int32, "uint8": np.int32, "int16": np.int32, "uint16": np.int32, "uint32": np.int64}
    if call.op.domain != "tflite" and call.spec().dtype.kind == "f" and dtype.name in wide:
        x = call.same_shape("CAST", x, dtype=np.dtype(wide[dtype.name]))
    return kept(call, call.same_shape("CAST", x, dtype=dtype))
