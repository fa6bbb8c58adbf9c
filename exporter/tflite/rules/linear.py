"""Matrix products."""

from __future__ import annotations

from typing import List

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import rule
from exporter.tflite.rules.convolution import bias, is_hybrid, signed_weights, weight_scales
from runtime_arm.errors import ExportError


@rule("FULLY_CONNECTED")
def fully_connected(node: Node) -> None:
    """Y = X W^T + b, X as rows of the weights' length; with ``keep_num_dims`` Y keeps all dimensions but the last."""
    if node.option("weights_format") != 0:
        raise ExportError("shuffled weights are not supported")
    rows, length = node.known_dims(1, rank=2)
    rank, dims = node.rank(0), node.dims(0)
    keeps = bool(node.option("keep_num_dims", False))
    x = node.input(0)
    if not dims or dims[-1] != length or (len(dims) != 2 and not keeps):
        x, rank = _as_rows(node, length), 2
    if is_hybrid(node, 1, old=True):
        return _hybrid(node, x)
    offset = node.input(2) if node.has(2) else node.constant("bias", np.zeros(rows, np.float32))
    with node.activated() as output:
        node.add("FC", [x, node.input(1), offset], [output], axis=None if rank == 2 else (rank or 2) - 1)


def _hybrid(node: Node, x: str) -> None:
    asymmetric = int(node.option("asymmetric_quantize_inputs", False))
    with node.activated() as output:
        node.add(
            "HybridFullyConnected",
            [x, signed_weights(node, 1), *bias(node, 2)],
            [output],
            domain="tflite",
            W_scales=weight_scales(node, 1),
            asymmetric=asymmetric,
        )


def _as_rows(node: Node, length: int) -> str:
    rows = node.between("rows")
    node.add("Reshape", [node.input(0)], [rows, node.between("old_shape")], shape=[-1, length])
    return rows


@rule("BATCH_MATMUL")
def batch_matmul(node: Node) -> None:
    """Stacks of matrices; 8-bit weights are combined with floats as in fully connected layers."""
    if node.dtype(0).kind == "f" and is_hybrid(node, 1):
        return _hybrid_matmul(node)
    node.add("MatMul", factors(node), [node.output()], domain="onnx")


def factors(node: Node) -> List[str]:
    """The two stacks of matrices, transposed if the options say so."""
    sides = []
    for index, option in ((0, "adj_x"), (1, "adj_y")):
        rank = node.known_rank(index)
        side = node.input(index)
        if node.option(option, False):
            turned = node.between(option)
            node.add("Transpose", [side], [turned], axes=[*range(rank - 2), rank - 1, rank - 2])
            side = turned
        sides.append(side)
    return sides


def _hybrid_matmul(node: Node) -> None:
    value = node.constant_value(1, "8-bit factors")
    if value.ndim < 2 or value.size != value.shape[-1] * value.shape[-2] or node.option("adj_x", False):
        raise ExportError("8-bit factors must be one matrix, and the other factor not transposed")
    matrix = value.reshape(value.shape[-2:])
    weights = np.ascontiguousarray(matrix if node.option("adj_y", False) else matrix.T)
    node.add(
        "HybridFullyConnected",
        [node.input(0), node.constant("weights", weights)],
        [node.output()],
        domain="tflite",
        W_scales=weight_scales(node, 1),
        asymmetric=int(node.option("asymmetric_quantize_inputs", False)),
    )
