"""Softmax and LogSoftmax over the last dimension."""

from __future__ import annotations

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import rule


@rule("SOFTMAX")
def softmax(node: Node) -> None:
    """Softmax of ``beta`` times the input, over the last dimension: the channels must be last."""
    first, (x,) = node.elementwise(1)
    beta = float(node.option("beta", 1.0))
    if beta != 1.0:
        scaled = node.between("scaled")
        node.add("Mul", [x, node.constant("beta", np.float32(beta))], [scaled])
        x = scaled
    rank = node.rank(0)
    if first or rank is None:
        return node.add("Softmax", [x], [node.output(0, first)], domain="onnx", axis=1 if first else -1)
    node.add("Softmax", [x], [node.output()], axis=rank - 1)


@rule("LOG_SOFTMAX")
def log_softmax(node: Node) -> None:
    first, inputs = node.elementwise()
    node.add("LogSoftmax", inputs, [node.output(0, first)], domain="onnx", axis=1 if first else -1)
