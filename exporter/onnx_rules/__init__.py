"""How ONNX operators are said in the operators of ``runtime_arm``: one function each, by family.

    @rule("LeakyRelu")
    def leaky_relu(node: Node) -> Operators:
        return [node.to("LeakyRelu", alpha=node.get_float("alpha", 0.01))]

A rule is given the node in the form of the newest opset (``onnx_upgrade``) and returns the operators that compute its
outputs. A node without a rule stands for itself, in the domain "onnx"; so does one whose rule gives a single Caffe2
operator that refuses the node's inputs.
"""

from __future__ import annotations

from importlib import import_module
from typing import Callable, Dict, Optional

from exporter.onnx_node import Node, Operators

Rule = Callable[[Node], Operators]

FAMILIES = ("activation", "arithmetic", "control", "convolution", "indexing", "layout", "linear", "normalization",
            "pooling", "reduction", "resize", "softmax")
_RULES: Dict[str, Rule] = {}


def rule(*types: str) -> Callable[[Rule], Rule]:
    """Decorator: the translation of these ONNX operators."""

    def register(function: Rule) -> Rule:
        for type in types:
            if type in _RULES:
                raise RuntimeError(f"two rules for {type}")
            _RULES[type] = function
        return function

    return register


def find_rule(node: Node) -> Optional[Rule]:
    """The rule for a node of ONNX's own domain, or None."""
    if not _RULES:
        for family in FAMILIES:
            import_module(f"exporter.onnx_rules.{family}")
    return None if node.domain else _RULES.get(node.type)
