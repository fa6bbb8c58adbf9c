"""Activations and other elementwise functions of one input."""

from __future__ import annotations

import numpy as np

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule


@rule(
    "Abs",
    "Ceil",
    "Cos",
    "Cosh",
    "Erf",
    "Exp",
    "Floor",
    "Log",
    "Relu",
    "Sigmoid",
    "Sin",
    "Sinh",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
    "Acos",
    "Asin",
    "Atan",
)
def same_in_caffe2(node: Node) -> Operators:
    """Caffe2 has them under the same names."""
    return [node.to(node.type)]


@rule("Sign", "Softplus")
def unlike_in_caffe2(node: Node) -> Operators:
    """Caffe2's Sign of NaN is 0, and its Softplus is infinite for large numbers."""
    return [node.to(node.type) if node.caffe2_compatible else node.as_onnx()]


@rule("Neg")
def negative(node: Node) -> Operators:
    return [node.to("Negative")]


@rule("Reciprocal")
def reciprocal(node: Node) -> Operators:
    return [node.to("Reciprocal")]


@rule("LeakyRelu")
def leaky_relu(node: Node) -> Operators:
    return [node.to("LeakyRelu", alpha=node.get_float("alpha", 0.01))]


@rule("Elu")
def elu(node: Node) -> Operators:
    return [node.to("Elu", alpha=node.get_float("alpha", 1.0))]


@rule("Selu")
def selu(node: Node) -> Operators:
    alpha, gamma = node.get_float("alpha", 1.6732632423543772), node.get_float("gamma", 1.0507009873554805)
    return [node.to("Selu", alpha=alpha, scale=gamma)]


@rule("HardSigmoid")
def hard_sigmoid(node: Node) -> Operators:
    return [node.to("HardSigmoid", alpha=node.get_float("alpha", 0.2), beta=node.get_float("beta", 0.5))]


@rule("PRelu")
def p_relu(node: Node) -> Operators:
    """Caffe2's slope is one number or one per channel: shape (1), or (C) over dimension 1."""
    slope, rank = node.value(1), node.rank(0)
    if slope is None or rank is None or slope.ndim > rank:
        return [node.as_onnx()]
    dims = [1] * (rank - slope.ndim) + list(slope.shape)
    if slope.size != 1 and (rank < 2 or slope.size != dims[1]):
        return [node.as_onnx()]
    return [node.to("PRelu", [node.input(0), node.constant("slope", slope.reshape(-1))])]


@rule("ChannelwisePRelu")
def channelwise_p_relu(node: Node) -> Operators:
    return [node.to("PRelu")]


@rule("Clip")
def clip(node: Node) -> Operators:
    """Caffe2's bounds are arguments."""
    if not node.has(1) and not node.has(2):
        return node.alias(0, node.input(0))
    least, most = (node.constant_scalar(index) for index in (1, 2))
    given = [bound for index, bound in ((1, least), (2, most)) if node.has(index)]
    if any(bound is None or bound.dtype != np.float32 for bound in given):
        return [node.as_onnx()]
    return [node.to("Clip", [node.input(0)], min=least, max=most)]
