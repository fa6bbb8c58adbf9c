"""Reductions over dimensions, and cumulative sums."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np

from exporter.tflite.node import Node, domain_for
from exporter.tflite.rules import rule
from exporter.tflite.rules.layout import only_integer
from runtime_arm.errors import ExportError
from runtime_arm.netdef.dtypes import BOOL, UINT8

_REDUCTIONS = {
    "MEAN": "ReduceMean",
    "SUM": "ReduceSum",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd",
}
_LOGIC = {"REDUCE_ALL": "ReduceMin", "REDUCE_ANY": "ReduceMax"}  # of bits


@rule(*_REDUCTIONS, *_LOGIC)
def reduce(node: Node) -> None:
    first, axes = _in_some_layout(node)
    source = node.input(0, first)
    if not axes:
        return node.alias(0, source, first)
    output = node.output(0, first and keeps(node))
    if node.type in _REDUCTIONS:
        type = _REDUCTIONS[node.type]
        return _add(node, type, source, output, axes, domain_for(type, node.dtype(0)))
    bits, reduced = node.between("bits"), node.between("reduced")
    node.add("Cast", [source], [bits], domain="onnx", to=UINT8)
    _add(node, _LOGIC[node.type], bits, reduced, axes, "onnx")
    node.add("Cast", [reduced], [output], domain="onnx", to=BOOL)


def _add(node: Node, type: str, source: str, output: str, axes: List[int], domain: str) -> None:
    """Caffe2 takes the axes as an argument, ONNX as an input."""
    if not domain:
        return node.add(type, [source], [output], axes=axes, keepdims=int(keeps(node)))
    names = [source, node.constant("axes", np.array(axes, np.int64))]
    node.add(type, names, [output], domain=domain, keepdims=int(keeps(node)))


def keeps(node: Node) -> bool:
    """Whether reduced dimensions are kept with size 1."""
    return bool(node.option("keep_dims", False))


def axes_of(node: Node) -> List[int]:
    """The axes in the source's order."""
    given = node.constant_integers(1)
    if given is None:
        raise ExportError("the axes must be constant")
    rank = node.known_rank(0)
    return sorted({node.axis(axis, False, rank) for axis in given})


def _in_some_layout(node: Node) -> Tuple[bool, List[int]]:
    """The axes in the layout to reduce in, and whether that is channels first."""
    rank, axes = node.known_rank(0), axes_of(node)
    first = node.is_channels_first(0) and (keeps(node) or _same_order(rank, axes))
    return first, sorted(node.axis(axis, first, rank) for axis in axes)


def _same_order(rank: int, axes: List[int]) -> bool:
    """Whether the remaining dimensions have the same order in both layouts."""
    left = [axis for axis in range(rank) if axis not in axes]
    return rank - 1 not in left or all(axis in (0, rank - 1) for axis in left)


@rule("CUMSUM")
def cumsum(node: Node) -> None:
    axis = node.axis(only_integer(node.constant_integers(1), "the axis"), False, node.known_rank(0))
    node.add(
        "CumSum",
        [node.input(0), node.constant("axis", np.array(axis, np.int64))],
        [node.output()],
        domain="onnx",
        exclusive=int(node.option("exclusive")),
        reverse=int(node.option("reverse")),
    )
