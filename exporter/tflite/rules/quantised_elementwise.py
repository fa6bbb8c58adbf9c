"""Quantised elementwise operators, and conversions between integers and floats."""

from __future__ import annotations

from exporter.tflite.node import Node
from exporter.tflite.rules import arithmetic, quantised_rule
from exporter.tflite.rules.quantised import DOMAIN, activation, of_input, of_output
from runtime_arm.errors import ExportError
from runtime_arm.netdef.dtypes import number_of

_FUSED = {"ADD": "QuantizedAdd", "SUB": "QuantizedSub", "MUL": "QuantizedMul", "DIV": "QuantizedDiv"}
_BINARY = {"PRELU": "QuantizedPRelu", "SQUARED_DIFFERENCE": "QuantizedSquaredDifference"}
_COMPARISONS = {
    "EQUAL": "QuantizedEqual",
    "NOT_EQUAL": "QuantizedNotEqual",
    "LESS": "QuantizedLess",
    "LESS_EQUAL": "QuantizedLessEqual",
    "GREATER": "QuantizedGreater",
    "GREATER_EQUAL": "QuantizedGreaterEqual",
}
_UNARY = {
    "ABS": "QuantizedAbs",
    "ELU": "QuantizedElu",
    "EXP": "QuantizedExp",
    "HARD_SWISH": "QuantizedHardSwish",
    "LOG": "QuantizedLog",
    "LOGISTIC": "QuantizedLogistic",
    "NEG": "QuantizedNeg",
    "RSQRT": "QuantizedRsqrt",
    "SQRT": "QuantizedSqrt",
    "TANH": "QuantizedTanh",
}


@quantised_rule(*_FUSED)
def fused(node: Node) -> None:
    _binary(node, _FUSED[node.type], **of_output(node), **activation(node))


@quantised_rule(*_BINARY)
def binary(node: Node) -> None:
    _binary(node, _BINARY[node.type], **of_output(node))


@quantised_rule(*_COMPARISONS)
def compared(node: Node) -> None:
    _binary(node, _COMPARISONS[node.type])


def _binary(node: Node, type: str, **arguments: object) -> None:
    node.add(
        type,
        node.inputs(),
        [node.output()],
        domain=DOMAIN,
        **of_input(node, 0, "A"),
        **of_input(node, 1, "B"),
        **arguments,
    )


quantised_rule("MAXIMUM", "MINIMUM")(arithmetic.of_onnx)
quantised_rule("CAST")(arithmetic.cast)
quantised_rule("FLOOR_DIV")(arithmetic.floor_div)
quantised_rule("FLOOR_MOD")(arithmetic.floor_mod)


@quantised_rule(*_UNARY)
def unary(node: Node) -> None:
    _unary(node, _UNARY[node.type])


@quantised_rule("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def relu(node: Node) -> None:
    _unary(node, "QuantizedRelu", activation=node.type)


@quantised_rule("LEAKY_RELU")
def leaky_relu(node: Node) -> None:
    _unary(node, "QuantizedLeakyRelu", alpha=float(node.option("alpha")))


@quantised_rule("GELU")
def gelu(node: Node) -> None:
    _unary(node, "QuantizedGelu", approximate=int(node.option("approximate", False)))


def _unary(node: Node, type: str, **arguments: object) -> None:
    node.add(type, [node.input(0)], [node.output()], domain=DOMAIN, **of_input(node, 0), **of_output(node), **arguments)


@quantised_rule("QUANTIZE")
def quantize(node: Node) -> None:
    """From floats, or from integers with another scale or type."""
    to = number_of(node.result_dtype())
    if node.dtype(0).kind == "f":
        node.add("Quantize", [node.input(0)], [node.output()], domain=DOMAIN, to=to, **of_output(node))
    elif (node.dtype(0), node.scale(0)) == (node.result_dtype(), node.result_scale()):
        node.alias(0, node.input(0))
    else:
        node.add(
            "Requantize", [node.input(0)], [node.output()], domain=DOMAIN, to=to, **of_input(node, 0), **of_output(node)
        )


@quantised_rule("DEQUANTIZE")
def dequantize(node: Node) -> None:
    quantization = node.quantization(0)
    if quantization is not None and quantization.per_channel:
        raise ExportError("one scale per channel is not supported here")
    node.add("Dequantize", [node.input(0)], [node.output()], domain=DOMAIN, **of_input(node, 0))
