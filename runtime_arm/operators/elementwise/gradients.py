"""Gradient makers of the elementwise operators."""

from __future__ import annotations

from typing import Any, Callable, Dict, Sequence

from runtime_arm.errors import GradientError
from runtime_arm.netdef import dtypes
from runtime_arm.operators.common.casting import caffe2_dtype
from runtime_arm.operators.elementwise.activation import SELU_ALPHA, SELU_SCALE
from runtime_arm.registry.gradients import Backward, Forward, gradient, no_gradient

FROM_Y = "Relu LeakyRelu ReluN Clip ThresholdedRelu HardSigmoid Sigmoid Tanh Softplus Elu Selu Reciprocal"
FROM_X = "Softsign Sin Cos Tan Asin Acos Atan Erf Abs Logit"
FROM_X_LAST = "Gelu Cube Sinh Cosh"
FROM_Y_LAST = "Rsqrt Cbrt"
FROM_X_AND_Y = "Swish Mish"


def _declare(types: str, inputs: Callable[[Forward], Sequence[str]]) -> None:
    for type in types.split():
        gradient(type)(lambda forward: forward.by(f"{forward.op.type}Gradient", inputs(forward), [0]))


_declare(FROM_Y, lambda forward: [forward.output(0), forward.gradient()])
_declare(FROM_X, lambda forward: [forward.input(0), forward.gradient()])
_declare(FROM_X_LAST, lambda forward: [forward.gradient(), forward.input(0)])
_declare(FROM_Y_LAST, lambda forward: [forward.gradient(), forward.output(0)])
_declare(FROM_X_AND_Y, lambda forward: [forward.input(0), forward.output(0), forward.gradient()])


@gradient("ReluWithMask", domain="armnet")
def relu_with_mask(forward: Forward) -> Backward:
    return forward.by("ReluMaskGradient", [forward.output(1), forward.gradient()], [0])


@gradient("Exp")
def exp(forward: Forward) -> Backward:
    return forward.by("Mul", [forward.output(0), forward.gradient()], [0], copy=False)


@gradient("Log")
def log(forward: Forward) -> Backward:
    return forward.by("Div", [forward.gradient(), forward.input(0)], [0], copy=False)


@gradient("Negative")
def negative(forward: Forward) -> Backward:
    return forward.by("Negative", [forward.gradient()], [0])


@gradient("Scale")
def scale(forward: Forward) -> Backward:
    return forward.by("Scale", [forward.gradient()], [0])


@gradient("Sqr")
def sqr(forward: Forward) -> Backward:
    """Doubles dY where it lies, as Caffe2 does; the pass gives it another place if something else needs it."""
    dx, dy = forward.name(0), forward.gradient()
    double = forward.make("Scale", [dy], [dy], copy=False, scale=2.0)
    return forward.result([double, forward.make("Mul", [dy, forward.input(0)], [dx], copy=False)], {0: dx})


@gradient("Sqrt")
def sqrt(forward: Forward) -> Backward:
    dx = forward.name(0)
    half = forward.make("Scale", [forward.gradient()], [dx], copy=False, scale=0.5)
    return forward.result([half, forward.make("Div", [dx, forward.output(0)], [dx], copy=False)], {0: dx})


@gradient("Pow")
def pow(forward: Forward) -> Backward:
    return _power_of_two_blobs(forward) if len(forward.op.input) > 1 else _power(forward)


def _power(forward: Forward) -> Backward:
    """dX = exponent X^(exponent - 1) dY; where the operator overwrites X, of Y^(1 - 1 / exponent)."""
    dx, exponent = forward.name(0), forward.op.get_float("exponent", 0.0)
    inplace = forward.op.input[0] == forward.op.output[0]
    if inplace and exponent == 0:
        raise GradientError(forward.op, "the gradient needs the input, of which the operator leaves nothing")
    base, power = (forward.output(0), 1 - 1 / exponent) if inplace else (forward.input(0), exponent - 1)
    ops = [
        forward.make("Pow", [base], [dx], copy=False, exponent=power),
        forward.make("Mul", [dx, forward.gradient()], [dx], copy=False),
        forward.make("Scale", [dx], [dx], copy=False, scale=exponent),
    ]
    return forward.result(ops, {0: dx})


def _power_of_two_blobs(forward: Forward) -> Backward:
    """dX = B X^(B - 1) dY, dB = log(X) Y dY, summed to the shape of B where B was broadcast."""
    x, b, y, dy = forward.input(0), forward.input(1), forward.output(0), forward.gradient()
    dx, db = forward.name(0), forward.name(1)
    place: Dict[str, Any] = {}
    if forward.op.get_bool("broadcast"):
        axis = {"axis": forward.op.get_int("axis", -1), "axis_str": forward.op.get_str("axis_str", "")}
        place = {**axis, "order": forward.op.get_str("order", "NCHW")}
    spread = {"broadcast": 1, **place} if place else {}
    terms = f"{db}_autogen_pre_red"
    ops = [
        forward.make("ConstantFill", [b], [db], copy=False, value=1.0),
        forward.make("Sub", [b, db], [db], copy=False),
        forward.make("Pow", [x, db], [dx], copy=False, **spread),
        forward.make("Mul", [dx, dy], [dx], copy=False),
        forward.make("Mul", [dx, b], [dx], copy=False, **spread),
        forward.make("Log", [x], [terms], copy=False),
        forward.make("Mul", [terms, y], [terms], copy=False),
        forward.make("Mul", [terms, dy], [terms if place else db], copy=False),
    ]
    if place:
        ops.append(forward.make("SumReduceLike", [terms, b], [db], copy=False, **place))
    return forward.result(ops, {0: dx, 1: db})


@gradient("Add", "Sub")
def add(forward: Forward) -> Backward:
    inputs = [forward.gradient(), forward.like(0), forward.like(1)]
    return forward.by(f"{forward.op.type}Gradient", inputs, [0, 1])


@gradient("Mul")
def mul(forward: Forward) -> Backward:
    return forward.by("MulGradient", [forward.gradient(), forward.input(0), forward.input(1)], [0, 1])


@gradient("Div")
def div(forward: Forward) -> Backward:
    inputs = [forward.gradient(), forward.like(0), forward.input(1), forward.output(0)]
    return forward.by("DivGradient", inputs, [0, 1])


@gradient("Sum")
def sum(forward: Forward) -> Backward:
    """Every input's gradient is the output's, by name."""
    return forward.result([], dict.fromkeys(range(len(forward.op.input)), forward.gradient()))


@gradient("Mean")
def mean(forward: Forward) -> Backward:
    return forward.by("MeanGradient", [forward.gradient()], range(len(forward.op.input)))


@gradient("Max", "Min")
def extreme(forward: Forward) -> Backward:
    inputs = range(len(forward.op.input))
    given = [forward.output(0), forward.gradient(), *(forward.input(index) for index in inputs)]
    return forward.by(f"{forward.op.type}Gradient", given, inputs)


@gradient("PRelu")
def prelu(forward: Forward) -> Backward:
    given = [forward.output(0), forward.gradient(), forward.input(0), forward.input(1)]
    return forward.by("PReluGradient", given, [0, 1])


@gradient("Cast")
def cast(forward: Forward) -> Backward:
    """Back to the dtype that argument ``from_type`` names, which Caffe2 requires here."""
    if not forward.op.has("from_type"):
        raise GradientError(forward.op, "the gradient needs argument from_type, the dtype of the input")
    numbers = {name: dtypes.number_of(caffe2_dtype(forward.op, name)) or dtypes.FLOAT for name in ("from_type", "to")}
    swapped: Dict[str, Any] = {"to": numbers["from_type"], "from_type": numbers["to"]}
    return forward.by("Cast", [forward.gradient()], [0], copy=False, **swapped)


no_gradient("Sign", "Floor", "Ceil", "And", "Or", "Xor", "Not", "EQ", "NE", "LT", "LE", "GT", "GE", "IsNaN", "Mod")


def _declare_onnx(types: str, inputs: Callable[[Forward], Sequence[str]], domain: str = "") -> None:
    for type in types.split():
        gradient(type, domain="onnx")(
            lambda forward: forward.by(f"{forward.op.type}Gradient", inputs(forward), [0], domain=domain)
        )


_declare_onnx(
    "Relu LeakyRelu HardSigmoid Sigmoid Tanh Softplus Elu Reciprocal",
    lambda forward: [forward.output(0), forward.gradient()],
)
_declare_onnx("Softsign Sin Cos Tan Asin Acos Atan Erf Abs", lambda forward: [forward.input(0), forward.gradient()])
_declare_onnx("Sinh Cosh", lambda forward: [forward.gradient(), forward.input(0)])
_declare_onnx("Mish", lambda forward: [forward.input(0), forward.output(0), forward.gradient()])
_declare_onnx(
    "HardSwish Swish Celu ThresholdedRelu Asinh Acosh Atanh",
    lambda forward: [forward.input(0), forward.gradient()],
    domain="armnet",
)
gradient("Exp", domain="onnx")(exp)
gradient("Log", domain="onnx")(log)
gradient("Sqrt", domain="onnx")(sqrt)
gradient("Add", "Sub", domain="onnx")(add)
gradient("Mul", domain="onnx")(mul)
gradient("Div", domain="onnx")(div)


@gradient("Neg", domain="onnx")
def onnx_negative(forward: Forward) -> Backward:
    return forward.by("Negative", [forward.gradient()], [0])


@gradient("Selu", domain="onnx")
def onnx_selu(forward: Forward) -> Backward:
    """Of Y where scale > 1, as for Caffe2's; ONNX calls the scale gamma."""
    scale = forward.op.get_float("gamma", SELU_SCALE)
    alpha = forward.op.get_float("alpha", SELU_ALPHA)
    return forward.by(
        "SeluGradient", [forward.output(0), forward.gradient()], [0], copy=False, alpha=alpha, scale=scale
    )


@gradient("Gelu", domain="onnx")
def onnx_gelu(forward: Forward) -> Backward:
    fast = int(forward.op.get_str("approximate", "none") == "tanh")
    return forward.by("GeluGradient", [forward.gradient(), forward.input(0)], [0], copy=False, fast_gelu=fast)


@gradient("Clip", domain="onnx")
def onnx_clip(forward: Forward) -> Backward:
    return forward.by(
        "ClipGradient", [forward.input(0), forward.gradient(), *forward.given(1, 2)], [0], domain="armnet"
    )


@gradient("PRelu", domain="onnx")
def onnx_prelu(forward: Forward) -> Backward:
    return forward.by("PReluGradient", [forward.gradient(), *forward.given(0, 1)], [0, 1], domain="armnet")


@gradient("Pow", domain="onnx")
def onnx_pow(forward: Forward) -> Backward:
    given = [forward.gradient(), *forward.given(0, 1), forward.output(0)]
    return forward.by("PowGradient", given, [0, 1], domain="armnet")


@gradient("Where", domain="onnx")
def onnx_where(forward: Forward) -> Backward:
    given = [forward.input(0), forward.gradient(), forward.like(1), forward.like(2)]
    return forward.by("WhereGradient", given, [1, 2], domain="armnet")


@gradient("Max", "Min", domain="onnx")
def onnx_extreme(forward: Forward) -> Backward:
    inputs = range(len(forward.op.input))
    given = [forward.output(0), forward.gradient(), *forward.given(*inputs)]
    return forward.by(f"{forward.op.type}Gradient", given, inputs, domain="armnet")


@gradient("Sum", "Mean", domain="onnx")
def onnx_sum(forward: Forward) -> Backward:
    """The output's gradient, of a mean divided by the number of inputs, summed over what was broadcast."""
    inputs = range(len(forward.op.input))
    names, share, ops = {index: forward.name(index) for index in inputs}, forward.gradient(), []
    if forward.op.type == "Mean":
        share = f"_{forward.name(0)}_share"
        ops.append(forward.make("Scale", [forward.gradient()], [share], copy=False, scale=1 / len(inputs)))
    for index, name in names.items():
        ops.append(forward.make("SumLike", [share, forward.like(index)], [name], copy=False, domain="armnet"))
    return forward.result(ops, dict(names))


@gradient("Cast", "CastLike", domain="onnx")
def onnx_cast(forward: Forward) -> Backward:
    back = forward.make("CastLike", [forward.gradient(), forward.like(0)], [forward.name(0)], copy=False, domain="onnx")
    return forward.result([back], {0: forward.name(0)})


no_gradient("Sign", "Floor", "Ceil", "Round", "And", "Or", "Xor", "Not", "Equal", "Greater", "Less", domain="onnx")
no_gradient("GreaterOrEqual", "LessOrEqual", "IsNaN", "IsInf", "Mod", domain="onnx")


@gradient("WeightedSum")
def weighted_sum(forward: Forward) -> Backward:
    """Every blob's gradient, and with grad_on_w every weight's."""
    inputs = range(len(forward.op.input))
    of = [*inputs[::2], *(inputs[1::2] if forward.op.get_bool("grad_on_w") else ())]
    return forward.by("WeightedSumGradient", [forward.gradient(), *forward.given(*inputs)], of)
