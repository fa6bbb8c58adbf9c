"""Images with their channels last."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from exporter.onnx.making import make
from exporter.onnx.microsoft.definitions import Nodes, defines
from exporter.onnx.node import Node
from runtime_arm.errors import ExportError


def _channels_first(type: str, parameters: Sequence[str], rank: int, attributes: Mapping[str, Any]) -> Nodes:
    """y = ONNX's operator of this type on x and its parameters, between two transpositions."""
    first, last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    return [
        make("Transpose", ["x"], ["first"], perm=first),
        make(type, ["first", *parameters], ["result"], **attributes),
        make("Transpose", ["result"], ["y"], perm=last),
    ]


@defines("QLinearConv", "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B", "y")
def qlinear_conv(node: Node) -> Nodes:
    """ONNX's, or on (N, *image, C) with ``channels_last``; the weights are (M, C / group, *kernel) in both."""
    names = ["x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point"]
    names += ["B"] if node.has(8) else []
    attributes, rank = node.without("channels_last"), node.rank(3)
    if not node.get_int("channels_last", 0):
        return [make("QLinearConv", ["x", *names], ["y"], **attributes)]
    if rank is None:
        raise ExportError("the number of dimensions of the weights must be known")
    return _channels_first("QLinearConv", names, rank, attributes)


@defines("NhwcMaxPool", "x", "y")
def nhwc_max_pool(node: Node) -> Nodes:
    """MaxPool of (N, *image, C)."""
    return _channels_first("MaxPool", [], len(node.get_ints("kernel_shape")) + 2, node.attributes)
