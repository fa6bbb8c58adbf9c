"""Nodes that run inner graphs."""

from __future__ import annotations

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule


@rule("If")
def if_(node: Node) -> Operators:
    """Caffe2's If; if the condition is constant, only the branch is kept."""
    condition = node.constant_scalar(0)
    if condition is None:
        branches = node.get_graph("then_branch"), node.get_graph("else_branch")
        for name, blobs in zip(node.outputs, zip(*(branch.external_output for branch in branches))):
            dtypes, dims = [node.net.dtype(blob) for blob in blobs], [node.net.dims(blob) for blob in blobs]
            if dtypes[0] is not None and dtypes[0] == dtypes[1]:
                node.net.hint(name, dtypes[0], dims[0] if dims[0] == dims[1] else None)
        return [node.to("If", then_net=branches[0], else_net=branches[1])]
    for index, blob in enumerate(node.inline("then_branch" if condition else "else_branch")):
        node.alias(index, blob)
    return []
