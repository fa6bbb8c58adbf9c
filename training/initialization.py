"""New weights for a network that is trained from scratch."""

from __future__ import annotations

from typing import Dict, List, Sequence

import numpy as np

from runtime_arm.execution.workspace import run_init_net
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.pair import Pair
from training.normalization import is_normalisation


def initialized(pair: Pair, seed: int = 0) -> Pair:
    """The pair with new weights, zero biases, and normalisations that change nothing. Integers and single numbers stay.

    Weights of two and more dimensions are drawn from uniform distributions that keep the variance of sums through a
    ReLU. Source: He et al., Delving Deep into Rectifiers (2015), equation 10.
    """
    inputs = {info.name for info in pair.inputs}
    values = {name: np.asarray(value) for name, value in run_init_net(pair.init_net).items() if name not in inputs}
    made = _normalisations(pair.predict_net.op)
    random = np.random.RandomState(seed)
    fills: List[OperatorDef] = [op for op in pair.init_net.op if inputs.intersection(op.output)]
    for name, value in values.items():
        if value.dtype == np.float32 and value.size > 1:
            value = np.full(value.shape, made[name], np.float32) if name in made else _drawn(value, random)
        fills.append(fill(name, value))
    return pair.replace(init_net=pair.init_net.replace(op=tuple(fills)))


def _normalisations(ops: Sequence[OperatorDef]) -> Dict[str, float]:
    """The initial scale, bias, mean and variance of every normalisation."""
    return {
        name: start for op in ops if is_normalisation(op) for name, start in zip(op.input[1:5], (1.0, 0.0, 0.0, 1.0))
    }


def _drawn(value: Array, random: np.random.RandomState) -> Array:
    if value.ndim < 2:
        return np.zeros(value.shape, np.float32)
    bound = np.sqrt(6 / max(1, value.size // value.shape[0]))
    drawn: Array = random.uniform(-bound, bound, value.shape).astype(np.float32)
    return drawn
