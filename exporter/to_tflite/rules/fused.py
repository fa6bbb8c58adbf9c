"""armnet's fused operators, split into their parts. Activations are fused again when the graph is finished."""

from __future__ import annotations

from exporter.to_tflite.graph import Operand
from exporter.to_tflite.rules import Call, Results, rule
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.fused.fused import OPERANDS, PRELU, activation_of, formula_of
from runtime_arm.registry.schema import lookup

_TYPES = ("FusedBatchNorm", "FusedConv", "FusedConvTranspose", "FusedFC", "FusedFCTransposed", "FusedMaxPool")


@rule(*(f"armnet.{type}" for type in _TYPES))
def fused(call: Call) -> Results:
    """The first operator, the addition and the activation."""
    op, activation = call.op, activation_of(call.op)
    fusion = lookup(op).fusion
    assert fusion is not None
    count = len(op.input) if fusion.addend is None else fusion.addend
    args = tuple(arg for arg in op.arg if arg.name != "activation")
    parts = [operand for operand in call.operands[:count] if operand is not None]
    layer = op.replace(type=fusion.layer, domain="", input=op.input[: len(parts)], output=op.output[:1], arg=args)
    y = call.translate(layer, *parts)
    if call.has(count):
        y = call.translate(OperatorDef.of("Add", ["first", "addend"], op.output[:1]), y, call.operand(count))
    return y if activation is None else _activated(call, activation, y)


def _activated(call: Call, activation: OperatorDef, y: Operand) -> Operand:
    """The activation, with only those arguments of the fused operator that it knows."""
    operands = call.operands[-1:] if activation.full_type in OPERANDS else []
    formula = formula_of(activation)
    order = {"order"} if activation.full_type == PRELU else set()
    wanted = order if formula is None else set(formula.defaults)
    own = activation.replace(arg=tuple(arg for arg in activation.arg if arg.name in wanted))
    return call.translate(own, y, *operands)
