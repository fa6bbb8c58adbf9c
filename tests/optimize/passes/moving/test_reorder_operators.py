"""Operators run in the order that needs the smallest arena."""

from __future__ import annotations

import numpy as np

from optimize import optimize
from optimize.memory.plan import plan_net
from optimize.passes.moving.reorder_operators import PASS
from runtime_arm.netdef import NetDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec
from tests.optimize.nets import applied, assert_keeps_numbers, refusals
from tests.support.random_nets import KINDS

WIDE = """
    net "wide": x -> y
    Sigmoid(x) -> a0
    Tanh(x) -> b0
    Exp(x) -> c0
    AveragePool(a0) -> a1  kernel=8  stride=8
    AveragePool(b0) -> b1  kernel=8  stride=8
    AveragePool(c0) -> c1  kernel=8  stride=8
    Sum(a1, b1, c1) -> y
"""
SHAPE = {"x": [1, 4, 32, 32]}


def test_one_branch_ends_before_the_next_begins() -> None:
    outcome = applied(PASS, WIDE, shapes=SHAPE)
    specs = {"x": TensorSpec(SHAPE["x"], np.float32)}
    before, after = (plan_net(pair.predict_net, specs) for pair in (outcome.before, outcome.after))
    large, small = 4 * 32 * 32 * 4, 4 * 4 * 4 * 4
    assert outcome.text[:2] == ["Sigmoid(x) -> a0", "AveragePool(a0) -> a1  kernel=8  stride=8"]
    assert before.blobs == 3 * large + small
    assert after.blobs == 2 * large + 2 * small


def test_an_order_that_is_already_the_best_stays() -> None:
    net = 'net "": x -> y\n Sigmoid(x) -> a\n Tanh(a) -> b\n Add(a, b) -> y'
    assert not applied(PASS, net, shapes=SHAPE).report.steps


def test_without_shapes_nothing_moves() -> None:
    assert not applied(PASS, WIDE).report.steps


def test_what_sequences_hold_is_not_planned() -> None:
    made = "onnx.SequenceConstruct(a1, b1) -> s\n    onnx.SequenceLength(s) -> k\n    Sum(a1"
    net = WIDE.replace("Sum(a1", made).replace("-> y\n    Sig", "-> y, k\n    Sig")
    assert not applied(PASS, net, shapes=SHAPE).report.steps


def test_open_sizes_are_tried_out() -> None:
    assert applied(PASS, WIDE, shapes={"x": ["batch", 4, "height", "width"]}).report.steps


def test_operators_on_strings_keep_their_place() -> None:
    lines = ["onnx.StringConcat(x, x) -> a", "onnx.StringConcat(x, a) -> b"]
    lines += [
        'onnx.RegexFullMatch(a) -> c  pattern="ab"',
        'onnx.RegexFullMatch(b) -> d  pattern="abab"',
        "And(c, d) -> y",
    ]
    net = NetDef.from_text("\n ".join(['net "": x -> y', *lines]))
    pair = Pair(NetDef(), net, (TensorInfo("x", (4, 2), "object"),))
    assert optimize(pair).predict_net.op == net.op


def test_operators_that_overwrite_blobs_keep_their_place() -> None:
    lines = WIDE.replace("x -> y", "x, s -> y, s").replace("Exp(x) -> c0", "Sigmoid(s) -> s\n    Exp(x) -> c0")
    assert "'s' is written more than once" in refusals(PASS, lines, shapes={**SHAPE, "s": [4]})


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], KINDS)
