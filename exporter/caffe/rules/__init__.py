"""How Caffe's layers are said in the operators of ``runtime_arm``: one function each, by family.

    @rule("ELU")
    def elu(layer: Layer) -> None:
        layer.add("Elu", alpha=layer.param("elu_param").alpha)

A rule adds the operators that compute the layer's tops. What neither Caffe2 nor ONNX has is an operator of the domain
"caffe". Dimensions that the prototxt declares are for checks alone: what is added must work for every size.
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
