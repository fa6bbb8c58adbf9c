"""How the learning rate changes: the policies of Caffe2's operator LearningRate, and the names of its arguments.

    Schedule("fixed")
    Schedule("step", stepsize=1000, gamma=0.1)
    Schedule("cosine", max_lr=1.0, min_lr=0.0, period=5000, t_mult=1.0, lr_shrink=1.0)

The rate of an iteration is the solver's ``rate`` times the policy; iterations count from 1. The policies and their
arguments are in ``runtime_arm/operators/solvers/policies.py``.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError, UsageError
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.solvers.policies import policy_of

# policy arguments that Caffe2 reads as integers; the others are floats
WHOLE = {
    "stepsize",
    "max_iter",
    "num_iter",
    "num_iter_1",
    "num_iter_2",
    "n1",
    "n2",
    "period",
    "active_period",
    "inactive_period",
    "active_first",
    "constant_warmup_num_iter",
    "linear_warmup_num_iter",
    "step_size",
    "sub_policy_num_iters",
}

WARM_UP = 0.3  # the share of all steps in which the rate of ``warmup`` rises


class Schedule:
    """A policy and its arguments. UsageError if there is no such policy, or if an argument is wrong."""

    def __init__(self, policy: str = "fixed", **arguments: Any) -> None:
        self.policy = policy
        self.arguments: Mapping[str, Any] = {name: _typed(name, value) for name, value in arguments.items()}
        try:
            policy_of(self.operator(1.0, "iteration", "rate"))
        except ArgumentError as error:
            raise UsageError(f"schedule {policy!r}: {error}") from None

    def operator(self, rate: float, iteration: str, output: str) -> OperatorDef:
        """The operator that computes the rate of an iteration."""
        arguments: Dict[str, Any] = {"policy": self.policy, "base_lr": float(rate), **self.arguments}
        return OperatorDef.of("LearningRate", [iteration], [output], **arguments)

    def __repr__(self) -> str:
        words = "".join(f", {name}={value!r}" for name, value in self.arguments.items())
        return f"Schedule({self.policy!r}{words})"


def schedule_of(text: str, steps: int) -> Schedule:
    """The schedule that a text names: ``fixed``, ``step:stepsize=1000,gamma=0.1``. UsageError for any other text.

    ``warmup`` is a rise and then a cosine. By default ``cosine``, ``poly`` and ``warmup`` reach 0 after ``steps``.
    """
    policy, _, rest = text.partition(":")
    arguments: Dict[str, Any] = {}
    for word in filter(None, rest.split(",")):
        name, mark, value = word.partition("=")
        if not mark:
            raise UsageError(f"schedule {text!r}: an argument is NAME=NUMBER, got {word!r}")
        try:
            arguments[name.strip()] = float(value)
        except ValueError:
            arguments[name.strip()] = value.strip()
    policy, usual = _whole_run(policy, steps)
    return Schedule(policy, **{**usual, **arguments})


def _whole_run(policy: str, steps: int) -> Tuple[str, Dict[str, Any]]:
    """Caffe2's name of the policy, and arguments that spread it over all steps."""
    if policy == "cosine":
        return policy, {"max_lr": 1.0, "min_lr": 0.0, "period": steps + 1, "t_mult": 1.0, "lr_shrink": 1.0}
    if policy == "poly":
        return policy, {"max_iter": steps + 1, "power": 1.0}
    if policy != "warmup":
        return policy, {}
    rising = max(1, round(steps * WARM_UP))
    cosine = {"max_lr": 1.0, "min_lr": 0.0, "period": steps + 1 - rising, "t_mult": 1.0, "lr_shrink": 1.0}
    rise = {"start_warmup_multiplier": 0.04, "constant_warmup_num_iter": 0, "linear_warmup_num_iter": rising}
    return "compositeCosine", {**rise, **{f"cosine_{name}": value for name, value in cosine.items()}}


def _typed(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return value
    own = name.rpartition("sub_policy_")[2].partition("_")[2] if name.startswith("sub_policy_") else name
    whole = name in WHOLE or own in WHOLE or own.partition("_")[2] in WHOLE
    if isinstance(value, (list, tuple, np.ndarray)):
        return [int(one) for one in value] if whole else [float(one) for one in value]
    return int(value) if whole else float(value)
