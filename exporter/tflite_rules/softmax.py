"""Softmax and its kin, over the last dimension."""

from __future__ import annotations

import numpy as np

from exporter.tflite_node import Node
from exporter.tflite_rules import rule


@rule("SOFTMAX")
def softmax(node: Node) -> None:
    """Of ``beta`` times the input."""
    first, (x,) = node.elementwise(1)
    beta = float(node.option("beta", 1.0))
    if beta != 1.0:
        scaled = node.between("scaled")
        node.add("Mul", [x, node.constant("beta", np.float32(beta))], [scaled])
        x = scaled
    node.add("Softmax", [x], [node.output(0, first)], domain="onnx", axis=1 if first else -1)


@rule("LOG_SOFTMAX")
def log_softmax(node: Node) -> None:
    first, inputs = node.elementwise()
    node.add("LogSoftmax", inputs, [node.output(0, first)], domain="onnx", axis=1 if first else -1)
