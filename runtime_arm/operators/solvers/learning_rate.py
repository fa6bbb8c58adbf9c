"""The learning rate of an iteration: Caffe2's operator with its policies, and Caffe's policies."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Callable, Dict, List

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.solvers.policies import policy_of, power
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def _one_rate(op: OperatorDef, iteration: TensorSpec) -> List[TensorSpec]:
    require(op, iteration.size == 1, "the iteration must be one number", iteration)
    return [TensorSpec((), np.float32)]


@operator("LearningRate", dtypes=("int64",))
def learning_rate(op: OperatorDef, iteration: TensorSpec) -> List[TensorSpec]:
    """base_lr * policy(iteration), one float32; ``policy`` is one of ``policies.POLICIES``. Source: Caffe2."""
    op.get_float("base_lr")
    policy_of(op)
    return _one_rate(op, iteration)


@learning_rate.reference
def learning_rate_reference(op: OperatorDef, iteration: Array) -> List[Any]:
    return [np.float32(op.get_float("base_lr") * policy_of(op)(int(iteration.reshape(())))).reshape(())]


def _caffe_step(op: OperatorDef, t: int) -> float:
    return power(op.get_float("gamma", 0.0), t // op.get_int("stepsize"))


def _caffe_exponential(op: OperatorDef, t: int) -> float:
    return power(op.get_float("gamma", 0.0), t)


def _caffe_inverse(op: OperatorDef, t: int) -> float:
    return power(1 + op.get_float("gamma", 0.0) * t, -op.get_float("power", 0.0))


def _caffe_multistep(op: OperatorDef, t: int) -> float:
    return power(op.get_float("gamma", 0.0), bisect_right(op.get_ints("stepvalue"), t))


def _caffe_polynomial(op: OperatorDef, t: int) -> float:
    return power(1 - t / op.get_int("max_iter"), op.get_float("power", 0.0))


def _caffe_sigmoid(op: OperatorDef, t: int) -> float:
    return float(1 / (1 + np.exp(-op.get_float("gamma", 0.0) * (t - op.get_int("stepsize", 0)))))


CAFFE_POLICIES: Dict[str, Callable[[OperatorDef, int], float]] = {
    "fixed": lambda op, t: 1.0,
    "step": _caffe_step,
    "exp": _caffe_exponential,
    "inv": _caffe_inverse,
    "multistep": _caffe_multistep,
    "poly": _caffe_polynomial,
    "sigmoid": _caffe_sigmoid,
}


@operator("LearningRate", domain="caffe", dtypes=("int64",))
def caffe_learning_rate(op: OperatorDef, iteration: TensorSpec) -> List[TensorSpec]:
    """base_lr * lr_policy(t), one float32. t counts from 0; the arguments are named as in Caffe's SolverParameter.

    fixed: 1; step: gamma^floor(t / stepsize); exp: gamma^t; inv: (1 + gamma t)^-power; multistep: gamma^(stepvalues
    reached); poly: (1 - t / max_iter)^power; sigmoid: 1 / (1 + exp(-gamma (t - stepsize))). Source: Caffe.
    """
    policy = op.get_str("lr_policy")
    if policy not in CAFFE_POLICIES:
        raise ArgumentError(op, f"lr_policy must be one of {', '.join(sorted(CAFFE_POLICIES))}, got {policy!r}")
    for name, needed in (("stepsize", "step"), ("max_iter", "poly")):
        if policy == needed and op.get_int(name, 0) < 1:
            raise ArgumentError(op, f"policy {policy} needs a positive {name}")
    if policy == "sigmoid" and op.get_float("gamma", 0.0) < 0:
        raise ArgumentError(op, "policy sigmoid needs a gamma of 0 or more")
    op.get_float("base_lr")
    return _one_rate(op, iteration)


@caffe_learning_rate.reference
def caffe_learning_rate_reference(op: OperatorDef, iteration: Array) -> List[Any]:
    policy = CAFFE_POLICIES[op.get_str("lr_policy")]
    return [np.float32(op.get_float("base_lr") * policy(op, int(iteration.reshape(())))).reshape(())]
