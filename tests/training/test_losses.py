"""Losses: their values by formula, and their gradients by finite differences."""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

import numpy as np
import pytest

from optimize.gradients import add_gradient_operators
from runtime_arm.errors import UsageError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import Array, NetDef, OperatorDef
from training.builder import NetBuilder
from training.losses import (
    L1,
    L2,
    Contrastive,
    Euclidean,
    Hinge,
    Loss,
    SigmoidCrossEntropy,
    SmoothL1,
    Softmax,
    loss_of,
)

ROWS, CLASSES = 5, 4
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((ROWS, CLASSES)).astype(np.float32)
B = RANDOM.standard_normal((ROWS, CLASSES)).astype(np.float32)
LABELS = np.array([0, 3, 1, 1, 2], np.int32)
TARGETS = RANDOM.random((ROWS, CLASSES)).astype(np.float32)
SHARES = TARGETS / TARGETS.sum(axis=1, keepdims=True)
WEIGHTS = np.array([1, 2, 0, 0.5, 1], np.float32)
PAIRS = np.array([1, 0, 1, 0, 0], np.float32)
HOT = np.eye(CLASSES)[LABELS]


def log_softmax(x: Array) -> Array:
    x = x.astype(np.float64)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def cross_entropy(x: Array, shares: Array, weights: Any = 1.0) -> float:
    each = -(log_softmax(x) * shares).sum(axis=1) * weights
    return float(each.sum() / np.broadcast_to(weights, ROWS).sum())


def smooth(x: Array) -> Array:
    d = np.abs(x - TARGETS)
    return np.where(d < 0.5, d * d / 1.0, d - 0.25)


def hinge(x: Array) -> Array:
    return np.maximum(0, 1 - np.where(HOT, 1, -1) * x)


def contrast(x: Array) -> float:
    d = np.sqrt(((x - B) ** 2).sum(axis=1))
    return float((PAIRS * d**2 + (1 - PAIRS) * np.maximum(3 - d, 0) ** 2).mean() / 2)


def sigmoid_entropy(x: Array) -> float:
    p = 1 / (1 + np.exp(-x.astype(np.float64)))
    return float(-(TARGETS * np.log(p) + (1 - TARGETS) * np.log(1 - p)).mean())


CLASS_WEIGHTS = [0.5, 1.0, 2.0, 0.1]
SMOOTHED = 0.9 * HOT + 0.1 / CLASSES
CASES: Dict[str, Tuple[Loss, Array, Callable[[Array], float]]] = {
    "softmax": (Softmax(), LABELS, lambda x: cross_entropy(x, HOT)),
    "probabilities": (Softmax(probabilities=True), SHARES, lambda x: cross_entropy(x, SHARES)),
    "smoothing": (Softmax(smoothing=0.1), LABELS, lambda x: cross_entropy(x, SMOOTHED)),
    "weights": (Softmax(weights="weights"), LABELS, lambda x: cross_entropy(x, HOT, WEIGHTS)),
    "class weights": (
        Softmax(class_weights=CLASS_WEIGHTS, smoothing=0.1),
        LABELS,
        lambda x: cross_entropy(x, SMOOTHED, np.array(CLASS_WEIGHTS)[LABELS]),
    ),
    "sigmoid": (SigmoidCrossEntropy(), TARGETS, sigmoid_entropy),
    "l1": (L1(), TARGETS, lambda x: float(np.abs(x - TARGETS).mean())),
    "l2": (L2(), TARGETS, lambda x: float(((x - TARGETS) ** 2).mean())),
    "smooth l1": (SmoothL1(beta=0.5), TARGETS, lambda x: float(smooth(x).mean())),
    "hinge": (Hinge(), LABELS, lambda x: float(hinge(x).sum(axis=1).mean())),
    "squared hinge": (Hinge(squared=True), LABELS, lambda x: float((hinge(x) ** 2).sum(axis=1).mean())),
    "euclidean": (Euclidean(), TARGETS, lambda x: float(((x - TARGETS) ** 2).sum(axis=1).mean() / 2)),
    "contrastive": (Contrastive(margin=3.0), PAIRS, contrast),
}


def run(loss: Loss, labels: Array, activation: str = "") -> Tuple[float, Array]:
    """The loss of X, and its gradient."""
    forward = [OperatorDef.of("Scale", ["x"], ["y"], scale=1.0)]
    if activation:
        forward.append(OperatorDef.of(activation, ["y"], ["z"]))
    builder = NetBuilder(forward, ["label", "other", "weights"])
    outputs = ["z" if activation else "y", "other"][: loss.outputs]
    blob = loss.append(builder, outputs, "label")
    net, gradients = add_gradient_operators(NetDef("n", tuple(builder.ops)), [blob])
    workspace = Workspace()
    blobs = {"x": X, "label": labels, "other": B, "weights": WEIGHTS, **builder.blobs}
    for name, value in blobs.items():
        workspace.feed(name, value)
    workspace.run_net_once(net)
    return float(workspace.fetch(blob)), workspace.fetch(str(gradients["x"]))


@pytest.mark.parametrize("name", CASES)
def test_the_loss_and_its_gradient_are_those_of_the_formula(name: str) -> None:
    loss, labels, formula = CASES[name]
    value, gradient = run(loss, labels)
    assert value == pytest.approx(formula(X), rel=1e-5)
    expected = np.zeros_like(X, np.float64)
    for index in np.ndindex(*X.shape):
        step = np.zeros(X.shape)
        step[index] = 1e-5
        expected[index] = (formula(X + step) - formula(X - step)) / 2e-5
    np.testing.assert_allclose(gradient, expected, atol=2e-5)  # differences


@pytest.mark.parametrize(("loss", "activation"), [(Softmax(), "Softmax"), (SigmoidCrossEntropy(), "Sigmoid")])
def test_an_activation_at_the_end_is_part_of_the_loss(loss: Loss, activation: str) -> None:
    labels = LABELS if activation == "Softmax" else TARGETS
    plain, fused = run(loss, labels), run(loss, labels, activation)
    assert plain[0] == fused[0]
    np.testing.assert_array_equal(plain[1], fused[1])


def test_equal_outputs_have_a_finite_contrast() -> None:
    loss, labels = Contrastive(), np.zeros(ROWS, np.float32)
    builder = NetBuilder([OperatorDef.of("Scale", ["x"], ["y"], scale=1.0)], ["label"])
    blob = loss.append(builder, ["y", "x"], "label")
    net, gradients = add_gradient_operators(NetDef("n", tuple(builder.ops)), [blob])
    workspace = Workspace()
    for name, value in {"x": X, "label": labels, **builder.blobs}.items():
        workspace.feed(name, value)
    workspace.run_net_once(net)
    assert np.isfinite(workspace.fetch(str(gradients["y"]))).all()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: loss_of("entropy"), "one of softmax, sigmoid"),
        (lambda: Softmax(smoothing=1.0), "smoothing must be"),
        (lambda: Softmax(class_weights=[1.0], weights="w"), "class_weights cannot be combined"),
        (lambda: SmoothL1(beta=0.0), "beta must be positive"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        make()
