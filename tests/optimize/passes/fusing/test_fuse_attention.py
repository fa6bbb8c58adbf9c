"""Products with a softmax between them become Attention."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from optimize.passes.composing import compose_transposes
from optimize.passes.fusing.fuse_attention import PASS
from tests.optimize.kinds import attending
from tests.optimize.nets import Outcome, applied, assert_keeps_numbers, assert_same_numbers, pair_of, refusals
from tests.support.operands import random

SHAPES = {"q": (2, 3, 5, 4), "k": (2, 3, 7, 4), "v": (2, 3, 7, 6)}
NUMBERS: Dict[str, Any] = {
    "c": np.float32(2),
    "zero": np.float32(0),
    "mask": random((2, 1, 5, 7), 3),
    "row": random((7,), 4),
}
HEAD = f'net "": q, k, v, {", ".join(NUMBERS)} -> y\n'
TURN = "Transpose(k) -> t  axes=[0, 1, 3, 2]\n BatchMatMul(q, t) -> s\n"
LAST = "Softmax({}) -> p  axis=3\n BatchMatMul(p, v) -> y"
FEEDS = {name: random(shape, seed) for seed, (name, shape) in enumerate(SHAPES.items())}


@pytest.mark.parametrize(
    ("between", "last", "inputs", "scale"),
    [
        ("", "s", "", 1.0),
        ("Div(s, c) -> d\n", "d", "", 0.5),
        ("Mul(c, s) -> d\n", "d", "", 2.0),
        ("Div(s, c) -> d\n Add(d, mask) -> a\n", "a", ", mask", 0.5),
        ("onnx.Add(row, s) -> a\n", "a", ", row", 1.0),
    ],
)
def test_scores_vanish(between: str, last: str, inputs: str, scale: float) -> None:
    net = HEAD + TURN + between + LAST.format(last)
    outcome = Outcome(pair_of(net, NUMBERS, SHAPES), [PASS, compose_transposes.PASS])
    assert outcome.text == [f"onnx.Attention(q, k, v{inputs}) -> y  scale={scale}"]
    assert_same_numbers(outcome.before, outcome.after, FEEDS, terms=1)


@pytest.mark.parametrize(
    "keys",
    [
        "Transpose(k) -> t  axes=[0, 1, 3, 2]\n Mul(t, c) -> tc\n BatchMatMul(qc, tc) -> s\n",
        "Mul(k, c) -> kc\n BatchMatMul(qc, kc) -> s  trans_b=1\n",
        "Reshape(k) -> m, m_  shape=[-1, 7, 4]\n Transpose(m) -> u  axes=[0, 2, 1]\n"
        "Reshape(u) -> t, t_  shape=[2, 3, 4, 7]\n Mul(t, c) -> tc\n BatchMatMul(qc, tc) -> s\n",
    ],
)
def test_the_scale_may_be_divided_between_queries_and_keys(keys: str) -> None:
    """As PyTorch's exporters write it; the one that traces joins batches and heads to turn the keys."""
    net = f"{HEAD} Mul(q, c) -> qc\n {keys} {LAST.format('s')}"
    outcome = Outcome(pair_of(net, NUMBERS, SHAPES), [compose_transposes.PASS, PASS, compose_transposes.PASS])
    assert outcome.text == ["onnx.Attention(q, k, v) -> y  scale=4.0"]
    assert_same_numbers(outcome.before, outcome.after, FEEDS, terms=36, layers=3)


def test_keys_may_be_turned_by_the_product() -> None:
    net = f"{HEAD} BatchMatMul(q, k) -> s  trans_b=1\n {LAST.format('s')}"
    outcome = applied(PASS, net, NUMBERS, SHAPES)
    assert outcome.text == ["onnx.Attention(q, k, v) -> y  scale=1.0"]


APART = "\n".join(
    f"Reshape({x}) -> {x}h, {x}_  shape=[2, {n}, 3, {d}]\n Transpose({x}h) -> {x}t  axes=[0, {p}]"
    for x, n, d, p in (("q", 5, 4, "2, 1, 3"), ("k", 7, 4, "2, 3, 1"), ("v", 7, 6, "2, 1, 3"))
)
WHOLE = (
    f"{HEAD} {APART}\n BatchMatMul(qt, kt) -> s\n Softmax(s) -> p  axis=3\n BatchMatMul(p, vt) -> z\n"
    "Transpose(z) -> u  axes=[0, 2, 1, 3]\n Reshape(u) -> y, old  shape=[2, 5, 18]"
)
FLAT = {"q": (2, 5, 12), "k": (2, 7, 12), "v": (2, 7, 18)}


def test_heads_stay_where_they_lie() -> None:
    outcome = applied(PASS, WHOLE, NUMBERS, FLAT)
    assert outcome.text == ["onnx.Attention(q, k, v) -> y  scale=1.0  q_num_heads=3  kv_num_heads=3"]
    feeds = {name: random(shape, seed) for seed, (name, shape) in enumerate(FLAT.items())}
    assert_same_numbers(outcome.before, outcome.after, feeds, terms=1)


@pytest.mark.parametrize(
    ("net", "shapes", "reason"),
    [
        (TURN + "Softmax(s) -> p  axis=1\n BatchMatMul(p, v) -> y", SHAPES, "not over the last of four"),
        (TURN + LAST.format("s"), {}, "are not floats"),
        (TURN + "BatchMatMul(s, s) -> r\n" + LAST.format("s"), SHAPES, "'s' is read by"),
        (TURN + "Mul(s, row) -> d\n" + LAST.format("d"), SHAPES, "several scales"),
        (TURN + "Div(s, zero) -> d\n" + LAST.format("d"), SHAPES, "the scale is 0"),
        (TURN + LAST.format("s"), {**SHAPES, "q": (2, 1, 5, 4), "k": (2, 3, 7, 4)}, "are not floats"),
    ],
)
def test_refuses(net: str, shapes: Dict[str, Any], reason: str) -> None:
    assert any(reason in found for found in refusals(PASS, HEAD + net, NUMBERS, shapes))


def test_windows_with_a_mask_stay() -> None:
    shapes = {name: (8, *shape[1:]) for name, shape in SHAPES.items()}
    net = f"{HEAD} {TURN} Add(s, row) -> a\n {LAST.format('a')}"
    assert any("many windows" in found for found in refusals(PASS, net, NUMBERS, shapes))
    assert applied(PASS, net, NUMBERS, SHAPES).report.steps


def test_other_operators_stay() -> None:
    net = f"{HEAD} {TURN} Sigmoid(s) -> p\n BatchMatMul(p, v) -> y"
    assert not applied(PASS, net, NUMBERS, SHAPES).report.steps


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [attending], terms=100, layers=2)
