"""Arithmetic, comparisons and logic on two or more inputs, which broadcast."""

from __future__ import annotations

from functools import reduce
from typing import List, Optional

from exporter.to_tflite.graph import Operand
from exporter.to_tflite.rules import Call, Results, rule
from runtime_arm.errors import ExportError
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.broadcasting import second_shape
from runtime_arm.registry.specs import Shape

MOST_DIMENSIONS = 4  # of operands of different shapes, for all of TFLite's kernels
_BINARY = {
    "Add": "ADD",
    "And": "LOGICAL_AND",
    "Div": "DIV",
    "EQ": "EQUAL",
    "Equal": "EQUAL",
    "GE": "GREATER_EQUAL",
    "GT": "GREATER",
    "Greater": "GREATER",
    "GreaterOrEqual": "GREATER_EQUAL",
    "LE": "LESS_EQUAL",
    "LT": "LESS",
    "Less": "LESS",
    "LessOrEqual": "LESS_EQUAL",
    "Mul": "MUL",
    "NE": "NOT_EQUAL",
    "Or": "LOGICAL_OR",
    "Sub": "SUB",
}


def combined(call: Call, type: str, first: int = 0, second: int = 1, shape: Optional[Shape] = None) -> Operand:
    """Two inputs combined by an elementwise operator; ``shape`` is what the second is reshaped to."""
    order = call.joint_order([first, second])
    operands = [call.broadcast(first, order), call.broadcast(second, order, shape)]
    sizes = [call.graph[number].shape for number in operands]
    if len(order) > MOST_DIMENSIONS and sizes[0] != sizes[1] and all(sizes):
        raise ExportError(f"TFLite broadcasts up to {MOST_DIMENSIONS} dimensions, these have {len(order)}")
    return call.result(call.emit(type, operands, call.shape_in(order)), order)


@rule(*_BINARY, *(f"onnx.{name}" for name in _BINARY))
def binary(call: Call) -> Results:
    shape = call.spec(1).shape if call.op.domain else second_shape(call.op, call.spec(0), call.spec(1))
    return combined(call, _BINARY[call.op.type], shape=shape)


@rule("Xor", "onnx.Xor")
def exclusive_or(call: Call) -> Results:
    return combined(call, "NOT_EQUAL")


@rule("RowMul")
def row_mul(call: Call) -> Results:
    """Each row times a number of its own."""
    return combined(call, "MUL", shape=(call.spec().shape[0], *(1,) * (call.spec().ndim - 1)))


@rule("Pow", "onnx.Pow")
def power(call: Call) -> Results:
    """Squares and roots have operators of their own."""
    exponent = call.value(1) if call.has(1) else None
    number = call.op.get_float("exponent") if not call.has(1) else None
    if exponent is not None and exponent.size == 1:
        number = float(exponent.reshape(()))
    if number is None:
        shape = call.spec(1).shape if call.op.domain else second_shape(call.op, call.spec(0), call.spec(1))
        return combined(call, "POW", shape=shape)
    order, x = call.order(), call.as_held()
    if number in (2.0, 0.5):
        return call.result(call.same_shape("SQUARE" if number == 2 else "SQRT", x), order)
    return call.result(call.same_shape("POW", x, call.number(number)), order)


@rule("Sum", "onnx.Sum", "Max", "onnx.Max", "Min", "onnx.Min", "SumRelu", "Mean", "onnx.Mean")
def variadic(call: Call) -> Results:
    """One operator per pair of inputs. Caffe2's Max and Min take inputs with the same number of elements as if they had
    the first one's shape.
    """
    type = {"Max": "MAXIMUM", "Min": "MINIMUM"}.get(call.op.type, "ADD")
    indices = list(range(len(call.operands)))
    order = call.joint_order(indices)
    alike = type != "ADD" and not call.op.domain
    first = call.spec()
    shapes = [first.shape if alike and call.spec(i).size == first.size else call.spec(i).shape for i in indices]
    parts = [call.broadcast(index, order, shape) for index, shape in zip(indices, shapes)]
    shape = call.shape_in(order)
    total = reduce(lambda a, b: call.emit(type, [a, b], shape), parts)
    if call.op.type == "Mean":
        total = call.same_shape("MUL", total, call.number(1 / len(parts)))
    return call.result(call.same_shape("RELU", total) if call.op.type == "SumRelu" else total, order)


@rule("WeightedSum")
def weighted_sum(call: Call) -> Results:
    """Inputs 0, 2, 4 ... times the numbers in the inputs after them."""
    terms: List[Operand] = []
    for index in range(0, len(call.operands), 2):
        product = OperatorDef.of("Mul", ["x", "w"], [call.op.output[0]])
        terms.append(call.translate(product, call.operand(index), call.operand(index + 1)))
    total = terms[0]
    for term in terms[1:]:
        total = call.translate(OperatorDef.of("Add", ["x", "y"], [call.op.output[0]]), total, term)
    return total


@rule("Where", "onnx.Where")
def where(call: Call) -> Results:
    order = call.joint_order([0, 1, 2])
    operands = [call.broadcast(index, order) for index in range(3)]
    return call.result(call.emit("SELECT_V2", operands, call.shape_in(order)), order)


@rule("tflite.FloorDiv")
def floor_divide(call: Call) -> Results:
    return combined(call, "FLOOR_DIV")
