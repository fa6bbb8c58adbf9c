"""Criteria and measures: loops over elements, refusals."""

from __future__ import annotations

import math
from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import OperatorError
from tests.support.exact import assert_same
from tests.support.operands import caffe2, random


def i32(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def probabilities(shape: Any, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).uniform(0, 1, shape), np.float32)


def test_two_classes_of_one_probability() -> None:
    x = probabilities((2, 3))
    (y,) = run_kernel(caffe2("MakeTwoClass", "X"), [x])
    assert_same(y, np.stack([1 - x, x], axis=2))


def test_weighted_cross_entropy() -> None:
    x, t, w = random((3, 4)) * 3, probabilities((3, 4)), random((3, 4), 2)
    expected = []
    for row in range(3):
        terms = []
        for logit, target, weight in zip(x[row].tolist(), t[row].tolist(), w[row].tolist()):
            p = 1 / (1 + math.exp(-logit))
            terms.append(-weight * (target * math.log(p) + (1 - target) * math.log(1 - p)))
        expected.append(sum(terms) / 4)
    op = caffe2("WeightedSigmoidCrossEntropyWithLogits", "X T W")
    assert_close(run_kernel(op, [x, t, w])[0], np.array(expected, np.float32), terms=4, magnitude=10)


@pytest.mark.parametrize("weighted", [False, True])
def test_softmax_at_every_pixel(weighted: bool) -> None:
    x, labels, weights = random((2, 3, 2, 2)), i32(0, 2, -1, 1, 1, 0, 2, -1).reshape(2, 2, 2), probabilities((2, 2, 2))
    total = share = 0.0
    expected = np.empty(x.shape)
    for n, i, j in np.ndindex(2, 2, 2):
        powers = [math.exp(v) for v in x[n, :, i, j].tolist()]
        expected[n, :, i, j] = np.array(powers) / sum(powers)
        if labels[n, i, j] >= 0:
            weight = float(weights[n, i, j]) if weighted else 1.0
            total -= weight * math.log(expected[n, labels[n, i, j], i, j])
            share += weight
    op = caffe2("SpatialSoftmaxWithLoss", "X L W" if weighted else "X L", "P loss")
    y, loss = run_kernel(op, [x, labels, weights] if weighted else [x, labels])
    assert_close(y, expected.astype(np.float32), terms=3)
    assert_close(loss, np.array(total / share, np.float32), terms=6)


@pytest.mark.parametrize("top_k", [1, 2])
def test_accuracy_breaks_ties_by_order(top_k: int) -> None:
    x = np.array([[1, 2, 2], [5, 1, 0], [0, 0, 0], [1, 2, 3]], np.float32)
    labels = i32(2, 0, 1, 0)
    hits = [int(label) in sorted(range(3), key=lambda k: (-row[k], k))[:top_k] for row, label in zip(x, labels)]
    (y,) = run_kernel(caffe2("Accuracy", "X L", top_k=top_k), [x, labels])
    assert_same(y, np.array(sum(hits) / 4, np.float32))


def test_accuracy_by_class() -> None:
    x = np.array([[1, 2, 0, 0], [5, 1, 0, 0], [0, 9, 0, 0], [1, 2, 3, 0]], np.float32)
    shares, amounts = run_kernel(caffe2("MultiClassAccuracy", "X L", "a n"), [x, i32(1, 0, 0, 2)])
    assert shares.tolist() == [0.5, 1, 1, 0]
    assert_same(amounts, i32(2, 1, 1, 0))


def test_margins() -> None:
    a, b, y = random((2, 3)), random((2, 3), 1), i32(1, -1, 1, -1, 1, 1).reshape(2, 3)
    expected = [max(0.0, 0.5 - float(s) * (float(p) - float(q))) for s, p, q in zip(y.flat, a.flat, b.flat)]
    op = caffe2("MarginRankingCriterion", "A B Y", "Z", margin=0.5)
    assert_close(run_kernel(op, [a, b, y])[0], np.array(expected, np.float32).reshape(2, 3))
    expected = [1 - float(s) if label == 1 else max(0.0, float(s) - 0.25) for s, label in zip(a.flat, y.flat)]
    op = caffe2("CosineEmbeddingCriterion", "S Y", "Z", margin=0.25)
    assert_close(run_kernel(op, [a, y])[0], np.array(expected, np.float32).reshape(2, 3))


def entropy(p: float) -> float:
    return 0.0 if p in (0.0, 1.0) else -p * math.log(p) - (1 - p) * math.log(1 - p)


def test_divergence_of_bernoulli_distributions() -> None:
    x, t = probabilities((7,)), probabilities((7,), 1)
    x[0], t[1], x[2], t[2] = 0, 1, 1, 1
    expected = [entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2 for p, q in zip(x.tolist(), t.tolist())]
    assert_close(run_kernel(caffe2("BernoulliJSD", "X T"), [x, t])[0], np.array(expected, np.float32), magnitude=1)


def test_perplexity_and_summary() -> None:
    x = probabilities((9,)) + np.float32(0.01)
    product = math.prod(float(p) ** (-1 / 9) for p in x)
    assert_close(run_kernel(caffe2("Perplexity", "X"), [x])[0], np.array(product, np.float32), terms=9)
    mean = sum(x.tolist()) / 9
    deviation = math.sqrt(sum((v - mean) ** 2 for v in x.tolist()) / 8)
    expected = np.array([min(x), max(x), mean, deviation], np.float32)
    assert_close(run_kernel(caffe2("Summarize", "X"), [x])[0], expected, terms=9)
    assert run_kernel(caffe2("Summarize", "X"), [x[:1]])[0][3] == 0


@pytest.mark.parametrize(
    ("type", "inputs", "outputs", "rule"),
    [
        (
            "WeightedSigmoidCrossEntropyWithLogits",
            [random((2, 3)), random((2, 3)), random((3,))],
            "Y",
            "must have the same shape",
        ),
        (
            "SpatialSoftmaxWithLoss",
            [random((1, 2, 1, 1)), i32(2).reshape(1, 1, 1)],
            "Y L",
            "labels must be -1 to 1",
        ),
        ("SpatialSoftmaxWithLoss", [random((1, 2, 1, 1)), i32(1)], "Y L", r"\(N, H, W\)"),
        ("Accuracy", [random((2, 3)), i32(0, 3)], "Y", "labels must be 0 to 2"),
        ("MultiClassAccuracy", [random((2, 3)), i32(0)], "Y N", r"labels \(N,\)"),
        ("MarginRankingCriterion", [random((2,)), random((3,)), i32(1, 1)], "Y", "must have the same shape"),
        ("Perplexity", [random((0,))], "Y", "that is not empty"),
    ],
)
def test_refusals_say_why(type: str, inputs: List[Any], outputs: str, rule: str) -> None:
    names = " ".join(f"x{i}" for i in range(len(inputs)))
    with pytest.raises(OperatorError, match=rule):
        run_kernel(caffe2(type, names, outputs), inputs)
