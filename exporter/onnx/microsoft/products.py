"""Products and convolutions with the operators that follow them."""

from __future__ import annotations

from typing import Any, Dict, Sequence

from exporter.onnx.making import make
from exporter.onnx.microsoft.definitions import Nodes, defines, given, number
from exporter.onnx.node import Node
from runtime_arm.errors import ExportError


def _activated(activation: str, parameters: Sequence[float], x: str, y: str) -> Nodes:
    """Y = activation(X); the parameters are the activation's attributes in the order of their names."""
    names = {"LeakyRelu": ["alpha"], "Elu": ["alpha"], "HardSigmoid": ["alpha", "beta"]}.get(activation, [])
    if activation == "Clip":
        least, most = parameters
        return [number("least", least), number("most", most), make("Clip", [x, "least", "most"], [y])]
    if activation not in ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "HardSigmoid", "Softplus", "Softsign"):
        raise ExportError(f"the activation {activation!r} is not known")
    attributes: Dict[str, Any] = dict(zip(names, parameters))
    return [make(activation, [x], [y], **attributes)]


@defines("FusedConv", "X W B Z", "Y")
def fused_conv(node: Node) -> Nodes:
    """Y = activation(Conv(X, W, B) + Z)."""
    attributes = node.without("activation", "activation_params")
    nodes = [make("Conv", given(node, ["X", "W", "B"]), ["convolved"], **attributes)]
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
    product = make("Gemm", given(node, ["A", "B", "C"]), ["product"], **node.without("activation", *names))
    return [product, *_activated(node.get_str("activation", "Relu"), parameters, "product", "Y")]


def _turned(node: Node, index: int, name: str, turned: str) -> Nodes:
    """A factor of FusedMatMul: the batch dimension moved after the other leading ones, then the last two swapped."""
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
        number("alpha", alpha),
        make("Mul", ["product", "alpha"], ["Y"]),
    ]
