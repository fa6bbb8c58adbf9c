"""onnxruntime's own operators that ONNX's can express; they occur in files that onnxruntime has optimised.

    @defines("BiasGelu", "A B", "C")
    def bias_gelu(node: Node) -> Nodes:
        return [make("Add", ["A", "B"], ["sum"]), make("Gelu", ["sum"], ["C"])]

A definition returns nodes of ONNX's opset ``OPSET`` over the formal names of the operator's schema. ``node`` says which
inputs and attributes the model gives. Source: onnxruntime's ContribOperators.md.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from onnx import NodeProto, helper

from exporter.onnx.node import Node
from runtime_arm.errors import ExportError

DOMAIN = "com.microsoft"
OPSET = 21

Nodes = List[NodeProto]
Define = Callable[[Node], Nodes]


class Definition(NamedTuple):
    """The formal inputs and outputs of an operator and the nodes that compute it."""

    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    nodes: Nodes


_DEFINITIONS: Dict[str, Tuple[Tuple[str, ...], Tuple[str, ...], Define]] = {}


def definition(node: Node) -> Optional[Definition]:
    """What a node of onnxruntime's domain stands for, or None if it is no such operator."""
    if node.domain != DOMAIN or node.type not in _DEFINITIONS:
        return None
    inputs, outputs, define = _DEFINITIONS[node.type]
    return Definition(inputs, outputs, define(node))


def defines(type: str, inputs: str, outputs: str) -> Callable[[Define], Define]:
    """Decorator: the definition of an operator, whose schema names these inputs and outputs in order."""

    def register(define: Define) -> Define:
        _DEFINITIONS[type] = tuple(inputs.split()), tuple(outputs.split()), define
        return define

    return register


def make(type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> NodeProto:
    """A node of ONNX's domain; attributes that are None are left out."""
    return helper.make_node(type, list(inputs), list(outputs), **{k: v for k, v in attributes.items() if v is not None})


def _number(name: str, value: float) -> NodeProto:
    return make("Constant", [], [name], value_float=value)


def _given(node: Node, names: Sequence[str]) -> List[str]:
    """The formal names; empty for inputs that the node leaves out."""
    return [name if node.has(index) else "" for index, name in enumerate(names)]


def _added(node: Node, terms: Sequence[Tuple[int, str]], output: str) -> Nodes:
    """``output`` = the sum of the terms (index, formal name) that the node gives."""
    names = [name for index, name in terms if node.has(index)]
    sums = [f"{output}_{i}" for i in range(len(names) - 2)] + [output]
    if len(names) == 1:
        return [make("Identity", names, [output])]
    nodes, left = [], names[0]
    for right, total in zip(names[1:], sums):
        nodes.append(make("Add", [left, right], [total]))
        left = total
    return nodes


# Gelu and its approximations


@defines("Gelu", "X", "Y")
def gelu(node: Node) -> Nodes:
    return [make("Gelu", ["X"], ["Y"])]


@defines("BiasGelu", "A B", "C")
def bias_gelu(node: Node) -> Nodes:
    return [make("Add", ["A", "B"], ["sum"]), make("Gelu", ["sum"], ["C"])]


@defines("FastGelu", "X bias", "Y")
def fast_gelu(node: Node) -> Nodes:
    return [*_added(node, [(0, "X"), (1, "bias")], "sum"), make("Gelu", ["sum"], ["Y"], approximate="tanh")]


@defines("QuickGelu", "X", "Y")
def quick_gelu(node: Node) -> Nodes:
    """Y = X * sigmoid(alpha * X)."""
    return [
        _number("alpha", node.get_float("alpha", 1.702)),
        make("Mul", ["X", "alpha"], ["scaled"]),
        make("Sigmoid", ["scaled"], ["gate"]),
        make("Mul", ["X", "gate"], ["Y"]),
    ]


# Products and convolutions with the operators that follow them


def _activated(activation: str, parameters: Sequence[float], x: str, y: str) -> Nodes:
    """Y = activation(X); the parameters are the activation's attributes in the order of their names."""
    names = {"LeakyRelu": ["alpha"], "Elu": ["alpha"], "HardSigmoid": ["alpha", "beta"]}.get(activation, [])
    if activation == "Clip":
        least, most = parameters
        return [_number("least", least), _number("most", most), make("Clip", [x, "least", "most"], [y])]
    if activation not in ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "HardSigmoid", "Softplus", "Softsign"):
        raise ExportError(f"the activation {activation!r} is not known")
    return [make(activation, [x], [y], **dict(zip(names, parameters)))]


@defines("FusedConv", "X W B Z", "Y")
def fused_conv(node: Node) -> Nodes:
    """Y = activation(Conv(X, W, B) + Z)."""
    attributes = node.without("activation", "activation_params")
    nodes = [make("Conv", _given(node, ["X", "W", "B"]), ["convolved"], **attributes)]
    nodes += [make("Add", ["convolved", "Z"], ["sum"])] if node.has(3) else []
    last, activation = nodes[-1].output[0], node.get_str("activation", "")
    if not activation:
        return [*nodes, make("Identity", [last], ["Y"])]
    return [*nodes, *_activated(activation, node.attributes.get("activation_params", ()), last, "Y")]


@defines("FusedGemm", "A B C", "Y")
def fused_gemm(node: Node) -> Nodes:
    """Y = activation(Gemm(A, B, C))."""
    names = ["activation_alpha", "activation_beta", "activation_gamma"]
    parameters = [node.get_float(name) for name in names if name in node.attributes]
    product = make("Gemm", _given(node, ["A", "B", "C"]), ["product"], **node.without("activation", *names))
    return [product, *_activated(node.get_str("activation", "Relu"), parameters, "product", "Y")]


def _turned(node: Node, index: int, name: str, turned: str) -> Nodes:
    """A factor of FusedMatMul: the batch dimension moved behind the other leading ones, then the last two swapped."""
    side = "AB"[index]
    rows_first, swapped = node.get_int(f"transBatch{side}", 0), node.get_int(f"trans{side}", 0)
    rank = node.rank(index)
    if not (rows_first or swapped) or rank == 1:  # a vector stays as it is
        return [make("Identity", [name], [turned])]
    if rank is None:
        raise ExportError(f"the number of dimensions of input {index} must be known")
    order = [*range(1, rank - 1), 0, rank - 1] if rows_first else list(range(rank))
    return [make("Transpose", [name], [turned], perm=[*order[:-2], order[-1], order[-2]] if swapped else order)]


@defines("FusedMatMul", "A B", "Y")
@defines("TransposeMatMul", "A B", "Y")
def fused_mat_mul(node: Node) -> Nodes:
    """Y = alpha * matmul(A, B), with transposed factors."""
    factors = [*_turned(node, 0, "A", "left"), *_turned(node, 1, "B", "right")]
    alpha = node.get_float("alpha", 1.0)
    if alpha == 1:
        return [*factors, make("MatMul", ["left", "right"], ["Y"])]
    return [
        *factors,
        make("MatMul", ["left", "right"], ["product"]),
        _number("alpha", alpha),
        make("Mul", ["product", "alpha"], ["Y"]),
    ]


# Normalisation after a residual connection


@defines("SkipLayerNormalization", "input skip gamma beta bias", "output mean inv_std_var input_skip_bias_sum")
def skip_layer_normalization(node: Node) -> Nodes:
    """LayerNormalization of input + skip + bias; that sum is the fourth output."""
    total = _added(node, [(0, "input"), (1, "skip"), (4, "bias")], "input_skip_bias_sum")
    inputs = ["input_skip_bias_sum", "gamma", *(["beta"] if node.has(3) else [])]
    statistics = [name if node.wants(index) else "" for index, name in ((1, "mean"), (2, "inv_std_var"))]
    epsilon = node.get_float("epsilon", 1e-12)
    return [*total, make("LayerNormalization", inputs, ["output", *statistics], epsilon=epsilon)]


# Images with their channels last


def _channels_first(type: str, parameters: Sequence[str], rank: int, attributes: Mapping[str, Any]) -> Nodes:
    """y = ONNX's operator of this type on x and its parameters, between two transpositions."""
    first, last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    return [
        make("Transpose", ["x"], ["first"], perm=first),
        make(type, ["first", *parameters], ["result"], **attributes),
        make("Transpose", ["result"], ["y"], perm=last),
    ]


@defines("QLinearConv", "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B", "y")
def qlinear_conv(node: Node) -> Nodes:
    """ONNX's, or on (N, *image, C) with ``channels_last``; the weights are (M, C / group, *kernel) in both."""
    names = ["x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point"]
    names += ["B"] if node.has(8) else []
    attributes, rank = node.without("channels_last"), node.rank(3)
    if not node.get_int("channels_last", 0):
        return [make("QLinearConv", ["x", *names], ["y"], **attributes)]
    if rank is None:
        raise ExportError("the number of dimensions of the weights must be known")
    return _channels_first("QLinearConv", names, rank, attributes)


@defines("NhwcMaxPool", "x", "y")
def nhwc_max_pool(node: Node) -> Nodes:
    """MaxPool of (N, *image, C)."""
    return _channels_first("MaxPool", [], len(node.get_ints("kernel_shape")) + 2, node.attributes)
