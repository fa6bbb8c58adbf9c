"""A product with a weight matrix and the bias after it become a fully connected layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimize import optimize
from optimize.passes.composing.compose_fc import PASS
from optimize.rewriting.report import operator_counts
from tests.optimize.kinds import matrix_layer
from tests.optimize.nets import applied, assert_keeps_numbers, assert_same_numbers, pair_of

RANDOM = np.random.default_rng(2)
WEIGHTS = {
    "w": RANDOM.standard_normal((4, 3)).astype(np.float32),
    "b": RANDOM.standard_normal(3).astype(np.float32),
    "v": RANDOM.standard_normal((3, 4)).astype(np.float32),
    "c": np.float32(2.5),
    "r": np.ones((2, 1), np.float32),
    "q": np.ones((2, 4, 3), np.float32),
}
HEAD = f'net "": x, {", ".join(WEIGHTS)} '


@pytest.mark.parametrize(
    ("ops", "shape", "layer"),
    [
        ("MatMul(x, w) -> a\n Add(a, b) -> y", ("n", 4), "FCTransposed(x, w, b_vector) -> y"),
        ("MatMul(x, v) -> a  trans_b=1\n Add(b, a) -> y", (2, 4), "FC(x, v, b_vector) -> y"),
        ("MatMul(x, w) -> a\n Add(a, b) -> y  broadcast=1", (2, 4), "FCTransposed(x, w, b_vector) -> y"),
        (
            "BatchMatMul(x, w) -> a  broadcast=1\n Add(a, c) -> y",
            (2, 5, 4),
            "FCTransposed(x, w, c_vector) -> y  axis=2",
        ),
        ("onnx.MatMul(x, w) -> a\n onnx.Add(a, b) -> y", (2, 3, 5, 4), "FCTransposed(x, w, b_vector) -> y  axis=3"),
    ],
)
def test_a_product_and_a_bias_become_a_layer(ops: str, shape: Any, layer: str) -> None:
    outcome = applied(PASS, f"{HEAD} -> y\n {ops}", WEIGHTS, {"x": shape})
    assert outcome.text == [layer]
    feed = {"x": RANDOM.standard_normal([n if isinstance(n, int) else 3 for n in shape]).astype(np.float32)}
    assert_same_numbers(outcome.before, outcome.after, feed, terms=1)


@pytest.mark.parametrize(
    ("net", "shape", "reason"),
    [
        ("-> y, z\n MatMul(x, w) -> a\n Add(a, b) -> y\n Relu(a) -> z", (2, 4), "'a' is read by Relu(a) -> z as well"),
        ("-> a, y\n MatMul(x, w) -> a\n Add(a, b) -> y", (2, 4), "'a' is an output of the net"),
        (
            "-> y\n MatMul(x, w) -> a\n Add(a, r) -> y",
            (2, 4),
            "the bias of shape (2, 1) is not one number for each column",
        ),
        (
            "-> y\n MatMul(x, w) -> a  trans_a=1\n Add(a, b) -> y",
            (4, 2),
            "the rows of the first factor are not its last dimension",
        ),
        (
            "-> y\n MatMul(x, w) -> a\n Add(a, b) -> y",
            (2, 2, 2),
            "the rows of the first factor are not its last dimension",
        ),
        ("-> y\n BatchMatMul(x, q) -> a\n Add(a, b) -> y", (2, 5, 4), "the second factor is not a matrix of floats"),
    ],
)
def test_operators_that_are_not_a_layer_stay(net: str, shape: Any, reason: str) -> None:
    outcome = applied(PASS, HEAD + net, WEIGHTS, {"x": shape})
    assert not outcome.report.steps
    assert any(reason in each for each in outcome.reasons)


@pytest.mark.parametrize(
    ("shape", "width", "readers", "layer"),
    [
        ((1, 1, 1024), 512, 1, "FC(x, w_turned, b_vector) -> y  axis=2"),
        ((1, 2, 1024), 512, 1, "FCTransposed(x, w, b_vector) -> y  axis=2"),
        (("n", 1, 1024), 512, 1, "FCTransposed(x, w, b_vector) -> y  axis=2"),
        ((1, 1, 512), 512, 1, "FCTransposed(x, w, b_vector) -> y  axis=2"),
        ((1, 1, 512), 256, 1, "FCTransposed(x, w, b_vector) -> y  axis=2"),
        ((1, 1, 1024), 512, 2, "FCTransposed(x, w, b_vector) -> y  axis=2"),
    ],
    ids=["turned", "several rows", "rows not known", "square", "small", "shared"],
)
def test_many_short_rows_of_weights_for_one_row_are_turned(shape: Any, width: int, readers: int, layer: str) -> None:
    weights = {
        "w": RANDOM.standard_normal((shape[2], width)).astype(np.float32),
        "b": RANDOM.standard_normal(width).astype(np.float32),
    }
    others = "" if readers == 1 else "\n Relu(w) -> z"
    net = (
        f'net "": x, w, b -> y{", z" if others else ""}\n BatchMatMul(x, w) -> a  broadcast=1\n Add(a, b) -> y{others}'
    )
    outcome = applied(PASS, net, weights, {"x": shape})
    assert outcome.text[0] == layer
    feed = {"x": RANDOM.standard_normal([n if isinstance(n, int) else 3 for n in shape]).astype(np.float32)}
    assert_same_numbers(outcome.before, outcome.after, feed, terms=100, layers=2)


def test_nothing_is_composed_if_dimensions_are_not_known() -> None:
    assert not applied(PASS, f"{HEAD} -> y\n MatMul(x, w) -> a\n Add(a, b) -> y", WEIGHTS).report.steps


def test_the_activation_after_it_is_fused() -> None:
    pair = pair_of(f"{HEAD} -> y\n MatMul(x, w) -> a\n Add(a, b) -> d\n Relu(d) -> y", WEIGHTS, {"x": (2, 4)})
    assert operator_counts(optimize(pair).predict_net) == {"armnet.FusedFCTransposed": 1}


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [matrix_layer], terms=100, layers=2, examples=100)
