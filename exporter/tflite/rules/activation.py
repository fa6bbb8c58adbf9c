"""Elementwise operators of one input."""

from __future__ import annotations

from exporter.tflite.node import Node, domain_for
from exporter.tflite.rules import rule

_SAME = {
    "ABS": "Abs",
    "CEIL": "Ceil",
    "COS": "Cos",
    "EXP": "Exp",
    "FLOOR": "Floor",
    "HARD_SWISH": "HardSwish",
    "LOG": "Log",
    "LOGICAL_NOT": "Not",
    "NEG": "Neg",
    "RELU": "Relu",
    "ROUND": "Round",
    "SIN": "Sin",
    "SQRT": "Sqrt",
    "TANH": "Tanh",
}
_BOUNDS = {"RELU6": (0.0, 6.0), "RELU_0_TO_1": (0.0, 1.0), "RELU_N1_TO_1": (-1.0, 1.0)}


@rule(*_SAME)
def same(node: Node) -> None:
    """Caffe2 or ONNX has the same operator under another name."""
    type = _SAME[node.type]
    first, inputs = node.elementwise()
    node.add(type, inputs, [node.output(0, first)], domain=domain_for(type, node.dtype(0)))


@rule("SIGN")
def sign(node: Node) -> None:
    """ONNX's: Caffe2's of NaN is 0."""
    first, inputs = node.elementwise()
    node.add("Sign", inputs, [node.output(0, first)], domain="onnx")


@rule("LOGISTIC")
def logistic(node: Node) -> None:
    """Sigmoid; between integers, where its last bit may decide, the function of LiteRT's reference kernel."""
    type, domain = ("Logistic", "tflite") if node.meets_integers else ("Sigmoid", domain_for("Sigmoid", node.dtype(0)))
    first, inputs = node.elementwise()
    node.add(type, inputs, [node.output(0, first)], domain=domain)


@rule(*_BOUNDS)
def bounded(node: Node) -> None:
    least, most = _BOUNDS[node.type]
    first, inputs = node.elementwise()
    node.add("Clip", inputs, [node.output(0, first)], min=least, max=most)


@rule("RSQRT")
def rsqrt(node: Node) -> None:
    first, inputs = node.elementwise()
    node.add("Rsqrt", inputs, [node.output(0, first)])


@rule("SQUARE")
def square(node: Node) -> None:
    first, (x,) = node.elementwise(1)
    node.add("Mul", [x, x], [node.output(0, first)], domain=domain_for("Mul", node.dtype(0)))


@rule("ELU")
def elu(node: Node) -> None:
    first, inputs = node.elementwise()
    node.add("Elu", inputs, [node.output(0, first)], alpha=1.0)


@rule("LEAKY_RELU")
def leaky_relu(node: Node) -> None:
    first, inputs = node.elementwise()
    node.add("LeakyRelu", inputs, [node.output(0, first)], alpha=float(node.option("alpha", 0.0)))


@rule("GELU")
def gelu(node: Node) -> None:
    first, inputs = node.elementwise()
    approximate = "tanh" if node.option("approximate", False) else "none"
    node.add("Gelu", inputs, [node.output(0, first)], domain="onnx", approximate=approximate)


@rule("PRELU")
def prelu(node: Node) -> None:
    """The slopes broadcast; with one slope per channel it is Caffe2's PRelu."""
    first, (x, slopes) = node.elementwise(2)
    value = node.net.value(slopes)
    if first and value is not None and (value.size == 1 or value.shape[1:2] == (value.size,)):
        flat = node.constant(f"{node.tensor(1).name}_flat", value.reshape(-1))
        return node.add("PRelu", [x, flat], [node.output(0, True)])
    node.add("PRelu", [x, slopes], [node.output(0, first)], domain="onnx")
