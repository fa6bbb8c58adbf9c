"""The slope of a HardSigmoid behind a layer becomes part of its weights."""

from __future__ import annotations

import numpy as np
import pytest

from optimize.passes.folding.fold_hard_sigmoid import PASS
from tests.optimize.kinds import gate_of_convolution
from tests.optimize.nets import applied, assert_keeps_numbers, assert_same_numbers, refusals

RANDOM = np.random.default_rng(3)
SHAPES = {"x": (2, 4, 5, 5)}
INPUT = {"x": RANDOM.standard_normal(SHAPES["x"]).astype(np.float32)}
WEIGHTS = {
    "w": RANDOM.standard_normal((4, 4, 3, 3)).astype(np.float32),
    "f": RANDOM.standard_normal((3, 100)).astype(np.float32),
    "b": RANDOM.standard_normal(4).astype(np.float32),
    "c": RANDOM.standard_normal(3).astype(np.float32),
}
HEAD = f'net "": x, {", ".join(WEIGHTS)} '


@pytest.mark.parametrize(
    ("layer", "folded"),
    [
        ("Conv(x, w, b) -> a  kernel=3", "Conv(x, w_folded, b_folded) -> a  kernel=3"),
        ("Conv(x, w) -> a  kernel=3  pad=1", "Conv(x, w_folded, w_bias_folded) -> a  kernel=3  pad=1"),
        ("FC(x, f, c) -> a", "FC(x, f_folded, c_folded) -> a"),
    ],
)
@pytest.mark.parametrize("arguments", ["", "  alpha=0.16666667  beta=0.5", "  alpha=-1.5  beta=0.25"])
def test_it_becomes_a_clip(layer: str, folded: str, arguments: str) -> None:
    net = f"{HEAD} -> y\n {layer}\n HardSigmoid(a) -> y{arguments}"
    outcome = applied(PASS, net, WEIGHTS, SHAPES)
    assert outcome.text == [folded, "Clip(a) -> y  min=0.0  max=1.0"]
    assert_same_numbers(outcome.before, outcome.after, INPUT, terms=36, layers=3)


def test_a_layer_that_others_read_stays() -> None:
    net = "-> y, z\n Conv(x, w) -> a  kernel=3\n HardSigmoid(a) -> y\n Relu(a) -> z"
    assert "'a' is read by Relu(a) -> z as well" in refusals(PASS, HEAD + net, WEIGHTS)


def test_changing_weights_stay() -> None:
    net = "-> y\n Relu(w) -> v\n Conv(x, v) -> a  kernel=3\n HardSigmoid(a) -> y"
    assert "'v' is not a constant float" in refusals(PASS, HEAD + net, WEIGHTS)


@pytest.mark.parametrize("behind", ["Sigmoid(a) -> y", "Relu(a) -> b\n HardSigmoid(b) -> y"])
def test_other_operators_stay(behind: str) -> None:
    assert not applied(PASS, f"{HEAD} -> y\n Conv(x, w) -> a  kernel=3\n {behind}", WEIGHTS, SHAPES).report.steps


def test_random_nets_keep_their_numbers() -> None:
    assert_keeps_numbers([PASS], [gate_of_convolution], terms=36, layers=3)
