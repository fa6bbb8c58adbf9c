"""Pools."""

from __future__ import annotations

from typing import List

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule
from exporter.onnx.rules.convolution import window

CAFFE_POOLING = 3  # Caffe2's legacy_pad


@rule("MaxPool", "AveragePool")
def pool(node: Node) -> Operators:
    """Caffe2's pools take floats, have no dilation or indices, average inside the image and round up as Caffe does."""
    beyond = node.get_int("count_include_pad", 0) or node.wants(1) or node.holds_integers(0)
    arguments = window(node, node.get_ints("kernel_shape"))
    if arguments is None or beyond or "dilations" in arguments:
        return [node.as_onnx()]
    if node.get_int("ceil_mode", 0):
        if "auto_pad" in node.attributes or not _caffe_rounds_alike(**arguments):
            return [node.as_onnx()]
        arguments["legacy_pad"] = CAFFE_POOLING
    return [node.to(node.type, **arguments)]


def _caffe_rounds_alike(kernels: List[int], strides: List[int], pads: List[int]) -> bool:
    """Caffe pads both ends alike, and drops a window that would start beyond the image only if there is padding."""
    heads, tails = pads[: len(kernels)], pads[len(kernels) :]
    return heads == tails and all(head or stride <= kernel for head, stride, kernel in zip(heads, strides, kernels))


@rule("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node) -> Operators:
    return [node.to(node.type[len("Global") :], global_pooling=1)]
