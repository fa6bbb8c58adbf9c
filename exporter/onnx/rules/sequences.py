"""Sequences and optional values."""

from __future__ import annotations

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule


@rule("Optional")
def optional(node: Node) -> Operators:
    return [node.replace(attributes={}).as_onnx()]
