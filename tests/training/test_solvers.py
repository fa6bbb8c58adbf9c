"""Solvers against the same rules in NumPy, over several steps of a linear model."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array
from tests.training.nets import linear
from training.schedules import Schedule
from training.solvers import SGD, AdaDelta, AdaGrad, Adam, AdamW, RMSProp, Solver, solver_of
from training.trainer import Trainer

STEPS = 6
RATE = 0.05
Rule = Callable[[int, Array, Array, Dict[str, Array]], Array]


def batches() -> List[Tuple[Array, Array]]:
    random = np.random.default_rng(1)
    return [(random.standard_normal((8, 4)), random.standard_normal((8, 3))) for _ in range(STEPS)]


def gradients(w: Array, b: Array, x: Array, t: Array) -> Tuple[Array, Array]:
    """Of the mean of |x w^T + b - t|^2 / 2."""
    error = (x @ w.T + b - t) / len(x)
    return error.T @ x, error.sum(axis=0)


def sgd(t: int, p: Array, g: Array, s: Dict[str, Array]) -> Array:
    return p - RATE * g


def momentum(t: int, p: Array, g: Array, s: Dict[str, Array]) -> Array:
    s["m"] = 0.9 * s.get("m", 0) + RATE * g
    return p - s["m"]


def nesterov(t: int, p: Array, g: Array, s: Dict[str, Array]) -> Array:
    before = s.get("m", 0)
    s["m"] = 0.9 * before + RATE * g
    return p - (1.9 * s["m"] - 0.9 * before)


def adagrad(t: int, p: Array, g: Array, s: Dict[str, Array]) -> Array:
    s["h"] = s.get("h", 0) + g * g
    return p - RATE * g / (np.sqrt(s["h"]) + 1e-4)


def adadelta(t: int, p: Array, g: Array, s: Dict[str, Array]) -> Array:
    s["h"] = 0.95 * s.get("h", 0) + 0.05 * g * g
    step = g * np.sqrt((s.get("d", 0) + 1e-4) / (s["h"] + 1e-4))
    s["d"] = 0.95 * s.get("d", 0) + 0.05 * step * step
    return p - RATE * step


def rmsprop(t: int, p: Array, g: Array, s: Dict[str, Array]) -> Array:
    s["h"] = 0.9 * s.get("h", 0) + 0.1 * g * g
    s["m"] = 0.5 * s.get("m", 0) + RATE * g / np.sqrt(s["h"] + 1e-5)
    return p - s["m"]


def adam(t: int, p: Array, g: Array, s: Dict[str, Array]) -> Array:
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0) + 0.001 * g * g
    count = t + 2  # Caffe2 counts before the first step
    return p - RATE * np.sqrt(1 - 0.999**count) / (1 - 0.9**count) * s["m"] / (np.sqrt(s["v"]) + 1e-8)


def adamw(t: int, p: Array, g: Array, s: Dict[str, Array]) -> Array:
    return adam(t, p * (1 - RATE * (0.1 if p.ndim > 1 else 0)), g, s)


RULES: Dict[str, Tuple[Solver, Rule]] = {
    "sgd": (SGD(RATE), sgd),
    "momentum": (SGD(RATE, momentum=0.9), momentum),
    "nesterov": (SGD(RATE, momentum=0.9, nesterov=True), nesterov),
    "adagrad": (AdaGrad(RATE), adagrad),
    "adadelta": (AdaDelta(RATE), adadelta),
    "rmsprop": (RMSProp(RATE, momentum=0.5), rmsprop),
    "adam": (Adam(RATE), adam),
    "adamw": (AdamW(RATE, weight_decay=0.1), adamw),
}


def replay(rule: Rule, change: Callable[[Array, Array, Array, Array], Any] = lambda w, b, dw, db: (dw, db)) -> Any:
    """w and b after all steps in float64. ``change`` makes of parameters and gradients what the rule is given."""
    fills = {op.output[0]: op.get_tensor("values").astype(np.float64) for op in linear().init_net.op}
    w, b = fills["w"], fills["b"]
    states: Tuple[Dict[str, Array], Dict[str, Array]] = ({}, {})
    for t, (x, target) in enumerate(batches()):
        dw, db = change(w, b, *gradients(w, b, x, target))
        w, b = rule(t, w, dw, states[0]), rule(t, b, db, states[1])
    return w, b


def trained(solver: Solver) -> Any:
    trainer = Trainer(linear(), loss="euclidean", labels="t", solver=solver)
    for x, target in batches():
        trainer.step({"x": x, "t": target})
    fills = {op.output[0]: op.get_tensor("values") for op in trainer.pair().init_net.op}
    return fills["w"], fills["b"]


def check(solver: Solver, expected: Any) -> None:
    for actual, wanted in zip(trained(solver), expected):
        assert_close(actual, wanted.astype(np.float32), terms=8, amplification=STEPS)


@pytest.mark.parametrize("name", RULES)
def test_a_solver_follows_its_rule(name: str) -> None:
    solver, rule = RULES[name]
    check(solver, replay(rule))


def test_decay_is_for_weights_and_not_for_biases() -> None:
    check(SGD(RATE, weight_decay=0.2), replay(sgd, lambda w, b, dw, db: (dw + 0.2 * w, db)))


def test_decay_may_differ_by_kind() -> None:
    solver = SGD(RATE, weight_decay={"weight": 0.1, "bias": 0.3})
    check(solver, replay(sgd, lambda w, b, dw, db: (dw + 0.1 * w, db + 0.3 * b)))


def test_decay_by_the_sign() -> None:
    solver = SGD(RATE, weight_decay=0.1, regularization="L1")
    check(solver, replay(sgd, lambda w, b, dw, db: (dw + 0.1 * np.sign(w), db)))


def test_the_length_of_all_gradients_is_clipped_before_the_decay() -> None:
    def change(w: Array, b: Array, dw: Array, db: Array) -> Any:
        ratio = 0.5 / max(np.sqrt((dw**2).sum() + (db**2).sum()), 0.5)
        assert ratio < 1
        return dw * ratio + 0.1 * w, db * ratio

    check(SGD(RATE, clip_norm=0.5, weight_decay=0.1), replay(sgd, change))


def test_each_gradient_is_clipped() -> None:
    solver = SGD(RATE, clip_value=0.1)
    check(solver, replay(sgd, lambda w, b, dw, db: (np.clip(dw, -0.1, 0.1), np.clip(db, -0.1, 0.1))))


def test_the_schedule_multiplies_the_rate() -> None:
    solver = SGD(RATE, schedule=Schedule("step", stepsize=2, gamma=0.5))
    check(solver, replay(lambda t, p, g, s: p - RATE * 0.5 ** ((t + 1) // 2) * g))


@pytest.mark.parametrize("count", [2, 4])
def test_parts_of_a_batch_average_to_the_batch(count: int) -> None:
    check(SGD(RATE, iter_size=count, momentum=0.9), replay(momentum))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: SGD(0.0), "must be positive"),
        (lambda: SGD(float("nan")), "must be positive"),
        (lambda: SGD(weight_decay={"weights": 1.0}), "weight_decay is for weight, scale, bias"),
        (lambda: SGD(regularization="L3"), "L1 or L2"),
        (lambda: SGD(clip_norm=-1.0), "must not be negative"),
        (lambda: SGD(iter_size=0), "at least 1"),
        (lambda: Adam(beta1=1.0), "beta1 and beta2"),
        (lambda: AdamW(regularization="L1"), "L2 alone"),
        (lambda: solver_of("sdg"), "one of sgd, adagrad"),
        (lambda: Schedule("stepp"), "must be one of alter"),
        (lambda: Schedule("step", gamma=0.5), "'stepsize' must be at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        make()


@pytest.mark.parametrize(
    ("policy", "arguments"),
    [
        ("cosine", {"max_lr": 1, "min_lr": 0, "period": 10.0, "t_mult": 1, "lr_shrink": 1}),
        (
            "composite",
            {
                "sub_policy_num_iters": [2, 10],
                "sub_policy_0_policy": "linearWarmup",
                "sub_policy_0_num_iter": 2,
                "sub_policy_1_policy": "step",
                "sub_policy_1_stepsize": 3,
                "sub_policy_1_gamma": 0.1,
            },
        ),
    ],
)
def test_numbers_of_a_schedule_become_what_caffe2_reads(policy: str, arguments: Any) -> None:
    for learned in trained(SGD(RATE, schedule=Schedule(policy, **arguments))):
        assert np.isfinite(learned).all()
