"""onnxruntime's own operators that can be expressed by ONNX's; they occur in files that onnxruntime has optimised.

    @defines("BiasGelu", "A B", "C")
    def bias_gelu(node: Node) -> Nodes:
        return [make("Add", ["A", "B"], ["sum"]), make("Gelu", ["sum"], ["C"])]

A definition returns nodes of ONNX's opset ``OPSET``, and of onnxruntime's domain, over the formal names of the
operator's schema. ``node`` says which inputs and attributes the model gives. Source: onnxruntime's ContribOperators.md.
"""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from exporter.onnx.making import make
from exporter.onnx.node import Node
from exporter.onnx.protos import NodeProto

DOMAIN = "com.microsoft"
OPSET = 23

Nodes = List[NodeProto]
Define = Callable[[Node], Nodes]


class Definition(NamedTuple):
    """The formal inputs and outputs of an operator and the nodes that compute it."""

    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    nodes: Nodes


_DEFINITIONS: Dict[Tuple[str, str], Tuple[Tuple[str, ...], Tuple[str, ...], Define]] = {}


def definition(node: Node) -> Optional[Definition]:
    """The definition of onnxruntime's node, or None if it is not such an operator."""
    if (node.domain, node.type) not in _DEFINITIONS:
        return None
    inputs, outputs, define = _DEFINITIONS[node.domain, node.type]
    return Definition(inputs, outputs, define(node))


def defines(type: str, inputs: str, outputs: str, domain: str = DOMAIN) -> Callable[[Define], Define]:
    """Decorator: the definition of an operator, whose schema names these inputs and outputs in order."""

    def register(define: Define) -> Define:
        _DEFINITIONS[domain, type] = tuple(inputs.split()), tuple(outputs.split()), define
        return define

    return register


def number(name: str, value: float) -> NodeProto:
    """A constant float."""
    return make("Constant", [], [name], value_float=value)


def given(node: Node, names: Sequence[str]) -> List[str]:
    """The formal names; empty for inputs that the node leaves out."""
    return [name if node.has(index) else "" for index, name in enumerate(names)]


def added(node: Node, terms: Sequence[Tuple[int, str]], output: str) -> Nodes:
    """``output`` = the sum of the terms (index, formal name) that the node gives; the index -1 is always given."""
    names = [name for index, name in terms if index < 0 or node.has(index)]
    sums = [f"{output}_{i}" for i in range(len(names) - 2)] + [output]
    if len(names) == 1:
        return [make("Identity", names, [output])]
    nodes, left = [], names[0]
    for right, total in zip(names[1:], sums):
        nodes.append(make("Add", [left, right], [total]))
        left = total
    return nodes


def integers(name: str, *values: int) -> NodeProto:
    """A constant vector of integers."""
    return make("Constant", [], [name], value_ints=list(values))
