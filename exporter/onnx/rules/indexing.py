"""Selection of elements by index or condition."""

from __future__ import annotations

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule
from exporter.onnx.rules.reduction import has_elements


@rule("TopK")
def top_k(node: Node) -> Operators:
    """Caffe2's TopK gives the largest, in order. If there are fewer than k, it pads, where ONNX refuses."""
    count, axis, dims = node.constant_scalar(1), node.get_int("axis", -1), node.dims(0)
    length = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    enough = count is not None and (node.caffe2_compatible if length is None else count <= length)
    if not enough or not node.get_int("largest", 1) or not node.get_int("sorted", 1):
        return [node.as_onnx()]
    return [node.to("TopK", [node.input(0)], k=int(count), axis=axis % len(dims) if dims else axis)]


@rule("Where")
def where(node: Node) -> Operators:
    """Caffe2's Where takes inputs of one shape."""
    dims = [node.dims(index) for index in range(3)]
    same = dims[0] is not None and None not in dims[0] and dims[0] == dims[1] == dims[2]
    return [node.to("Where") if same else node.as_onnx()]


@rule("Gather")
def gather(node: Node) -> Operators:
    """Caffe2's Gather accepts negative indices only along dimension 0, and any where there are no elements."""
    axis = node.get_int("axis", 0)
    if not (node.caffe2_compatible or has_elements(node.dims(0), [axis])):
        return [node.as_onnx()]
    return [node.to("Gather", axis=axis or None, wrap_indices=1 if axis else None)]
