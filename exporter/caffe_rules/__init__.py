"""How Caffe's layers are said in the operators of ``runtime_arm``: one function each, by family.

    @rule("ELU")
    def elu(layer: Layer) -> None:
        layer.add("Elu", alpha=layer.param("elu_param").alpha)

A rule adds the operators that compute the layer's tops. What neither Caffe2 nor ONNX has is an operator of the domain
"caffe". Dimensions that the prototxt declares are for checks alone: what is added must work for every size.
"""

from __future__ import annotations

from importlib import import_module
from typing import Callable, Dict, Optional

from exporter.caffe_layer import Layer

Rule = Callable[[Layer], None]

FAMILIES = ("activation", "arithmetic", "convolution", "detection", "layout", "linear", "losses", "normalization",
            "pooling", "recurrent")
_RULES: Dict[str, Rule] = {}


def rule(*types: str) -> Callable[[Rule], Rule]:
    """Decorator: the translation of these layer types."""

    def register(function: Rule) -> Rule:
        for type in types:
            if type in _RULES:
                raise RuntimeError(f"two rules for {type}")
            _RULES[type] = function
        return function

    return register


def find_rule(type: str) -> Optional[Rule]:
    """The rule for a layer type, or None."""
    if not _RULES:
        for family in FAMILIES:
            import_module(f"exporter.caffe_rules.{family}")
    return _RULES.get(type)
