"""TFLite's operators on integers in ONNX's QDQ form: DequantizeLinear, an operator on floats, QuantizeLinear.

ONNX's tools write integer networks in this form, and runtimes compute it fast. They round once, in float32, so a result
may differ from TFLite's by one step of its scale; ``rules/tflite.py`` translates the same operators to the last bit,
with many nodes. Operators that have no rule here, such as those that only move integers, are translated by the rules
there.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from exporter.common.rules import Rules
from exporter.to_onnx.call import Call
from exporter.to_onnx.operand import Results
from runtime_arm.operators.quantised.tflite.parameters import Affine, activation_range, affine, limits_of

FAMILIES = ("elementwise", "products")
_RULES: Rules[Callable[[Call], Results]] = Rules(__name__, FAMILIES)
rule, find_qdq_rule = _RULES.rule, _RULES.find


def reals(call: Call, name: str, of: Affine, dtype: Any) -> str:
    """The floats that a blob of integers stands for."""
    return call.node("DequantizeLinear", name, call.constant(of.scale, np.float32), call.constant(of.zero_point, dtype))


def operand(call: Call, index: int = 0, what: str = "X", name: str = "") -> str:
    """The floats of an input, in its own order of dimensions; ``name`` holds it in another one."""
    return reals(call, name or call.input(index), affine(call.op, what, call.dtype(index)), call.dtype(index))


def elementwise(call: Call, function: Callable[..., str], whats: Sequence[str] = "X") -> str:
    """The integers for a function of the floats of all inputs; pictures keep their order of dimensions."""
    first = pictures(call)
    y = result(call, function(*(operand(call, i, what, first[i] if first else "") for i, what in enumerate(whats))))
    return call.channels_last(y, call.rank()) if first else y


def pictures(call: Call) -> Optional[List[str]]:
    """The inputs with their channels first, if all are such pictures of one shape; else None."""
    found = [call.graph.channels_first.get(name) for name in call.inputs]
    dims = [call.known_dims(index) for index in range(len(found))]
    return [name for name in found if name] if all(found) and len(set(dims)) == 1 else None


def integers(call: Call, name: str, of: Affine, dtype: Any) -> str:
    """The integers for floats."""
    return call.node("QuantizeLinear", name, call.constant(of.scale, np.float32), call.constant(of.zero_point, dtype))


def result(call: Call, name: str, dtype: Any = None) -> str:
    """The integers of the output, limited by its fused activation; mostly the range of the dtype does this."""
    dtype = dtype or call.dtype()
    y = affine(call.op, "Y", dtype)
    low, high = activation_range(call.op, dtype, y)
    least, most = limits_of(dtype)
    bounds = [
        call.constant(y.scale * np.float32(limit - y.zero_point)) if limit != end else ""
        for limit, end in ((low, least), (high, most))
    ]
    return integers(call, call.node("Clip", name, *bounds) if any(bounds) else name, y, dtype)
