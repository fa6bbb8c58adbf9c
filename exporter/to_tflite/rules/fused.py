"""armnet's fused operators, split into their parts. Activations are fused again when the graph is finished."""

from __future__ import annotations

from typing import Sequence

from exporter.to_tflite.graph import Operand
from exporter.to_tflite.rules import Call, Results, rule
from optimize.layers.decompose_attention import decomposed
from optimize.layers.unfuse import unfused
from runtime_arm.errors import ExportError
from runtime_arm.netdef import NetDef, OperatorDef

_TYPES = ("FusedBatchNorm", "FusedConv", "FusedConvTranspose", "FusedFC", "FusedFCTransposed", "FusedMaxPool")


@rule(*(f"armnet.{type}" for type in _TYPES))
def fused(call: Call) -> Results:
    """The layer, the addition and the activation, one after the other."""
    return _in_turn(call, unfused(NetDef(op=(call.op,))).op)


def _in_turn(call: Call, parts: Sequence[OperatorDef]) -> Operand:
    known = dict(zip(call.op.input, call.operands))
    call.graph.wanted.update(part.output[0] for part in parts)
    for part in parts:
        known[part.output[0]] = call.translate(part, *(known[name] for name in part.input))
    found = known[call.op.output[0]]
    assert found is not None
    return found


@rule("onnx.Attention")
def attention(call: Call) -> Results:
    """Products with a softmax between them."""
    parts = decomposed(call.op)
    mask, keys = call.spec(3) if call.has(3) else None, call.spec(1).shape[-2]
    if parts is None or (mask is not None and (mask.dtype.kind != "f" or mask.shape[-1] != keys)):
        raise ExportError("TFLite has no operators that mean the same")
    return _in_turn(call, parts)
