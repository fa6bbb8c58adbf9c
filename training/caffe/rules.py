"""The rules by which Caffe's solvers change parameters, and the policies of their rate.

Source: Caffe's sgd_solver.cpp and the solvers beside it. A rule gets a gradient and what it remembers of the parameter,
changes that in place, and returns what is subtracted.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Sequence

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array

Memory = Sequence[Array]
Step = Callable[[Any, Array, Memory, float, int], Array]


class Rule(NamedTuple):
    """``step(solver, gradient, memory, rate, iteration)``; memory: how many arrays it remembers of each parameter."""

    step: Step
    memory: int = 1


def _sgd(solver: Any, g: Array, memory: Memory, rate: float, iteration: int) -> Array:
    memory[0][...] = np.float32(solver.momentum) * memory[0] + np.float32(rate) * g
    return np.asarray(memory[0].copy())


def _nesterov(solver: Any, g: Array, memory: Memory, rate: float, iteration: int) -> Array:
    momentum, before = np.float32(solver.momentum), memory[0].copy()
    memory[0][...] = momentum * before + np.float32(rate) * g
    return np.asarray((1 + momentum) * memory[0] - momentum * before)


def _adagrad(solver: Any, g: Array, memory: Memory, rate: float, iteration: int) -> Array:
    memory[0][...] += g * g
    return np.asarray(np.float32(rate) * g / (np.sqrt(memory[0]) + np.float32(solver.delta)))


def _rmsprop(solver: Any, g: Array, memory: Memory, rate: float, iteration: int) -> Array:
    decay = np.float32(solver.rms_decay)
    memory[0][...] = decay * memory[0] + (1 - decay) * g * g
    return np.asarray(np.float32(rate) * g / (np.sqrt(memory[0]) + np.float32(solver.delta)))


def _adadelta(solver: Any, g: Array, memory: Memory, rate: float, iteration: int) -> Array:
    momentum, delta = np.float32(solver.momentum), np.float32(solver.delta)
    memory[0][...] = momentum * memory[0] + (1 - momentum) * g * g
    update = g * np.sqrt((memory[1] + delta) / (memory[0] + delta))
    memory[1][...] = momentum * memory[1] + (1 - momentum) * update * update
    return np.asarray(np.float32(rate) * update)


def _adam(solver: Any, g: Array, memory: Memory, rate: float, iteration: int) -> Array:
    first, second, t = solver.momentum, solver.momentum2, iteration + 1
    memory[0][...] = np.float32(first) * memory[0] + np.float32(1 - first) * g
    memory[1][...] = np.float32(second) * memory[1] + np.float32(1 - second) * g * g
    correction = np.sqrt(1 - second**t) / (1 - first**t)
    return np.asarray(np.float32(rate * correction) * memory[0] / (np.sqrt(memory[1]) + np.float32(solver.delta)))


RULES: Dict[str, Rule] = {
    "SGD": Rule(_sgd),
    "Nesterov": Rule(_nesterov),
    "AdaGrad": Rule(_adagrad),
    "RMSProp": Rule(_rmsprop),
    "AdaDelta": Rule(_adadelta, 2),
    "Adam": Rule(_adam, 2),
}
OLD_TYPES = ("SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam")  # by the number of the field solver_type


def rule_of(solver: Any) -> Rule:
    """The rule that a SolverParameter names. UsageError for an unknown one, or a momentum where none is used."""
    name = OLD_TYPES[solver.solver_type] if solver.HasField("solver_type") else solver.type or "SGD"
    if name not in RULES:
        raise UsageError(f"there is no solver {name!r}; there are {', '.join(RULES)}")
    if name in ("AdaGrad", "RMSProp") and solver.momentum:
        raise UsageError(f"{name} uses no momentum, it is {solver.momentum}")
    return RULES[name]


def rate_at(solver: Any, iteration: int) -> float:
    """The rate of a step, which are counted from 0. UsageError for an unknown policy."""
    base, gamma = float(solver.base_lr), float(solver.gamma)
    policies: Dict[str, Callable[[], float]] = {
        "fixed": lambda: base,
        "step": lambda: base * gamma ** (iteration // _positive(solver.stepsize)),
        "exp": lambda: base * gamma**iteration,
        "inv": lambda: base * (1 + gamma * iteration) ** -float(solver.power),
        "multistep": lambda: base * gamma ** steps_done(solver, iteration),
        "poly": lambda: base * (1 - iteration / _positive(solver.max_iter)) ** float(solver.power),
        "sigmoid": lambda: base / (1 + np.exp(-gamma * (iteration - solver.stepsize))),
    }
    if solver.lr_policy not in policies:
        raise UsageError(f"there is no lr_policy {solver.lr_policy!r}; there are {', '.join(policies)}")
    return float(policies[solver.lr_policy]())


def steps_done(solver: Any, iteration: int) -> int:
    """How many stepvalues a multistep policy has passed."""
    if solver.lr_policy == "step":
        return int(iteration // _positive(solver.stepsize))
    return sum(iteration >= value for value in solver.stepvalue) if solver.lr_policy == "multistep" else 0


def _positive(number: int) -> int:
    if number < 1:
        raise UsageError(f"stepsize and max_iter must be positive, got {number}")
    return number


def decayed(kind: str, gradient: Array, values: Array, decay: float) -> Array:
    """The gradient with that of the decay: L2, or L1 by the sign. UsageError for another kind."""
    if not decay:
        return gradient
    if kind not in ("L1", "L2"):
        raise UsageError(f"regularization_type must be L1 or L2, it is {kind!r}")
    return np.asarray(gradient + np.float32(decay) * (np.sign(values) if kind == "L1" else values))


def clip_factor(gradients: Sequence[Array], limit: float) -> float:
    """What gradients are multiplied by so that their common length is at most ``limit``; below 0 there is none."""
    if limit < 0:
        return 1.0
    squares: List[float] = [float(np.sum(np.square(g, dtype=np.float64))) for g in gradients]
    length = float(np.sqrt(sum(squares)))
    return limit / length if length > limit else 1.0
