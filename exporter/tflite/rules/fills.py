"""Tensors made from sizes and numbers."""

from __future__ import annotations

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import rule
from exporter.tflite.rules.layout import integers


@rule("FILL", any_type=True)
def fill(node: Node) -> None:
    node.add("Expand", [node.input(1), integers(node, 0)], [node.output()], domain="onnx")


@rule("ZEROS_LIKE")
def zeros_like(node: Node) -> None:
    sizes = node.between("sizes")
    node.add("Shape", [node.input(0)], [sizes])
    node.add("ConstantOfShape", [sizes], [node.output()], domain="onnx", value=np.zeros(1, node.dtype(0)))


@rule("RANGE")
def range_(node: Node) -> None:
    node.add("Range", node.inputs(), [node.output()], domain="onnx")


@rule("BROADCAST_ARGS")
def broadcast_args(node: Node) -> None:
    """The shape that two shapes broadcast to."""
    node.add("BroadcastArgs", node.inputs(), [node.output()], domain="tflite")
