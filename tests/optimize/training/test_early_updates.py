"""Updates run as soon as their gradients are ready."""

from __future__ import annotations

from optimize.gradients import add_gradient_operators
from optimize.training import first_backward, update_early
from runtime_arm.netdef import NetDef, OperatorDef

NET = """
net "n": x, w, v, rate, one -> w, v
MatMul(x, w) -> h
MatMul(h, v) -> y
"""


def test_a_parameter_is_updated_once_its_gradient_is_there_and_nobody_needs_the_parameter() -> None:
    net, _ = add_gradient_operators(NetDef.from_text(NET), ["y"])
    updates = [OperatorDef.of("WeightedSum", [p, "one", f"{p}_grad", "rate"], [p]) for p in ("w", "v")]
    late = net.replace(op=(*net.op, *updates))
    early = update_early(late)
    assert [(op.type, op.output[0]) for op in early.op] == [
        ("MatMul", "h"),
        ("MatMul", "y"),
        ("ConstantFill", "y_autogen_grad"),
        ("MatMul", "h_grad"),
        ("MatMul", "v_grad"),
        ("WeightedSum", "v"),
        ("MatMul", "x_grad"),
        ("MatMul", "w_grad"),
        ("WeightedSum", "w"),
    ]
    assert first_backward(early.op) == 2
    assert update_early(early.replace(op=late.op)) == early


def test_nets_without_a_way_back_stay() -> None:
    net = NetDef.from_text(NET)
    assert update_early(net) == net
    assert first_backward(net.op) == 2
