"""Arithmetic, comparisons and logic on two or more inputs, and casts."""

from __future__ import annotations

from typing import List

import numpy as np

from exporter.to_onnx.operand import constant_value, inferred
from exporter.to_onnx.rules import Call, Results, rule
from runtime_arm.errors import ExportError
from runtime_arm.operators.common.casting import LARGEST_HALF, caffe2_dtype

_COMPARISONS = {"EQ": "Equal", "GE": "GreaterOrEqual", "GT": "Greater", "LE": "LessOrEqual", "LT": "Less"}


def second(call: Call) -> str:
    """The second input, reshaped so that ONNX broadcasts it as Caffe2's legacy ``broadcast=1`` does."""
    if not call.op.get_bool("broadcast"):
        return call.input(1)
    dims, letter = call.known_dims(1), call.op.get_str("axis_str", "")
    axis = call.op.get_str("order", "NCHW").index(letter) if letter else call.op.get_int("axis", -1)
    if dims is not None and all(n == 1 for n in dims):
        return call.input(1) if len(dims) <= 1 else call.reshaped(call.input(1), 1)
    if axis == -1:
        return call.input(1)
    trailing = call.rank() - call.rank(1) - axis
    if trailing == 0:
        return call.input(1)
    at = range(call.rank(1), call.rank(1) + trailing)
    shaped = call.weight(1, lambda w: w.reshape(*w.shape, *[1] * trailing))
    return shaped or call.node("Unsqueeze", call.input(1), call.ints(*at))


@rule("Add", "Sub", "Mul", "Div", "And", "Or", "Xor")
def same_in_onnx(call: Call) -> Results:
    return call.node(call.op.type, call.x, second(call))


@rule("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(call: Call) -> Results:
    """On booleans these are ONNX's logical operators."""
    type = call.op.type[len("Bitwise") :] if call.dtype() == np.bool_ else call.op.type
    return call.node(type, call.x, second(call))


@rule("NE", *_COMPARISONS)
def comparison(call: Call) -> Results:
    """ONNX does not order booleans."""
    a, b = call.x, second(call)
    if call.op.type in ("EQ", "NE"):
        equal = call.node("Equal", a, b)
        return equal if call.op.type == "EQ" else call.node("Not", equal)
    if call.dtype() == np.bool_:
        a, b = (call.node("Cast", name, to=np.dtype(np.int32)) for name in (a, b))
    return call.node(_COMPARISONS[call.op.type], a, b)


@rule("Mod")
def modulo(call: Call) -> Results:
    sign_of_divisor = call.op.get_bool("sign_follow_divisor")
    return call.node("Mod", call.x, call.number(call.op.get_int("divisor")), fmod=0 if sign_of_divisor else 1)


@rule("Pow")
def power(call: Call) -> Results:
    exponent = call.number(call.op.get_float("exponent")) if not call.has(1) else second(call)
    return call.node("Pow", call.x, exponent)


def _total(call: Call) -> str:
    """The sum of all inputs; ONNX's Sum takes only floats."""
    names = call.inputs
    if call.dtype().kind == "f" and len(names) > 2:
        return call.node("Sum", *names)
    total = names[0]
    for name in names[1:]:
        total = call.node("Add", total, name)
    return total


@rule("Sum", "SumInt")
def sum_(call: Call) -> Results:
    return _total(call)


@rule("SumRelu")
def sum_relu(call: Call) -> Results:
    return call.node("Relu", _total(call))


@rule("Mean")
def mean(call: Call) -> Results:
    return call.node("Mean", *call.inputs)


@rule("Max", "Min")
def extreme(call: Call) -> Results:
    """The second input may have another shape with the same number of elements."""
    names = call.inputs
    if len(names) > 1 and _elements(call, 0) == _elements(call, 1) and call.known_dims(0) != call.known_dims(1):
        names[1] = call.node("Reshape", names[1], call.node("Shape", names[0]))
    return call.node(call.op.type, *names)


def _elements(call: Call, index: int) -> List[int]:
    return [spec.size for spec in call.operands[index].known if spec is not None]


@rule("WeightedSum")
def weighted_sum(call: Call) -> Results:
    """X_0 w_0 + X_1 w_1 + ...; each w is one number."""
    names = call.inputs
    products = []
    for x, weight in zip(names[::2], names[1::2]):
        products.append(call.node("Mul", x, call.reshaped(weight, 1)))
    return call.node("Sum", *products)


@rule("Cast")
def cast(call: Call) -> Results:
    dtype = caffe2_dtype(call.op, "to")
    if dtype == np.dtype(object) or call.dtype() == np.dtype(object):
        raise ExportError("strings are not cast alike")
    narrow = call.dtype().kind == "f" and dtype.kind in "iu" and dtype.itemsize < 4
    if narrow:  # the low bits of int32; ONNX does not define its cast of floats beyond the range
        return call.node("Cast", call.node("Cast", call.x, to=np.dtype(np.int32)), to=dtype)
    return call.node("Cast", call.x, to=dtype)


@rule("FloatToHalf", "HalfToFloat")
def half(call: Call) -> Results:
    if call.op.type == "HalfToFloat":
        return call.node("Cast", call.x, to=np.dtype(np.float32))
    x = call.x
    if call.op.get_bool("clip"):
        x = call.node("Clip", x, call.constant(-LARGEST_HALF), call.constant(LARGEST_HALF))
    return call.node("Cast", x, to=np.dtype(np.float16))


@rule("armnet.UnpackInt4")
def int4(call: Call) -> Results:
    """Halves, where these hold all numbers exactly."""
    value = constant_value(inferred(call.op, call.operands)[0])
    if value is not None:
        with np.errstate(over="ignore"):
            halves = value.astype(np.float16)
        if np.array_equal(halves, value):
            return call.node("Cast", call.constant(halves), to=np.dtype(np.float32))
    raise ExportError("its numbers are no halves")


@rule("Where", "Conditional", "onnx.Where")
def where(call: Call) -> Results:
    """A condition per row becomes a column."""
    condition = call.x
    if call.op.type == "Conditional" or call.op.get_bool("broadcast_on_rows"):
        condition = call.reshaped(condition, -1, *[1] * (call.rank(1) - 1))
    return call.node("Where", condition, call.input(1), call.input(2))
