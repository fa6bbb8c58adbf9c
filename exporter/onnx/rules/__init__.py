"""Translates ONNX operators into the operators of ``runtime_arm``: one rule each, by family.

    @rule("LeakyRelu")
    def leaky_relu(node: Node) -> Operators:
        return [node.to("LeakyRelu", alpha=node.get_float("alpha", 0.01))]

A rule takes the node in the form of the newest opset (``exporter.onnx.upgrade``) and returns the operators that compute
its outputs. A node without a rule becomes the operator of the same name in the domain "onnx"; so does a node whose rule
returns a single Caffe2 operator that refuses the node's inputs.
"""

from __future__ import annotations

from typing import Callable, Optional

from exporter.common.rules import Rules
from exporter.onnx.node import Node, Operators

Rule = Callable[[Node], Operators]

FAMILIES = (
    "activation",
    "arithmetic",
    "blocks",
    "control",
    "conversion",
    "convolution",
    "indexing",
    "layout",
    "linear",
    "ml",
    "normalization",
    "pooling",
    "reduction",
    "resize",
    "softmax",
    "training",
)
_RULES: Rules[Rule] = Rules(__name__, FAMILIES)
rule = _RULES.rule


def find_rule(node: Node) -> Optional[Rule]:
    """The rule for a node, or None. One for a domain other than ONNX's own is declared by "DOMAIN.TYPE"."""
    return _RULES.find(f"{node.domain}.{node.type}" if node.domain else node.type)
