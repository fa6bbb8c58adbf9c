"""Matrix products."""

from __future__ import annotations

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule
from exporter.onnx.rules.blocks import product_by_blocks


@rule("MatMul")
def mat_mul(node: Node) -> Operators:
    """Caffe2's MatMul multiplies matrices of floats, its BatchMatMul stacks of such matrices."""
    if node.holds_integers(0):
        return [node.as_onnx()]
    blocks = product_by_blocks(node, along=0)
    if blocks is not None:
        return [blocks]
    ranks = [node.rank(index) for index in (0, 1)]
    if ranks == [2, 2]:
        return [node.to("MatMul")]
    stacks = all(rank is not None and rank >= 2 for rank in ranks)
    return [node.to("BatchMatMul", broadcast=1) if stacks else node.as_onnx()]


@rule("Gemm")
def gemm(node: Node) -> Operators:
    """A fully connected layer: Y = X W + b with one bias per column."""
    plain = node.get_float("alpha", 1.0) == node.get_float("beta", 1.0) == 1.0 and not node.get_int("transA", 0)
    if not plain or node.holds_integers(0) or not node.has(2) or node.rank(2) != 1 or node.dims(2) in ((1,), (None,)):
        return [node.as_onnx()]
    transposed = node.get_int("transB", 0)
    blocks = product_by_blocks(node, along=1 if transposed else 0)
    if blocks is not None:
        return [blocks.replace(input=(*blocks.input, *[""] * (5 - len(blocks.input)), node.input(2)))]
    return [node.to("FC" if transposed else "FCTransposed")]
