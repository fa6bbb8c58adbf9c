"""Pools over pictures."""

from __future__ import annotations

from typing import Any

from exporter.tflite_node import Node
from exporter.tflite_rules import rule
from exporter.tflite_rules.convolution import padding, positive


def _pool(node: Node, type: str, **arguments: Any) -> None:
    kernel = [positive(node, "filter_height"), positive(node, "filter_width")]
    strides = [positive(node, "stride_h"), positive(node, "stride_w")]
    pads = padding(node, 0, kernel, strides, [1, 1])
    with node.activated(channels_first=True) as output:
        node.add(type, [node.input(0, channels_first=True)], [output], kernels=kernel, strides=strides, **pads,
                 **arguments)


@rule("AVERAGE_POOL_2D")
def average_pool_2d(node: Node) -> None:
    """Padding does not count."""
    _pool(node, "AveragePool")


@rule("MAX_POOL_2D")
def max_pool_2d(node: Node) -> None:
    _pool(node, "MaxPool")
