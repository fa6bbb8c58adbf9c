"""Operators and weights that contribute to no output are removed."""

from __future__ import annotations

import numpy as np
import pytest

from optimize.passes.removing.eliminate_dead_code import PASS
from tests.optimize.nets import Outcome, applied, assert_keeps_numbers, pair_of

W = {"w": np.ones(3, np.float32), "v": np.ones(3, np.float32)}


def test_dead_operators_are_removed_in_one_step_and_then_their_weights() -> None:
    net = """
        net "": x, w, v -> y
        Relu(x) -> a
        Add(a, w) -> b
        Sigmoid(b) -> c
        Add(a, v) -> y
    """
    outcome = applied(PASS, net, W)
    assert outcome.text == ["Relu(x) -> a", "Add(a, v) -> y"]
    assert outcome.after.predict_net.external_input == ("x", "v")
    assert [op.output for op in outcome.after.init_net.op] == [("v",)]
    assert [len(step.before) for step in outcome.report.steps] == [2, 0]


def test_an_operator_stays_if_any_of_its_outputs_is_used() -> None:
    net = 'net "": x -> y, d\n Split(x) -> a, b  axis=1\n Concat(b, b) -> c, d  axis=1\n Relu(b) -> y'
    assert not applied(PASS, net).report.steps


@pytest.mark.parametrize(
    "net",
    [
        'net "": x, s -> y\n Relu(x) -> y\n Add(x, s) -> s',
        'net "": x, c -> y\n Relu(x) -> a\n If(c) -> y  then_net={\n Sigmoid(a) -> y\n }',
        'net "": x -> y\n Relu(x) -> y\n Print(y)',
        'net "": x, w -> y, w\n Relu(x) -> y',
    ],
    ids=["state", "sub-net", "effect", "weight that is an output"],
)
def test_operators_that_are_needed_stay(net: str) -> None:
    outcome = applied(PASS, net, {"w": W["w"]} if "w ->" in net else {})
    assert not outcome.report.steps


def test_weights_that_init_net_computes_stay() -> None:
    pair = pair_of('net "": x, w -> y\n Add(x, w) -> y', W)
    computed = pair.init_net.from_text("XavierFill() -> r  shape=[3]\nRelu(v) -> u").op
    pair = pair.replace(init_net=pair.init_net.replace(op=(*pair.init_net.op, *computed)))
    assert not Outcome(pair, [PASS]).report.steps


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS])
