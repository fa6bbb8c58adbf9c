"""Operators of the domain "" that Caffe2 lacks: armnet's own, with Caffe2's conventions."""

from __future__ import annotations

from runtime_arm.errors import ExportError
from runtime_arm.netdef import NetDef

OURS = frozenset(["SpatialBNRelu", "SpatialBNAddRelu", "SpatialBNReluGradient", "SpatialBNAddReluGradient"])


def require_caffe2(net: NetDef) -> None:
    """ExportError, naming the operator, unless the real Caffe2 knows every operator of the net."""
    for op in net.op:
        if op.domain not in ("", "caffe2") or op.type in OURS:
            raise ExportError(
                f"{op.signature()}: Caffe2 has no operator {op.full_type}: train without caffe2_compatible"
            )
