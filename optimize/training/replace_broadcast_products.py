"""Makes ONNX's MatMul, which has a gradient, of BatchMatMul with broadcast=1, which in Caffe2 has none."""

from __future__ import annotations

from typing import Iterable, List

from runtime_arm.netdef import OperatorDef


def replace_broadcast_products(ops: Iterable[OperatorDef]) -> List[OperatorDef]:
    """The operators, with each such product that transposes nothing replaced; the result is the same."""
    return [OperatorDef.of("MatMul", op.input, op.output, domain="onnx") if _broadcasts(op) else op for op in ops]


def _broadcasts(op: OperatorDef) -> bool:
    if op.type != "BatchMatMul" or op.domain not in ("", "caffe2") or not op.get_bool("broadcast"):
        return False
    return not op.get_bool("trans_a") and not op.get_bool("trans_b")
