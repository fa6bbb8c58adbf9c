"""Translates the operators of ``runtime_arm`` into ONNX's: one rule each, by family.

    @rule("Swish")
    def swish(call: Call) -> Results:
        return call.node("Mul", call.x, call.node("Sigmoid", call.x))

A rule adds nodes with ONNX's operators and returns the names that hold the operator's outputs: one name, or one for
each output, None for an output that nothing reads. It raises ExportError if ONNX cannot express the operator. Operators
of the domains "onnx", "ai.onnx.ml" and "com.microsoft" become nodes of the same name and need no rule.

A type includes its domain, as in ``OperatorDef.full_type``; Caffe2's types have none.
"""

from __future__ import annotations

from typing import Callable, Optional

from exporter.common.rules import Rules
from exporter.to_onnx.call import Call
from exporter.to_onnx.operand import Results
from runtime_arm.netdef import OperatorDef

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
    "native",
    "normalization",
    "pooling",
    "quantised",
    "reduction",
    "resize",
    "tflite",
)
_RULES: Rules[Rule] = Rules(__name__, FAMILIES)
rule = _RULES.rule


def find_rule(op: OperatorDef) -> Optional[Rule]:
    """The rule of an operator, or None."""
    native = op.domain in ("onnx", "ai.onnx.ml", "com.microsoft")
    return _RULES.find(op.full_type.replace("caffe2.", "", 1)) or (_RULES.find("onnx.*") if native else None)
