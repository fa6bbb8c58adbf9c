"""Activations and other elementwise functions of one input."""

from __future__ import annotations

import math

import numpy as np

from exporter.to_onnx.rules import Call, Results, rule
from runtime_arm.errors import ExportError
from runtime_arm.operators.elementwise.activation import LARGEST, SELU_ALPHA, SELU_SCALE

_SAME = (
    "Abs",
    "Acos",
    "Asin",
    "Atan",
    "Ceil",
    "Cos",
    "Cosh",
    "Erf",
    "Exp",
    "Floor",
    "Log",
    "Mish",
    "Not",
    "Reciprocal",
    "Relu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
)


@rule(*_SAME)
def same_in_onnx(call: Call) -> Results:
    """ONNX has them under the same names."""
    return call.node(call.op.type, call.x)


@rule("Negative")
def negative(call: Call) -> Results:
    return call.node("Neg", call.x)


@rule("Sqr")
def square(call: Call) -> Results:
    return call.node("Mul", call.x, call.x)


@rule("Cube")
def cube(call: Call) -> Results:
    return call.node("Mul", call.node("Mul", call.x, call.x), call.x)


@rule("Rsqrt")
def reciprocal_root(call: Call) -> Results:
    return call.node("Reciprocal", call.node("Sqrt", call.x))


@rule("Cbrt")
def cube_root(call: Call) -> Results:
    """ONNX's Pow gives no roots of negative numbers."""
    magnitude = call.node("Pow", call.node("Abs", call.x), call.number(1 / 3))
    return call.node("Mul", call.node("Sign", call.x), magnitude)


@rule("Scale")
def scale(call: Call) -> Results:
    return call.node("Mul", call.x, call.number(call.op.get_float("scale", 1.0)))


@rule("LeakyRelu")
def leaky_relu(call: Call) -> Results:
    return call.node("LeakyRelu", call.x, alpha=call.op.get_float("alpha", 0.01))


@rule("Elu")
def elu(call: Call) -> Results:
    return call.node("Elu", call.x, alpha=call.op.get_float("alpha", 1.0))


@rule("Selu")
def selu(call: Call) -> Results:
    alpha, gamma = call.op.get_float("alpha", SELU_ALPHA), call.op.get_float("scale", SELU_SCALE)
    return call.node("Selu", call.x, alpha=alpha, gamma=gamma)


@rule("HardSigmoid")
def hard_sigmoid(call: Call) -> Results:
    return call.node("HardSigmoid", call.x, alpha=call.op.get_float("alpha", 0.2), beta=call.op.get_float("beta", 0.5))


@rule("ThresholdedRelu")
def thresholded_relu(call: Call) -> Results:
    return call.node("ThresholdedRelu", call.x, alpha=call.op.get_float("alpha", 1.0))


@rule("Clip")
def clip(call: Call) -> Results:
    """ONNX's bounds are inputs; if they cross, both ONNX's standard and Caffe2's kernel give the upper bound."""
    least, most = call.op.get_float("min", -LARGEST), call.op.get_float("max", LARGEST)
    return call.node("Clip", call.x, call.number(least), call.number(most))


@rule("ReluN")
def relu_n(call: Call) -> Results:
    return call.node("Clip", call.x, call.number(0), call.number(call.op.get_float("n", 6.0)))


@rule("Swish")
def swish(call: Call) -> Results:
    return call.node("Mul", call.x, call.node("Sigmoid", call.x))


@rule("Gelu")
def gelu(call: Call) -> Results:
    return call.node("Gelu", call.x, approximate="tanh" if call.op.get_bool("fast_gelu") else "none")


@rule("Glu")
def glu(call: Call) -> Results:
    half, gate = call.nodes("Split", [call.x], 2, axis=call.op.get_int("dim", -1), num_outputs=2)
    return call.node("Mul", half, call.node("Sigmoid", gate))


@rule("Logit")
def logit(call: Call) -> Results:
    eps = call.op.get_float("eps", 1e-6)
    p = call.node("Clip", call.x, call.number(eps), call.number(1 - eps))
    return call.node("Log", call.node("Div", p, call.node("Sub", call.number(1), p)))


@rule("PRelu")
def p_relu(call: Call) -> Results:
    """Caffe2 has one slope per channel; ONNX's slopes broadcast."""
    if call.op.get_str("order", "NCHW") == "NHWC" or call.known_dims(1) == (1,):
        return call.node("PRelu", call.x, call.input(1))
    slope = call.value(1)
    if slope is not None and slope.size == 1:
        return call.node("PRelu", call.x, call.number(float(slope.reshape(-1)[0])))
    shape = [-1, *[1] * (call.rank() - 2)]
    along_channels = call.weight(1, lambda w: w.reshape(shape)) or call.reshaped(call.input(1), *shape)
    return call.node("PRelu", call.x, along_channels)


@rule("ReplaceNaN")
def replace_nan(call: Call) -> Results:
    value = call.number(call.op.get_float("value", 0.0))
    return call.node("Where", call.node("IsNaN", call.x), value, call.x)


@rule("IsNaN")
def is_nan(call: Call) -> Results:
    """Caffe2's result is of type uint8."""
    return call.node("Cast", call.node("IsNaN", call.x), to=np.dtype(np.uint8))


@rule("StumpFunc")
def stump(call: Call) -> Results:
    threshold, low, high = (
        call.number(call.op.get_float(name, 0.0)) for name in ("threshold", "low_value", "high_value")
    )
    return call.node("Where", call.node("LessOrEqual", call.x, threshold), low, high)


@rule("IsMemberOf")
def is_member_of(call: Call) -> Results:
    members = call.op.get_ints("value")
    if call.dtype().kind not in "iu" or not members:
        raise ExportError(f"ONNX cannot express membership of {call.dtype().name} elements")
    found = [call.node("Equal", call.x, call.number(member)) for member in members]
    result = found[0]
    for other in found[1:]:
        result = call.node("Or", result, other)
    return result


@rule("caffe.Power")
def power(call: Call) -> Results:
    """(shift + scale X) ** power; a constant if X has no influence."""
    exponent, scale, shift = (
        call.op.get_float(name, default) for name, default in (("power", 1.0), ("scale", 1.0), ("shift", 0.0))
    )
    if exponent * scale == 0:
        zero = call.node("Mul", call.x, call.number(0))
        return call.node("Add", zero, call.number(float(np.power(shift, exponent))))
    base = _affine(call, scale, shift)
    return base if exponent == 1 else call.node("Pow", base, call.number(exponent))


def _affine(call: Call, scale: float, shift: float) -> str:
    scaled = call.x if scale == 1 else call.node("Mul", call.x, call.number(scale))
    return scaled if shift == 0 else call.node("Add", scaled, call.number(shift))


@rule("caffe.Exp", "caffe.Log")
def exponential(call: Call) -> Results:
    """The exponential of any base; -1 means e."""
    base = call.op.get_float("base", -1.0)
    factor = 1.0 if base == -1.0 else math.log(base)
    x = _affine(call, call.op.get_float("scale", 1.0), call.op.get_float("shift", 0.0))
    if call.op.type == "Log":
        return call.node("Div", call.node("Log", x), call.number(factor))
    return call.node("Exp", call.node("Mul", x, call.number(factor)))


@rule("caffe.Threshold")
def threshold(call: Call) -> Results:
    above = call.node("Greater", call.x, call.number(call.op.get_float("threshold", 0.0)))
    return call.node("Cast", above, to=call.dtype())


@rule("caffe.Swish")
def caffe_swish(call: Call) -> Results:
    gate = call.node("Mul", call.x, call.number(call.op.get_float("beta", 1.0)))
    return call.node("Mul", call.x, call.node("Sigmoid", gate))
