"""How the operators of ``runtime_arm`` are said in ONNX: one function each, by family.

    @rule("Swish")
    def swish(call: Call) -> Results:
        return call.node("Mul", call.x, call.node("Sigmoid", call.x))

A rule makes nodes of ONNX's operators and returns the names of what stands for the operator's outputs: one name, or one
an output, None for an output that nothing reads. It raises ExportError where ONNX cannot say the same. Operators of the
domains "onnx", "ai.onnx.ml" and "com.microsoft" stand for themselves and need no rule.

A type is named with its domain, as in ``OperatorDef.full_type``; Caffe2's without.
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
