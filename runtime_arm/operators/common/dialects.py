"""Which arguments a gradient operator has: Caffe2's have only their own; armnet's have those of ONNX's operators."""

from __future__ import annotations

from runtime_arm.netdef import OperatorDef

GRADIENT = "Gradient"


def forward_form(op: OperatorDef) -> OperatorDef:
    """The operator whose gradient this is, for its type, its domain and its arguments; not for its blobs."""
    domain = "onnx" if op.domain == "armnet" else op.domain
    return op.replace(type=op.type[: -len(GRADIENT)], domain=domain)
