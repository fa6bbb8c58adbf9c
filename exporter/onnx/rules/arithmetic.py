"""Arithmetic, comparisons and logic on two or more inputs, and casts."""

from __future__ import annotations

from exporter.onnx.node import Node, Operators, dtype_of
from exporter.onnx.rules import rule
from runtime_arm.netdef.dtypes import FLOAT16, UINT32, UINT64, number_of

_COMPARISONS = {"Equal": "EQ", "Greater": "GT", "GreaterOrEqual": "GE", "Less": "LT", "LessOrEqual": "LE"}


@rule("Add", "And", "Div", "Mul", "Not", "Or", "Sub", "Xor")
def same_in_caffe2(node: Node) -> Operators:
    """Caffe2 has them under the same names and broadcasts in the same way."""
    return [node.to(node.type)]


@rule(*_COMPARISONS)
def comparison(node: Node) -> Operators:
    return [node.to(_COMPARISONS[node.type])]


@rule(
    "LegacyAdd",
    "LegacyAnd",
    "LegacyDiv",
    "LegacyMul",
    "LegacyOr",
    "LegacyPow",
    "LegacySub",
    "LegacyXor",
    "LegacyEqual",
    "LegacyGreater",
    "LegacyLess",
)
def legacy_broadcast(node: Node) -> Operators:
    """Caffe2 still has the arguments ``broadcast`` and ``axis``."""
    type = node.type[len("Legacy") :]
    axis = node.get_int("axis") if "axis" in node.attributes else None
    return [node.to(_COMPARISONS.get(type, type), broadcast=1, axis=axis)]


@rule("Sum", "Max", "Mean", "Min")
def of_many(node: Node) -> Operators:
    """Caffe2's operators take inputs of one shape. A single input is the result; Add, which broadcasts, sums two."""
    if len(node.inputs) == 1:
        return node.alias(0, node.input(0))
    if node.type == "Sum" and len(node.inputs) == 2:
        return [node.to("Add")]
    dims = [node.dims(index) for index in range(len(node.inputs))]
    if dims[0] is not None and None not in dims[0] and all(other == dims[0] for other in dims):
        return [node.to(node.type)]
    return [node.as_onnx()]


@rule("Pow")
def power(node: Node) -> Operators:
    """Caffe2's exponent is an argument if it is one number."""
    exponent = node.constant_scalar(1)
    if exponent is None or node.rank(1) != 0:
        return [node.as_onnx()]
    return [node.to("Pow", [node.input(0)], exponent=float(exponent))]


@rule("Cast")
def cast(node: Node) -> Operators:
    """Caffe2's Cast has fewer data types."""
    number = number_of(dtype_of(node.get_int("to"), "to"))
    return [node.as_onnx() if number in (FLOAT16, UINT32, UINT64) else node.to("Cast", to=number)]


@rule("CastLike")
def cast_like(node: Node) -> Operators:
    """A Cast if the data type is known."""
    dtype = node.dtype_of_input(1)
    number = None if dtype is None else number_of(dtype)
    if number in (None, FLOAT16, UINT32, UINT64):
        return [node.as_onnx()]
    return [node.to("Cast", [node.input(0)], to=number)]


@rule("Identity")
def identity(node: Node) -> Operators:
    return node.alias(0, node.input(0))


@rule("Dropout")
def dropout(node: Node) -> Operators:
    """The identity in inference, unless the mask is wanted."""
    training = node.constant_scalar(2) if node.has(2) else False
    if node.wants(1) or training is None or training:
        return [node.as_onnx()]
    return node.alias(0, node.input(0))
