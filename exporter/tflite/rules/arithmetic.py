"""Elementwise operators of two or more inputs, and casts."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np

from exporter.tflite.node import Node, domain_for
from exporter.tflite.rules import rule
from runtime_arm.errors import ExportError
from runtime_arm.netdef.dtypes import number_of

_FUSED = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div"}
_PLAIN = {
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
    "EQUAL": "EQ",
    "NOT_EQUAL": "NE",
    "LESS": "LT",
    "LESS_EQUAL": "LE",
    "GREATER": "GT",
    "GREATER_EQUAL": "GE",
}
_ONNX = {"MAXIMUM": "Max", "MINIMUM": "Min", "POW": "Pow"}


@rule(*_FUSED)
def fused(node: Node) -> None:
    type = _FUSED[node.type]
    first, inputs = node.elementwise()
    with node.activated(first) as output:
        node.add(type, inputs, [output], domain=domain_for(type, node.dtype(0)))


@rule(*_PLAIN)
def plain(node: Node) -> None:
    type = _PLAIN[node.type]
    first, inputs = node.elementwise()
    node.add(type, inputs, [node.output(0, first)])


@rule(*_ONNX)
def of_onnx(node: Node) -> None:
    first, inputs = node.elementwise()
    node.add(_ONNX[node.type], inputs, [node.output(0, first)], domain="onnx")


@rule("ADD_N")
def add_n(node: Node) -> None:
    first, inputs = node.elementwise()
    node.add("Sum", inputs, [node.output(0, first)], domain="onnx")


@rule("SQUARED_DIFFERENCE")
def squared_difference(node: Node) -> None:
    first, inputs = node.elementwise()
    difference, domain = node.between("difference"), domain_for("Sub", node.dtype(0))
    node.add("Sub", inputs, [difference], domain=domain)
    node.add("Mul", [difference, difference], [node.output(0, first)], domain=domain)


@rule("CAST")
def cast(node: Node) -> None:
    dtype = node.result_dtype()
    number = number_of(dtype)
    if number is None:
        raise ExportError(f"a cast to {dtype.name} is not supported")
    first, inputs = node.elementwise()
    saturates = node.dtype(0).kind == "f" and dtype.kind in "iu"
    node.add("Cast", inputs, [node.output(0, first)], domain="tflite" if saturates else "onnx", to=number)


@rule("FLOOR_DIV")
def floor_div(node: Node) -> None:
    """The quotient rounded down."""
    first, inputs = node.elementwise()
    node.add("FloorDiv", inputs, [node.output(0, first)], domain="tflite")


@rule("FLOOR_MOD")
def floor_mod(node: Node) -> None:
    """The remainder with the sign of the divisor."""
    first, inputs = node.elementwise()
    node.add("Mod", inputs, [node.output(0, first)], domain="onnx")


@rule("ATAN2")
def atan2(node: Node) -> None:
    first, inputs = node.elementwise()
    node.add("Atan2", inputs, [node.output(0, first)], domain="tflite")


@rule("BITWISE_XOR")
def bitwise_xor(node: Node) -> None:
    """Exclusive or, of booleans too."""
    type = "Xor" if node.dtype(0) == np.bool_ else "BitwiseXor"
    first, inputs = node.elementwise()
    node.add(type, inputs, [node.output(0, first)], domain="onnx")


@rule("RIGHT_SHIFT")
def right_shift(node: Node) -> None:
    """Arithmetic shift: keeps the sign."""
    first, inputs = node.elementwise()
    node.add("RightShift", inputs, [node.output(0, first)], domain="tflite")


@rule("BITCAST")
def bitcast(node: Node) -> None:
    node.add("BitCast", [node.input(0)], [node.output()], domain="onnx", to=number_of(node.result_dtype()))


@rule("FAKE_QUANT")
def fake_quant(node: Node) -> None:
    """Rounded to the nearest of 2^num_bits values from ``min`` to ``max``, one of which is zero."""
    low, high, scale = _nudged(node)
    first, (x,) = node.elementwise(1)
    clipped = node.between("clipped")
    node.add("Clip", [x], [clipped], min=low, max=high)
    steps: List[Tuple[str, float]] = [("Sub", low), ("Div", scale), ("Add", 0.5), ("Floor", 0.0), ("Mul", scale)]
    blob = clipped
    for type, operand in steps:
        result = node.between(type.lower())
        operands = [blob] if type == "Floor" else [blob, node.constant("operand", np.float32(operand))]
        node.add(type, operands, [result])
        blob = result
    node.add("Add", [blob, node.constant("low", np.float32(low))], [node.output(0, first)])


def _nudged(node: Node) -> Tuple[float, float, float]:
    """Least value, greatest value and step, shifted so that zero is a value. Source: TFLite's FakeQuant."""
    low, high, bits = float(node.option("min")), float(node.option("max")), int(node.option("num_bits", 8))
    if not (low < high and 2 <= bits <= 16):
        raise ExportError(f"{bits} bits from {low} to {high} cannot be quantised")
    least, most = float(bool(node.option("narrow_range", False))), float(2**bits - 1)
    scale = (high - low) / (most - least)
    zero = min(max(np.floor(least - low / scale + 0.5), least), most)
    return float((least - zero) * scale), float((most - zero) * scale), scale
