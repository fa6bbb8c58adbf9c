"""Tabular models, domain ai.onnx.ml: operators that the runtime does not have as they are."""

from __future__ import annotations

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule


@rule("ai.onnx.ml.ZipMap")
def zip_map(node: Node) -> Operators:
    """The scores stay a matrix, (N, classes), with columns in the order of the labels; the pair has no maps."""
    return [node.to("Copy")]
