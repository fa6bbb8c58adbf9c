"""Normalisations over channels."""

from __future__ import annotations

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import rule
from exporter.tflite.rules.pooling import pooled

_SMALLEST_NORM = 1e-6


@rule("L2_NORMALIZATION")
def l2_normalization(node: Node) -> None:
    """Vectors along the last dimension divided by their length, or by 1e-6 if they are shorter."""
    first, (x,) = node.elementwise(1)
    length, bounded = node.between("length"), node.between("bounded")
    axes = node.constant("axes", np.array([1 if first else -1], np.int64))
    node.add("ReduceL2", [x, axes], [length], domain="onnx", keepdims=1)
    node.add("Max", [length, node.constant("least", np.float32(_SMALLEST_NORM))], [bounded], domain="onnx")
    with node.activated(first) as output:
        node.add("Div", [x, bounded], [output])


@rule("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(node: Node) -> None:
    """A window of an even number of channels has one fewer on the right; neither Caffe2 nor ONNX has such windows."""
    numbers = {name: float(node.option(name)) for name in ("alpha", "beta", "bias")}
    node.add(
        "LocalResponseNormalization",
        [node.input(0)],
        [node.output()],
        domain="tflite",
        radius=int(node.option("radius")),
        **numbers,
    )


@rule("L2_POOL_2D")
def l2_pool_2d(node: Node) -> None:
    """The root of the mean of squares."""
    squares, means = node.between("squares"), node.between("means")
    x = node.input(0, channels_first=True)
    node.add("Mul", [x, x], [squares])
    pooled(node, "AveragePool", squares, means)
    with node.activated(channels_first=True) as output:
        node.add("Sqrt", [means], [output])
