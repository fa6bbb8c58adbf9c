"""Elementwise operators of two or more inputs, and casts."""

from __future__ import annotations

from exporter.tflite_node import Node, domain_for
from exporter.tflite_rules import rule
from runtime_arm.errors import ExportError
from runtime_arm.netdef.dtypes import number_of

_FUSED = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div"}
_PLAIN = {"LOGICAL_AND": "And", "LOGICAL_OR": "Or", "EQUAL": "EQ", "NOT_EQUAL": "NE", "LESS": "LT", "LESS_EQUAL": "LE",
          "GREATER": "GT", "GREATER_EQUAL": "GE"}
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
    node.add("Cast", inputs, [node.output(0, first)], domain="onnx", to=number)
