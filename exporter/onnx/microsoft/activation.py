"""Gelu and its approximations."""

from __future__ import annotations

from exporter.onnx.making import make
from exporter.onnx.microsoft.definitions import Nodes, added, defines, number
from exporter.onnx.node import Node


@defines("Gelu", "X", "Y")
def gelu(node: Node) -> Nodes:
    return [make("Gelu", ["X"], ["Y"])]


@defines("BiasGelu", "A B", "C")
def bias_gelu(node: Node) -> Nodes:
    return [make("Add", ["A", "B"], ["sum"]), make("Gelu", ["sum"], ["C"])]


@defines("FastGelu", "X bias", "Y")
def fast_gelu(node: Node) -> Nodes:
    return [*added(node, [(0, "X"), (1, "bias")], "sum"), make("Gelu", ["sum"], ["Y"], approximate="tanh")]


@defines("QuickGelu", "X", "Y")
def quick_gelu(node: Node) -> Nodes:
    """Y = X * sigmoid(alpha * X)."""
    return [
        number("alpha", node.get_float("alpha", 1.702)),
        make("Mul", ["X", "alpha"], ["scaled"]),
        make("Sigmoid", ["scaled"], ["gate"]),
        make("Mul", ["X", "gate"], ["Y"]),
    ]


@defines("GemmFastGelu", "X W bias", "Y")
def gemm_fast_gelu(node: Node) -> Nodes:
    """Y = FastGelu(X W + bias)."""
    total = added(node, [(-1, "product"), (2, "bias")], "sum")
    return [make("MatMul", ["X", "W"], ["product"]), *total, make("Gelu", ["sum"], ["Y"], approximate="tanh")]


@defines("BiasAdd", "X bias skip", "Y")
def bias_add(node: Node) -> Nodes:
    return [make("Add", ["X", "bias"], ["biased"]), make("Add", ["biased", "skip"], ["Y"])]


@defines("BiasSplitGelu", "X bias", "Y")
def bias_split_gelu(node: Node) -> Nodes:
    """Y = left half of (X + bias) * Gelu(its right half)."""
    return [
        make("Add", ["X", "bias"], ["sum"]),
        make("Split", ["sum"], ["left", "right"], axis=-1, num_outputs=2),
        make("Gelu", ["right"], ["gate"]),
        make("Mul", ["left", "gate"], ["Y"]),
    ]


@defines("BiasSoftmax", "data bias", "output")
def bias_softmax(node: Node) -> Nodes:
    """Softmax of data + bias over the dimensions from ``axis`` on, all together."""
    total, rank, axis = make("Add", ["data", "bias"], ["sum"]), node.rank(0), node.get_int("axis", 1)
    if axis == -1 or (rank is not None and axis == rank - 1):
        return [total, make("Softmax", ["sum"], ["output"], axis=-1)]
    return [
        total,
        make("Flatten", ["sum"], ["rows"], axis=axis),
        make("Softmax", ["rows"], ["normal"], axis=-1),
        make("Shape", ["sum"], ["shape"]),
        make("Reshape", ["normal", "shape"], ["output"], allowzero=1),
    ]
