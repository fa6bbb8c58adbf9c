"""Translates Caffe's layers into the operators of ``runtime_arm``: one rule each, by family.

    @rule("ELU")
    def elu(layer: Layer) -> None:
        layer.add("Elu", alpha=layer.param("elu_param").alpha)

A rule adds the operators that compute the layer's tops. Operators that neither Caffe2 nor ONNX has are in the domain
"caffe". Dimensions that the prototxt declares are used only for checks: the operators must work for every size.
"""

from __future__ import annotations

from typing import Callable, Optional

from exporter.caffe.layer import Layer
from exporter.common.rules import Rules

Rule = Callable[[Layer], None]

FAMILIES = (
    "activation",
    "arithmetic",
    "convolution",
    "detection",
    "layout",
    "linear",
    "losses",
    "normalization",
    "pooling",
    "recurrent",
)
_RULES: Rules[Rule] = Rules(__name__, FAMILIES)
rule = _RULES.rule


def find_rule(type: str) -> Optional[Rule]:
    """The rule for a layer type, or None."""
    return _RULES.find(type)
