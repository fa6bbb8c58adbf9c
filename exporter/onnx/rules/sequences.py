"""Sequences and optional values."""

from __future__ import annotations

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule


@rule("Optional")
def optional(node: Node) -> Operators:
    return [node.replace(attributes={}).as_onnx()]


@rule("OptionalHasElement")
def optional_has_element(node: Node) -> Operators:
    """An input that is left out is no element."""
    return [node.as_onnx()] if node.has(0) else node.define(False)
