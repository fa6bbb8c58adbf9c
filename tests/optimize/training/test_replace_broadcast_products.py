"""Products with one matrix for all of a stack get an operator that has a gradient."""

from __future__ import annotations

from optimize.training import replace_broadcast_products
from runtime_arm.netdef import NetDef

NET = """
net "n": x, w, v -> y
BatchMatMul(x, w) -> a  broadcast=1
BatchMatMul(a, v) -> b  broadcast=1  trans_b=1
BatchMatMul(b, b) -> y
"""


def test_only_broadcast_products_that_transpose_nothing_are_replaced() -> None:
    net = NetDef.from_text(NET)
    changed = net.replace(op=tuple(replace_broadcast_products(net.op)))
    assert changed.to_text().strip().split("\n")[1:] == [
        "onnx.MatMul(x, w) -> a",
        "BatchMatMul(a, v) -> b  broadcast=1  trans_b=1",
        "BatchMatMul(b, b) -> y",
    ]
    assert replace_broadcast_products(changed.op) == list(changed.op)
