"""Consecutive scales and shifts become one batch normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimize import optimize
from optimize.passes.composing.compose_affine import PASS
from optimize.rewriting.report import operator_counts
from tests.optimize.kinds import normalising, scaling
from tests.optimize.nets import applied, assert_keeps_numbers, assert_same_numbers, pair_of

RANDOM = np.random.default_rng(8)
WEIGHTS = {name: RANDOM.standard_normal(4).astype(np.float32) for name in "stm"}
WEIGHTS.update(
    v=np.abs(RANDOM.standard_normal(4)).astype(np.float32) + 1,
    c=RANDOM.standard_normal((4, 1, 1)).astype(np.float32),
    p=np.ones((5, 5), np.float32),
    huge=np.full((4, 1, 1), 3e38, np.float32),
)
SHAPES = {"x": ("batch", 4, 5, 5)}
HEAD = f'net "": x, {", ".join(WEIGHTS)} '
FEED = {"x": RANDOM.standard_normal((2, 4, 5, 5)).astype(np.float32)}
COMPOSED = (
    "SpatialBN(x, y_composed_scale, y_composed_shift, y_composed_mean, y_composed_variance) -> y  is_test=1  "
    "epsilon=0.0"
)


@pytest.mark.parametrize(
    "ops",
    [
        "SpatialBN(x, s, t, m, v) -> a  is_test=1\n Mul(a, c) -> b\n Add(b, c) -> y",
        "Mul(x, s) -> a  broadcast=1  axis=1\n Add(a, t) -> y  broadcast=1  axis=1",
        "AffineChannel(x, s, t) -> a\n SpatialBN(a, s, t, m, v) -> y  is_test=1",
        "Sub(c, x) -> a\n Div(a, c) -> y",
    ],
)
def test_consecutive_ones_become_one(ops: str) -> None:
    outcome = applied(PASS, f"{HEAD} -> y\n {ops}", WEIGHTS, SHAPES)
    assert outcome.text == [COMPOSED] or ops.count("->") == 3
    assert len(outcome.text) == 1
    assert_same_numbers(outcome.before, outcome.after, FEED, terms=36, layers=3)


def test_channels_last() -> None:
    ops = 'SpatialBN(x, s, t, m, v) -> a  is_test=1  order="NHWC"\n Mul(a, s) -> y'
    outcome = applied(PASS, f"{HEAD} -> y\n {ops}", WEIGHTS, {"x": ("batch", 5, 5, 4)})
    assert outcome.text == [COMPOSED.replace("epsilon", "epsilon") + '  order="NHWC"']
    assert_same_numbers(
        outcome.before, outcome.after, {"x": FEED["x"].transpose(0, 2, 3, 1).copy()}, terms=36, layers=3
    )


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        ("-> y, z\n Mul(x, c) -> a\n Add(a, c) -> y\n Relu(a) -> z", "'a' is read by Relu(a) -> z as well"),
        ("-> a, y\n Mul(x, c) -> a\n Add(a, c) -> y", "'a' is an output of the net"),
        ("-> y\n Mul(x, p) -> a\n Add(a, c) -> y", "the weight of shape (5, 5) is not one number for each channel"),
        ("-> y\n Mul(x, huge) -> a\n Mul(a, huge) -> y", "a product is not finite"),
        ("-> y\n Relu(x) -> r\n Mul(q, c) -> a\n Add(a, c) -> y", "the channels of 'q' are not known"),
        (
            "-> y, m1, v1, m2, v2\n Mul(x, c) -> a\n SpatialBN(a, s, t, m, v) -> y, m1, v1, m2, v2  is_test=0",
            "the normalisation takes its statistics from each batch",
        ),
    ],
)
def test_operators_that_cannot_be_composed_stay(net: str, reason: str) -> None:
    head = HEAD.replace("x,", "x, q,") if "q," in net else HEAD
    outcome = applied(PASS, head + net, WEIGHTS, SHAPES)
    assert not outcome.report.steps
    assert reason in outcome.reasons


def test_folding_into_layers_comes_first_and_activations_are_fused_after() -> None:
    ops: Any = "Conv(x, w) -> a  kernel=1\n Mul(a, c) -> b\n Add(b, c) -> y"
    pair = pair_of(f"{HEAD}, w -> y\n {ops}", {**WEIGHTS, "w": np.ones((4, 4, 1, 1), np.float32)}, SHAPES)
    assert operator_counts(optimize(pair).predict_net) == {"Conv": 1}
    pair = pair_of(f"{HEAD} -> y\n Mul(x, c) -> b\n Add(b, c) -> d\n Relu(d) -> y", WEIGHTS, SHAPES)
    result = optimize(pair)
    assert operator_counts(result.predict_net) == {"armnet.FusedBatchNorm": 1}
    assert_same_numbers(pair, result, FEED, terms=36, layers=3)


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [normalising, scaling], terms=100, layers=6, examples=150)
