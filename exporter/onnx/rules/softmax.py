"""Softmax and its relatives. Before opset 13 they flattened their input to a matrix, as Caffe2's still do."""

from __future__ import annotations

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule


@rule("Softmax")
def softmax(node: Node) -> Operators:
    """Over the last dimension Caffe2's and ONNX's agree."""
    rank, axis = node.rank(0), node.get_int("axis", -1)
    if axis != -1 and axis + 1 != rank:
        return [node.as_onnx()]
    return [node.to("Softmax", axis=axis if rank is None else rank - 1)]


@rule("FlatteningSoftmax")
def flattening_softmax(node: Node) -> Operators:
    rank, axis = node.rank(0), node.get_int("axis", 1)
    dtype = node.dtype_of_input(0)
    if dtype is not None and dtype.name != "float32":
        return of_rows(node)
    return [node.to("Softmax", axis=axis + rank if rank is not None and axis < 0 else axis)]


@rule("FlatteningLogSoftmax", "FlatteningHardmax")
def of_rows(node: Node) -> Operators:
    """Flattened and reshaped back, unless the rows are the last dimension anyway."""
    newest = node.replace(type=node.type[len("Flattening") :])
    rank, axis = node.rank(0), node.get_int("axis", 1)
    if axis == -1 or axis + 1 == rank:
        return [newest.as_onnx(axis=-1)]
    rows, result = node.fresh("rows"), node.fresh("of_rows")
    flatten = node.replace(type="Flatten", outputs=(rows,)).as_onnx(axis=axis)
    if rank is not None or axis >= 0:
        flatten = node.to("Flatten", outputs=[rows], axis=axis + rank if rank is not None and axis < 0 else axis)
    of_flat = newest.replace(inputs=(rows,), outputs=(result,)).as_onnx(axis=-1)
    return [flatten, of_flat, node.to("ResizeLike", [result, node.input(0)])]
