"""HardSigmoid and HardSwish are recognised when they are written out."""

from __future__ import annotations

import numpy as np
import pytest

from optimize.passes.composing.compose_hard_swish import PASS
from tests.optimize.kinds import hard_gating
from tests.optimize.nets import applied, assert_keeps_numbers, assert_same_numbers, refusals

NUMBERS = {"zero": np.float32(0), "three": np.float32(3), "six": np.full(1, 6, np.float32), "sixth": np.float32(1 / 6)}
HEAD = f'net "": x, {", ".join(NUMBERS)} '


@pytest.mark.parametrize("total", ["Add(x, three)", "Add(three, x)", "onnx.Add(x, three)"])
@pytest.mark.parametrize("clip", ["Clip(a) -> b  min=0.0  max=6.0", "onnx.Clip(a, zero, six) -> b", "ReluN(a) -> b"])
@pytest.mark.parametrize("last", ["Div({}, six)", "Mul({}, sixth)", "Mul(sixth, {})"])
def test_every_way_to_write_it_is_recognised(total: str, clip: str, last: str) -> None:
    feed = {"x": np.linspace(-5, 5, 40, dtype=np.float32)}
    sigmoid = applied(PASS, f"{HEAD} -> y\n {total} -> a\n {clip}\n {last.format('b')} -> y", NUMBERS, {"x": (40,)})
    assert sigmoid.text == ["HardSigmoid(x) -> y  alpha=0.16666667  beta=0.5"]
    assert_same_numbers(sigmoid.before, sigmoid.after, feed, terms=1)
    for product in ("Mul(x, b)", "Mul(b, x)"):
        net = f"{HEAD} -> y\n {total} -> a\n {clip}\n {product} -> c\n {last.format('c')} -> y"
        swish = applied(PASS, net, NUMBERS, {"x": (40,)})
        assert swish.text == ["onnx.HardSwish(x) -> y"]
        assert_same_numbers(swish.before, swish.after, feed, terms=1)


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (
            "-> y, z\n Add(x, three) -> a\n ReluN(a) -> b\n Mul(x, b) -> c\n Div(c, six) -> y\n Sigmoid(b) -> z",
            "'b' is read by Sigmoid(b) -> z as well",
        ),
        (
            "-> y, c\n Add(x, three) -> a\n ReluN(a) -> b\n Mul(x, b) -> c\n Div(c, six) -> y",
            "'c' is an output of the net",
        ),
    ],
)
def test_blobs_that_others_need_stay(net: str, reason: str) -> None:
    assert reason in refusals(PASS, HEAD + net, NUMBERS)


@pytest.mark.parametrize(
    "net",
    [
        "Add(x, six) -> a\n ReluN(a) -> b\n Div(b, six) -> y",
        "Add(x, three) -> a\n Clip(a) -> b  min=0.0  max=3.0\n Div(b, six) -> y",
        "Add(x, three) -> a\n ReluN(a) -> b\n Div(b, three) -> y",
        "Add(x, three) -> a\n ReluN(a) -> b\n Div(six, b) -> y",
        "Add(x, three) -> a\n ReluN(a) -> b\n Mul(a, b) -> c\n Div(c, six) -> y",
    ],
)
def test_other_formulas_stay(net: str) -> None:
    assert not applied(PASS, f"{HEAD} -> y\n {net}", NUMBERS).report.steps


def test_numbers_that_add_dimensions_stay() -> None:
    three = {**NUMBERS, "three": np.full((1, 1, 1), 3, np.float32)}
    net = f"{HEAD} -> y\n Add(x, three) -> a\n ReluN(a) -> b\n Div(b, six) -> y"
    outcome = applied(PASS, net, three, {"x": (4, 5)})
    assert outcome.reasons == ["'y' has more dimensions than 'x'"]


def test_numbers_that_may_add_dimensions_stay_if_the_shape_is_not_known() -> None:
    net = f"{HEAD} -> y\n Add(x, three) -> a\n ReluN(a) -> b\n Div(b, six) -> y"
    outcome = applied(PASS, net, NUMBERS)
    assert outcome.reasons == ["'y' may have more dimensions than 'x', whose shape is not known"]
    scalars = applied(PASS, net, {**NUMBERS, "six": np.float32(6)})
    assert scalars.text == ["HardSigmoid(x) -> y  alpha=0.16666667  beta=0.5"]


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [hard_gating], terms=1)
