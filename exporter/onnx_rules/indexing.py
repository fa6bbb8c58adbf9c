"""Elements picked by index or condition."""

from __future__ import annotations

from exporter.onnx_node import Node, Operators
from exporter.onnx_rules import rule


@rule("TopK")
def top_k(node: Node) -> Operators:
    """Caffe2's are the largest, in order."""
    count = node.constant_scalar(1)
    if count is None or not node.get_int("largest", 1) or not node.get_int("sorted", 1):
        return [node.as_onnx()]
    axis, rank = node.get_int("axis", -1), node.rank(0)
    return [node.to("TopK", [node.input(0)], k=int(count), axis=axis + rank if rank is not None and axis < 0 else axis)]


@rule("Where")
def where(node: Node) -> Operators:
    """Caffe2's take inputs of one shape."""
    dims = [node.dims(index) for index in range(3)]
    same = dims[0] is not None and None not in dims[0] and dims[0] == dims[1] == dims[2]
    return [node.to("Where") if same else node.as_onnx()]


@rule("Gather")
def gather(node: Node) -> Operators:
    """Caffe2's wraps negative indices by itself along dimension 0 alone."""
    axis = node.get_int("axis", 0)
    return [node.to("Gather", axis=axis or None, wrap_indices=1 if axis else None)]
