"""1x1 convolutions of one blob become one."""

from __future__ import annotations

import numpy as np
import pytest

from optimize import optimize
from optimize.passes.moving.merge_parallel_convolutions import PASS
from optimize.rewriting.report import operator_counts
from tests.optimize.kinds import branching
from tests.optimize.nets import applied, assert_keeps_numbers, assert_same_numbers, pair_of, refusals

RANDOM = np.random.default_rng(3)
WEIGHTS = {
    "w": RANDOM.standard_normal((2, 4, 1, 1)).astype(np.float32),
    "b": np.ones(2, np.float32),
    "v": RANDOM.standard_normal((3, 4, 1, 1)).astype(np.float32),
    "k": RANDOM.standard_normal((3, 4, 3, 3)).astype(np.float32),
}
SHAPES = {"x": (2, 4, 5, 5)}
HEAD = 'net "": x, w, b, v, k '


def test_two_become_one_and_a_split() -> None:
    net = """-> y, z, u
        Conv(x, w, b) -> y  kernel=1
        Relu(y) -> a
        Conv(x, v) -> z  kernel=1
        Conv(x, k) -> u  kernel=3
    """
    outcome = applied(PASS, HEAD + net, WEIGHTS, SHAPES)
    assert outcome.text == [
        "Conv(x, y_merged_w, y_merged_b) -> y_merged  kernel=1",
        "Split(y_merged) -> y, z  axis=1  split=[2, 3]",
        "Relu(y) -> a",
        "Conv(x, k) -> u  kernel=3",
    ]
    np.testing.assert_array_equal(outcome.weight("y_merged_b"), [1, 1, 0, 0, 0])
    feed = {"x": RANDOM.standard_normal(SHAPES["x"]).astype(np.float32)}
    assert_same_numbers(outcome.before, outcome.after, feed, terms=1)


def test_their_activation_is_kept() -> None:
    net = """-> y, z
        armnet.FusedConv(x, w, b) -> y  kernel=1  activation="Clip"  min=0.0  max=6.0
        armnet.FusedConv(x, v) -> z  kernel=1  activation="Clip"  min=0.0  max=6.0
    """
    outcome = applied(PASS, HEAD + net, WEIGHTS, SHAPES)
    assert len(outcome.text) == 2
    assert outcome.text[0].endswith('kernel=1  activation="Clip"  min=0.0  max=6.0')
    feed = {"x": RANDOM.standard_normal(SHAPES["x"]).astype(np.float32)}
    assert_same_numbers(outcome.before, outcome.after, feed, terms=1)


def test_it_runs_only_on_request() -> None:
    net = "-> y, z\n ConvRelu(x, w, b) -> y  kernel=1\n ConvRelu(x, v) -> z  kernel=1"
    pair = pair_of(HEAD + net, WEIGHTS, SHAPES)
    assert operator_counts(optimize(pair).predict_net) == {"ConvRelu": 2}
    result = optimize(pair, merge_parallel=True)
    assert operator_counts(result.predict_net) == {"ConvRelu": 1, "Split": 1}
    assert optimize(result, merge_parallel=True) == result


@pytest.mark.parametrize(
    "net",
    [
        "-> y, z\n armnet.FusedConv(x, w, b, r) -> y  kernel=1\n armnet.FusedConv(x, v) -> z  kernel=1",
        "-> y, z\n ConvRelu(x, w) -> y  kernel=1\n Conv(x, v) -> z  kernel=1",
        "-> y, z\n Conv(x, w) -> y  kernel=1\n Conv(x, v) -> z  kernel=1  stride=2",
        "-> y, z\n Conv(x, k) -> y  kernel=3\n Conv(x, k) -> z  kernel=3",
        "-> y, z\n Conv(x, w) -> y  kernel=1\n Relu(x) -> a\n Conv(a, v) -> z  kernel=1",
    ],
)
def test_convolutions_that_differ_stay(net: str) -> None:
    head = HEAD.replace("x,", "x, r,")
    assert not applied(PASS, head + net, WEIGHTS, {**SHAPES, "r": (2, 2, 5, 5)}).report.steps


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (
            "-> y, z\n Relu(v) -> r\n Conv(x, w) -> y  kernel=1\n Conv(x, r) -> z  kernel=1",
            "'r' is not a constant float",
        ),
        (
            "-> z, x\n Conv(x, w) -> y  kernel=1\n Conv(x, v) -> z  kernel=1\n Relu(x) -> x",
            "'x' is written more than once",
        ),
    ],
)
def test_weights_or_inputs_that_may_change_are_refused(net: str, reason: str) -> None:
    assert reason in refusals(PASS, HEAD + net, WEIGHTS)


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [branching], terms=100, layers=2)
