"""Translates the operators of ``runtime_arm`` into TFLite's: one rule each, by family.

    @rule("Swish")
    def swish(call: Call) -> Results:
        x = call.as_held()
        return call.result(call.same_shape("MUL", x, call.same_shape("LOGISTIC", x)), call.order())

A rule adds operations and returns what holds the operator's outputs: a tensor, and the order in which the tensor has
the blob's dimensions (see ``layout``). It raises ExportError if TFLite cannot express the operator. An operator that
only gives its input another shape needs no rule.

A type includes its domain, as in ``OperatorDef.full_type``; Caffe2's types have none.
"""

from __future__ import annotations

from typing import Callable, Optional

from exporter.common.rules import Rules
from exporter.to_tflite.call import Call, Results
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import lookup

__all__ = ["Call", "Results", "Rule", "find_rule", "rule"]

Rule = Callable[[Call], Results]

FAMILIES = (
    "activation",
    "arithmetic",
    "control",
    "convolution",
    "detection",
    "fused",
    "indexing",
    "layout",
    "linear",
    "normalization",
    "pooling",
    "qlinear",
    "quantised",
    "reduction",
    "resize",
)
_RULES: Rules[Rule] = Rules(__name__, FAMILIES)
rule = _RULES.rule


def find_rule(op: OperatorDef) -> Optional[Rule]:
    """The rule of an operator, or None."""
    found = _RULES.find(op.full_type.replace("caffe2.", "", 1))
    return found or (_RULES.find("view") if lookup(op).view else None)
