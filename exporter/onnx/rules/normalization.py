"""Normalisation with given statistics or with those of each instance."""

from __future__ import annotations

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule


@rule("BatchNormalization")
def batch_normalization(node: Node) -> Operators:
    if node.get_int("training_mode", 0):
        return [node.as_onnx()]
    return [node.to("SpatialBN", outputs=node.outputs[:1], is_test=1, epsilon=node.get_float("epsilon", 1e-5))]


@rule("InstanceNormalization")
def instance_normalization(node: Node) -> Operators:
    return [node.to("InstanceNorm", epsilon=node.get_float("epsilon", 1e-5))]


@rule("LRN")
def local_response_normalization(node: Node) -> Operators:
    return [
        node.to(
            "LRN",
            size=node.get_int("size"),
            alpha=node.get_float("alpha", 1e-4),
            beta=node.get_float("beta", 0.75),
            bias=node.get_float("bias", 1.0),
        )
    ]
