"""Blobs that are computed again in the backward pass instead of being kept."""

from __future__ import annotations

from typing import Iterable, List

import pytest

from optimize.gradients import add_gradient_operators
from optimize.training import step_plans
from optimize.training.recompute import Forward, recompute
from runtime_arm.netdef import NetDef
from runtime_arm.registry.specs import TensorSpec

BLOCK = """
net "n": x, w, s, b, m, v -> y
Conv(x, w) -> h  kernel=3  pad=1
SpatialBNAddRelu(h, s, b, m, v, x) -> r, m, v, sm, si, mask  is_test=0
Sigmoid(r) -> a
Tanh(a) -> t
Mul(t, t) -> y
"""


def trained(text: str, y: str = "y") -> NetDef:
    net, _ = add_gradient_operators(NetDef.from_text(text), [y])
    return net


def lines(net: NetDef, dropped: Iterable[str]) -> List[str]:
    """The operators behind the way forward that make something again, and the first reader of each."""
    forward = Forward(net)
    after, repeated = recompute(net, forward, frozenset(dropped))
    assert after.op[: len(forward.ops)] == forward.ops
    rest = after.replace(op=after.op[len(forward.ops) :], external_input=(), external_output=())
    found = [line for line in rest.to_text().splitlines() if "_again" in line]
    assert sum("_again" in line.partition("->")[2] for line in found) == len(repeated)
    return found


def test_what_is_dropped_is_made_right_before_it_is_read() -> None:
    net = trained('net "n": x -> y\nSigmoid(x) -> a\nTanh(a) -> t\nMul(t, a) -> y')
    assert lines(net, []) == []
    assert lines(net, ["t"]) == [
        "Tanh(a) -> t_again",
        "MulGradient(y_autogen_grad, t_again, a) -> t_grad, a_grad  is_gradient_op=1",
        "TanhGradient(t_again, t_grad) -> _a_grad_autosplit_0  is_gradient_op=1",
    ]
    assert lines(net, ["a", "t"]) == [
        "Sigmoid(x) -> a_again",
        "Tanh(a_again) -> t_again",
        "MulGradient(y_autogen_grad, t_again, a_again) -> t_grad, a_grad  is_gradient_op=1",
        "TanhGradient(t_again, t_grad) -> _a_grad_autosplit_0  is_gradient_op=1",
        "SigmoidGradient(a_again, a_grad) -> x_grad  is_gradient_op=1",
    ]


def test_a_normalisation_is_repeated_with_the_statistics_of_the_first_time() -> None:
    text = BLOCK.replace("Sigmoid(r) -> a", "Conv(r, w) -> a  kernel=3  pad=1")
    found = lines(trained(text), ["r"])
    assert found[0] == "armnet.SpatialBNAgain(h, s, b, sm, si, x) -> r_again  relu=1"
    assert found[1].startswith("ConvGradient(r_again, w, a_grad)")
    # what nobody keeps is made again with what is read from it
    assert [line.split("(")[0] for line in lines(trained(BLOCK), ["a"])] == [
        "armnet.SpatialBNAgain",
        "Sigmoid",
        "SigmoidGradient",
    ]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Dropout(x) -> d, mask  ratio=0.5", "d"),
        ("Relu(x) -> d\nRelu(d) -> d", "d"),
        ("Conv(x, c) -> d  kernel=3  pad=1", "d"),
        ('SpatialBN(x, s, b, m, v) -> d, m, v, sm, si  is_test=0  order="NHWC"', "d"),
    ],
)
def test_what_would_not_give_the_same_bits_is_not_repeated(line: str, name: str) -> None:
    forward = Forward(NetDef.from_text(f'net "n": x, c, s, b, m, v -> y\n{line}\nMul(x, x) -> y'), ["c"])
    assert name not in forward.repeats
    assert "y" in forward.repeats


def test_a_chain_needs_memory_in_proportion_to_the_square_root_of_its_length() -> None:
    layers = [f"Sigmoid(a{at}) -> a{at + 1}" for at in range(36)]
    text = "\n".join(['net "n": x -> a36', "Sigmoid(x) -> a0", *layers])
    net, _ = add_gradient_operators(NetDef.from_text(text), ["a36"])
    found = step_plans(net, {"x": TensorSpec((1, 16), "float32")}, ["x_grad"])
    blobs = [plan.peak // 64 for plan in found]
    assert blobs[0] == 39  # x, all that is kept, and a gradient
    assert blobs[-1] <= 3 * 6
    assert blobs == sorted(blobs, reverse=True)
    assert [plan.repeated for plan in found] == sorted(plan.repeated for plan in found)
    assert found[-1].repeated <= 36


def test_sizes_that_depend_on_data_leave_one_plan() -> None:
    net = trained('net "n": x, i -> y\nonnx.NonZero(x) -> k\nSigmoid(x) -> y')
    assert len(step_plans(net, {"x": TensorSpec((4,), "float32"), "i": TensorSpec((4,), "float32")}, ["x_grad"])) == 1
