"""armnet's fused operators, taken apart again."""

from __future__ import annotations

from dataclasses import replace

from exporter.to_onnx.operand import Operand
from exporter.to_onnx.rules import Call, Results, rule
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.formulas import FORMULAS
from runtime_arm.operators.fused.fused import OPERANDS, PRELU, activation_of
from runtime_arm.registry.schema import lookup

_FIRST = {  # type and number of inputs
    "FusedBatchNorm": ("SpatialBN", 5),
    "FusedConv": ("Conv", 3),
    "FusedConvTranspose": ("ConvTranspose", 3),
    "FusedFC": ("FC", 3),
    "FusedFCTransposed": ("FCTransposed", 3),
    "FusedMaxPool": ("MaxPool", 1),
}


@rule(*(f"armnet.{type}" for type in _FIRST))
def fused(call: Call) -> Results:
    """The operator that comes first, the addition, the activation."""
    op, activation = call.op, activation_of(call.op)
    type, count = _FIRST[op.type]
    args = tuple(arg for arg in op.arg if arg.name != "activation")
    parts = [operand for operand in call.operands[:count] if operand.name]
    y = call.translate(replace(op, type=type, domain="", input=op.input[: len(parts)], arg=args), parts)
    if call.has(count):
        y = call.translate(OperatorDef.of("Add", ["first", "addend"], op.output), [y, call.operands[count]])
    return (y if activation is None else _activated(call, activation, y)).name


def _activated(call: Call, activation: OperatorDef, y: Operand) -> Operand:
    """Only the activation's own arguments are its own."""
    operands = call.operands[-1:] if activation.full_type in OPERANDS else []
    lookup(activation)
    known = {"order"} if activation.full_type == PRELU else set()
    wanted = known if operands else set(FORMULAS[activation.domain, activation.type].defaults)
    own = replace(activation, arg=tuple(arg for arg in activation.arg if arg.name in wanted))
    return call.translate(own, [y, *operands])
