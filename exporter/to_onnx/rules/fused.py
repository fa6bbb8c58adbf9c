"""armnet's fused operators, split into their parts."""

from __future__ import annotations

from exporter.to_onnx.rules import Call, Results, rule
from optimize.layers.unfuse import unfused
from runtime_arm.netdef import NetDef

_TYPES = ("FusedBatchNorm", "FusedConv", "FusedConvTranspose", "FusedFC", "FusedFCTransposed", "FusedMaxPool")


@rule(*(f"armnet.{type}" for type in _TYPES))
def fused(call: Call) -> Results:
    """The layer, the addition and the activation, one after the other."""
    known = dict(zip(call.op.input, call.operands))
    for part in unfused(NetDef(op=(call.op,))).op:
        known[part.output[0]] = call.translate(part, [known[name] for name in part.input])
    return known[call.op.output[0]].name
