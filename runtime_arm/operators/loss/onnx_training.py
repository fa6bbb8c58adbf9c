"""ONNX's optimisers, one step each; domain ai.onnx.preview.training.

Inputs: the learning rate R and the step count T; then, for n tensors, n values, n gradients, and n of each state.
Outputs: n new values, then n of each new state. With ``norm_coefficient`` c, the gradient of a value x is g + c x.
Source: ONNX's operator docs.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

DOMAIN = "ai.onnx.preview.training"
# computes the new value and the new states from (op, rate, steps, value, gradient, *states), in float64
Step = Callable[..., Sequence[Array]]


def _declare(type: str, states: int, step: Step, doc: str) -> None:
    @operator(type, domain=DOMAIN, inputs=(4 + states, None), outputs=(1 + states, None), dtypes=("float32", "float64"))
    def schema(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
        specs = [spec for spec in inputs if spec is not None]
        require(op, len(specs) == len(inputs) and (len(specs) - 2) % (2 + states) == 0, "an input is missing", *inputs)
        require(op, specs[0].size == specs[1].size == 1, "R and T must be one number each", *specs[:2])
        count = (len(specs) - 2) // (2 + states)
        for at in range(count):
            group = specs[2 + at :: count]
            require(op, len({spec.shape for spec in group}) == 1, "a value, its gradient and states differ", *group)
        values = specs[2 : 2 + count]
        return values * (1 + states)

    schema.__doc__ = doc

    @schema.reference
    def reference(op: OperatorDef, rate: Array, steps: Array, *inputs: Array) -> List[Any]:
        count = len(inputs) // (2 + states)
        results: List[List[Array]] = []
        for at in range(count):
            value, gradient, *held = (array.astype(np.float64) for array in inputs[at::count])
            gradient = gradient + op.get_float("norm_coefficient", 0.0) * value
            new = step(op, float(rate.reshape(-1)[0]), int(steps.reshape(-1)[0]), value, gradient, *held)
            results.append([result.astype(inputs[at].dtype) for result in new])
        return [result for kind in zip(*results) for result in kind]


def _adagrad(op: OperatorDef, rate: float, steps: int, x: Array, g: Array, h: Array) -> Sequence[Array]:
    rate = rate / (1 + steps * op.get_float("decay_factor", 0.0))
    h = h + g * g
    return x - rate * g / (np.sqrt(h) + op.get_float("epsilon", 0.0)), h


def _adam(op: OperatorDef, rate: float, steps: int, x: Array, g: Array, v: Array, h: Array) -> Sequence[Array]:
    alpha, beta = op.get_float("alpha", 0.9), op.get_float("beta", 0.999)
    v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
    if steps > 0:
        rate = rate * np.sqrt(1 - beta**steps) / (1 - alpha**steps)
    x = x - rate * v / (np.sqrt(h) + op.get_float("epsilon", 0.0))
    return (1 - op.get_float("norm_coefficient_post", 0.0)) * x, v, h


def _momentum(op: OperatorDef, rate: float, steps: int, x: Array, g: Array, v: Array) -> Sequence[Array]:
    mode, alpha = op.get_str("mode"), op.get_float("alpha")
    if mode not in ("standard", "nesterov"):
        raise ArgumentError(op, f"mode must be standard or nesterov, got {mode!r}")
    v = alpha * v + (op.get_float("beta") if steps > 0 else 1.0) * g
    return x - rate * (g + alpha * v if mode == "nesterov" else v), v


_declare(
    "Adagrad",
    1,
    _adagrad,
    """h += g^2;  x -= r g / (sqrt(h) + epsilon),  r = R / (1 + T decay_factor).""",
)
_declare(
    "Adam",
    2,
    _adam,
    """v = alpha v + (1 - alpha) g;  h = beta h + (1 - beta) g^2;  x -= r v / (sqrt(h) + epsilon).

    r = R sqrt(1 - beta^T) / (1 - alpha^T), and R where T is 0. Then x *= 1 - norm_coefficient_post.
    """,
)
_declare(
    "Momentum",
    1,
    _momentum,
    """v = alpha v + b g;  x -= R v,  or R (g + alpha v) with mode nesterov;  b is beta, and 1 where T is 0.""",
)
