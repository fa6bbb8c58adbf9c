"""How TFLite's operators are said in the operators of ``runtime_arm``: one function each, by family.

    @rule("NEG")
    def neg(node: Node) -> None:
        node.add("Negative", [node.input(0)], [node.output()])

A rule adds the operators that compute the node's outputs. ``@rule`` is for floats and plain integers; ``any_type=True``
says that the rule only moves elements about and so serves quantised tensors as well; ``@quantised_rule`` is for those
alone. What neither Caffe2 nor ONNX has is an operator of the domain "tflite".
"""

from __future__ import annotations

from importlib import import_module
from typing import Callable, Dict, Set

from exporter.tflite_node import Node
from runtime_arm.errors import ExportError

Rule = Callable[[Node], None]

FAMILIES = ("activation", "arithmetic", "control", "convolution", "custom", "fills", "indexing", "layout", "linear",
            "normalization", "parts", "pooling", "quantisation", "quantised_elementwise", "quantised_layers",
            "quantised_layout", "recurrent", "reduction", "resize", "signal", "softmax", "space", "transposed")
_RULES: Dict[str, Rule] = {}
_QUANTISED_RULES: Dict[str, Rule] = {}
_ANY_TYPE: Set[str] = set()
_COMPLEX: Set[str] = set()
MISSING = "armnet has no such operator; `armnet support` lists every operator that a model lacks"


def rule(*types: str, any_type: bool = False, complex: bool = False) -> Callable[[Rule], Rule]:
    """Decorator: the translation of these operators. complex: it knows how complex tensors are held, see ``signal``."""

    def register(function: Rule) -> Rule:
        for type in types:
            _add(_RULES, type, function)
            if any_type:
                _ANY_TYPE.add(type)
            if complex:
                _COMPLEX.add(type)
        return function

    return register


def quantised_rule(*types: str) -> Callable[[Rule], Rule]:
    """Decorator: the translation of these operators where they work on quantised tensors."""

    def register(function: Rule) -> Rule:
        for type in types:
            _add(_QUANTISED_RULES, type, function)
        return function

    return register


def custom_type(name: str) -> str:
    """The type under which the rule of a custom operator is registered."""
    return f"CUSTOM {name}"


def find_rule(node: Node) -> Rule:
    """The rule for a node. ExportError if there is none."""
    if not _RULES:
        for family in FAMILIES:
            import_module(f"exporter.tflite_rules.{family}")
    operation = node.operation
    type = custom_type(operation.custom) if operation.type == "CUSTOM" else operation.type
    if not node.is_quantised:
        found = _RULES.get(type)
    else:
        found = _QUANTISED_RULES.get(type) or (_RULES.get(type) if type in _ANY_TYPE else None)
        if found is None and type in _RULES:
            raise ExportError(f"armnet has {type} for floats, not for quantised tensors")
    if found is None:
        raise ExportError(MISSING)
    if node.is_complex and type not in _COMPLEX:
        raise ExportError(f"armnet has {type} for real numbers, not for complex ones")
    return found


def _add(rules: Dict[str, Rule], type: str, function: Rule) -> None:
    if type in rules:
        raise RuntimeError(f"two rules for {type}")
    rules[type] = function
