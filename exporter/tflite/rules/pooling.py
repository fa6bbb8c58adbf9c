"""Pools over pictures."""

from __future__ import annotations

from exporter.tflite.node import Node
from exporter.tflite.rules import rule
from exporter.tflite.rules.convolution import padding, positive


def pooled(node: Node, type: str, source: str, target: str) -> None:
    """The node's windows over a picture with its channels first."""
    kernel = [positive(node, "filter_height"), positive(node, "filter_width")]
    strides = [positive(node, "stride_h"), positive(node, "stride_w")]
    node.add(type, [source], [target], kernels=kernel, strides=strides, **padding(node, 0, kernel, strides, [1, 1]))


@rule("AVERAGE_POOL_2D")
def average_pool_2d(node: Node) -> None:
    """Padding does not count."""
    with node.activated(channels_first=True) as output:
        pooled(node, "AveragePool", node.input(0, channels_first=True), output)


@rule("MAX_POOL_2D")
def max_pool_2d(node: Node) -> None:
    with node.activated(channels_first=True) as output:
        pooled(node, "MaxPool", node.input(0, channels_first=True), output)
