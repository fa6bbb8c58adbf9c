"""If two convolutions are added, one takes the biases of both."""

from __future__ import annotations

import numpy as np
import pytest

from optimize.passes.folding.join_biases import PASS
from tests.optimize.kinds import projected
from tests.optimize.nets import applied, assert_keeps_numbers, refusals

WEIGHTS = {
    "w": np.ones((2, 2, 1, 1), np.float32),
    "b": np.array([1, 2], np.float32),
    "c": np.array([10, 20], np.float32),
    "d": np.array([1], np.float32),
    "huge": np.full(2, 3e38, np.float32),
    "b_": np.ones(2, np.float64),
}
SHAPES = {"x": ("batch", 2, None, None), "z": ("batch", 2, None, None)}
HEAD = 'net "": x, z, w, b, c, d, huge, b_ '


def net(
    first: str = "Conv(x, w, b)",
    second: str = "(z, w, c, a)",
    outputs: str = "y",
    more: str = "",
    activation: str = "Relu",
) -> str:
    return (
        f"{HEAD} -> {outputs}\n {first} -> a  kernel=1\n {more}\n"
        f' armnet.FusedConv{second} -> y  kernel=1  activation="{activation}"'
    )


def test_the_convolution_that_adds_takes_both_biases() -> None:
    outcome = applied(PASS, net(), WEIGHTS, SHAPES)
    assert outcome.text == [
        "Conv(x, w) -> a_unbiased  kernel=1",
        'armnet.FusedConv(z, w, c_joined, a_unbiased) -> y  kernel=1  activation="Relu"',
    ]
    assert outcome.weight("c_joined").tolist() == [11, 22]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (net(outputs="y, a"), "'a' is an output of the net"),
        (net(outputs="y, r", more="Relu(a) -> r"), "'a' is read by Relu(a) -> r"),
        (net("Conv(x, w, huge)", "(z, w, huge, a)"), "a sum is not finite"),
        (net("Conv(x, w, d)"), "the bias of shape (1,) is not one number for each output"),
        (net("Conv(x, w, b_)"), "the biases differ in length or dtype"),
    ],
)
def test_other_sums_stay(text: str, reason: str) -> None:
    assert any(reason in one for one in refusals(PASS, text, WEIGHTS, SHAPES))


@pytest.mark.parametrize("text", [net("Conv(x, w)"), net(second='(z, w, "", a)'), net(second="(z, w, z, a)")])
def test_without_two_constant_biases_there_is_nothing_to_join(text: str) -> None:
    assert refusals(PASS, text, WEIGHTS, SHAPES) == []


@pytest.mark.parametrize(
    "text",
    [
        net(second="(a, w, c, z)"),
        net(second="(a, w, c, a)"),
        net(second='(z, w, c, "", a)', activation="PRelu"),
    ],
)
def test_a_convolution_whose_results_are_used_otherwise_stays(text: str) -> None:
    assert refusals(PASS, text, WEIGHTS, SHAPES) == []


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [projected], terms=1)
