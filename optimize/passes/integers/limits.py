"""Activations that only limit numbers, ReLU and Clip, between an operator and the QuantizeLinear after it.

Quantising keeps order, so the integers can be limited instead. Often the range of their dtype already does this.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

import numpy as np

from optimize.passes.integers.quantised import Integers, Quantised
from optimize.rewriting.rewrite import Refusal
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.tables import table_of
from runtime_arm.operators.quantised.parameters import Parameters, quantized

LIMITING = ("Relu", "onnx.Relu", "Clip", "onnx.Clip")


def limits_of(integers: Integers, op: OperatorDef) -> Tuple[float, float]:
    """The least and the largest number that an activation lets through."""
    if op.type == "Relu":
        return 0.0, np.inf
    if not op.domain:
        return op.get_float("min", -np.inf), op.get_float("max", np.inf)
    found = []
    for index, without in ((1, -np.inf), (2, np.inf)):
        name = op.input[index] if len(op.input) > index else ""
        value = integers.program.value(name) if name else np.asarray(without)
        if value is None or value.size != 1:
            raise Refusal(f"the limit {name!r} is not constant")
        found.append(float(value.reshape(())))
    return found[0], found[1]


def limited(
    integers: Integers, layer: OperatorDef, y: Quantised, activation: Optional[OperatorDef]
) -> List[OperatorDef]:
    """The layer, which writes ``y``, and an operator that limits its integers if their dtype does not."""
    if activation is None:
        return [layer]
    low, high = np.asarray(limits_of(integers, activation), np.float32)
    steps = Parameters(y.scale, y.zero_point.astype(np.int32))
    least, most = (quantized(np.asarray(limit, np.float32), steps, y.dtype) for limit in (low, high))
    range_ = np.iinfo(y.dtype)
    if least == range_.min and most == range_.max:
        return [layer]
    name = integers.program.fresh(f"{y.blob}_unlimited")
    table = table_of(y.dtype, lambda values: np.clip(values, least, most))
    limit = OperatorDef.of(
        "LookUp", [name, integers.constant(f"{y.blob}_limits", table)], [y.blob], domain="armnet", name=activation.name
    )
    return [layer.replace(output=(name,)), limit]
