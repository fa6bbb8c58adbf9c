"""Nodes that run inner graphs."""

from __future__ import annotations

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule


@rule("If")
def if_(node: Node) -> Operators:
    """Caffe2's If; if the condition is constant, only the branch is kept."""
    condition = node.constant_scalar(0)
    if condition is None:
        return [node.to("If", then_net=node.get_graph("then_branch"), else_net=node.get_graph("else_branch"))]
    for index, blob in enumerate(node.inline("then_branch" if condition else "else_branch")):
        node.alias(index, blob)
    return []
