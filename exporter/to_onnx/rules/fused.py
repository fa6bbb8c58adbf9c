"""armnet's fused operators, split into their parts."""

from __future__ import annotations

from exporter.to_onnx.rules import Call, Results, rule
from exporter.to_onnx.rules.native import as_it_is
from optimize.layers.decompose_attention import decomposed
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


@rule("onnx.Attention")
def attention(call: Call) -> Results:
    """Written as products with a softmax if that is all it is: older runtimes lack the operator."""
    parts = decomposed(call.op)
    if parts is None or (call.has(3) and not _is_one_number_a_key(call)):
        return as_it_is(call)
    known = dict(zip(call.op.input, call.operands))
    for part in parts:
        known[part.output[0]] = call.translate(part, [known[name] for name in part.input])
    return known[call.op.output[0]].name


def _is_one_number_a_key(call: Call) -> bool:
    """Whether the mask is known to hold a float for each key."""
    mask, keys = call.known_dims(3), call.known_dims(1)
    length = None if keys is None else keys[-2]
    return call.dtype(3).kind == "f" and mask is not None and length is not None and mask[-1] == length
