"""Translates TFLite's operators into the operators of ``runtime_arm``: one rule each, by family.

    @rule("NEG")
    def neg(node: Node) -> None:
        node.add("Negative", [node.input(0)], [node.output()])

A rule adds the operators that compute the node's outputs. ``@rule`` is for floats and plain integers; with
``any_type=True`` also for quantised tensors, because the rule only moves elements; ``@quantised_rule`` is for quantised
tensors only, ``@complex_rule`` for complex ones. Operators that neither Caffe2 nor ONNX has are in the domain "tflite".
"""

from __future__ import annotations

from typing import Callable, Set

from exporter.common.rules import MISSING, Rules
from exporter.tflite.node import Node
from runtime_arm.errors import ExportError

Rule = Callable[[Node], None]

FAMILIES = (
    "activation",
    "arithmetic",
    "control",
    "convolution",
    "custom.coral",
    "custom.detection",
    "custom.mediapipe",
    "custom.micro_signal",
    "fills",
    "indexing",
    "layout",
    "linear",
    "normalization",
    "pooling",
    "quantisation",
    "quantised_elementwise",
    "quantised_layers",
    "quantised_layout",
    "quantised_recurrent",
    "recurrent",
    "reduction",
    "resize",
    "signal",
    "slices",
    "softmax",
    "space",
    "transposed",
)
_RULES: Rules[Rule] = Rules(__name__, FAMILIES)
_QUANTISED_RULES: Rules[Rule] = Rules(__name__, FAMILIES)
_COMPLEX_RULES: Rules[Rule] = Rules(__name__, FAMILIES)
quantised_rule = _QUANTISED_RULES.rule
complex_rule = _COMPLEX_RULES.rule
_ANY_TYPE: Set[str] = set()
_COMPLEX: Set[str] = set()


def rule(*types: str, any_type: bool = False, complex: bool = False) -> Callable[[Rule], Rule]:
    """Decorator: the translation of these operators. complex: it serves complex tensors as it is, see ``signal``."""
    _ANY_TYPE.update(types if any_type else ())
    _COMPLEX.update(types if complex else ())
    return _RULES.rule(*types)


def custom_type(name: str) -> str:
    """The type under which the rule of a custom operator is registered."""
    return f"CUSTOM {name}"


def find_rule(node: Node) -> Rule:
    """The rule for a node. ExportError if there is none."""
    operation = node.operation
    type = custom_type(operation.custom) if operation.type == "CUSTOM" else operation.type
    plain = found = _RULES.find(type)
    if node.is_quantised:
        found = _QUANTISED_RULES.find(type) or (plain if type in _ANY_TYPE else None)
        if found is None and plain is not None:
            raise ExportError(f"armnet has {type} for floats, not for quantised tensors")
    if node.is_complex:
        found = _COMPLEX_RULES.find(type) or (plain if type in _COMPLEX else None)
        if found is None and plain is not None:
            raise ExportError(f"armnet has {type} for real numbers, not for complex ones")
    if found is None:
        raise ExportError(MISSING)
    return found
