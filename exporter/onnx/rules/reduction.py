"""Reductions over dimensions."""

from __future__ import annotations

from typing import List, Optional

from exporter.common.open_shapes import Dims
from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule


def from_the_front(axes: Optional[List[int]], rank: Optional[int]) -> Optional[List[int]]:
    """The axes as non-negative numbers; None if that needs an unknown rank, or if one is out of range."""
    if axes is None or (rank is None and any(axis < 0 for axis in axes)):
        return None
    if rank is not None and any(not -rank <= axis < rank for axis in axes):
        return None
    return [axis + (rank or 0) if axis < 0 else axis for axis in axes]


def has_elements(dims: Optional[Dims], axes: List[int]) -> bool:
    """Whether there is certainly an element along the axes; no axes mean all of them."""
    return dims is not None and all(-len(dims) <= axis < len(dims) and dims[axis] for axis in axes or range(len(dims)))


@rule("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum")
def reduce(node: Node) -> Operators:
    """Caffe2's axes are arguments; none mean all. The maximum of nothing is finite in Caffe2, -infinity in ONNX."""
    axes = from_the_front(node.constant_ints(1) if node.has(1) else [], node.rank(0))
    if axes is None or (not axes and node.get_int("noop_with_empty_axes", 0)):
        return [node.as_onnx()]
    if node.type in ("ReduceMax", "ReduceMin") and not (node.caffe2_compatible or has_elements(node.dims(0), axes)):
        return [node.as_onnx()]
    return [node.to(node.type, [node.input(0)], axes=sorted(axes) or None, keepdims=node.get_int("keepdims", 1))]


@rule("ArgMax", "ArgMin")
def position(node: Node) -> Operators:
    """If there are no elements, Caffe2's position is 0, and ONNX has none."""
    axes = from_the_front([node.get_int("axis", 0)], node.rank(0))
    if axes is None or node.get_int("select_last_index", 0):
        return [node.as_onnx()]
    if not (node.caffe2_compatible or has_elements(node.dims(0), axes)):
        return [node.as_onnx()]
    return [node.to(node.type, axis=axes[0], keepdims=node.get_int("keepdims", 1))]
