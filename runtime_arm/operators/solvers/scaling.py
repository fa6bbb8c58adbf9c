"""Limits of steps and weights: ClipTensorByScaling, Lars, LearningRateAdaption, WeightScale; and solvers with one state
for a whole tensor or two per number: Wngrad, Storm, Ftrl (Caffe2)."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.solvers.blocks import doubles, number, require_alike, require_number, singles
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

_NEVER = 2**31 - 1


@operator("ClipTensorByScaling", inputs=(2, 3), dtypes=("float32",), inplace={0: 0})
def clip_tensor_by_scaling(
    op: OperatorDef, x: TensorSpec, norm: TensorSpec, factor: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Y = X * limit / norm where norm > limit, else X. limit = ``threshold``, times input 2 if it is given.

    Source: Caffe2.
    """
    require_number(op, norm, *([] if factor is None else [factor]))
    threshold = op.get_float("threshold")
    require(op, threshold > 0, f"threshold must be greater than 0, got {threshold:g}")
    return [x]


@clip_tensor_by_scaling.reference
def clip_tensor_by_scaling_reference(
    op: OperatorDef, x: Array, norm: Array, factor: Optional[Array] = None
) -> List[Any]:
    limit = op.get_float("threshold") * (1.0 if factor is None else float(number(factor)))
    size = np.float64(number(norm))
    return singles(x * (limit / size) if size > limit else x.copy())


@operator("Lars", inputs=5, dtypes=("float32",))
def lars(
    op: OperatorDef, x: TensorSpec, g: TensorSpec, decay: TensorSpec, trust: TensorSpec, highest: TensorSpec
) -> List[TensorSpec]:
    """Y = trust / (|g| / |X| + decay + offset), at least lr_min and at most ``highest``; 1 instead where |X| is 0.

    Inputs: X, g, decay, trust, highest. Y: (1,). ``offset`` is 0.5, ``lr_min`` 0. Source: Caffe2; You et al., Large
    Batch Training of Convolutional Networks (2017).
    """
    require_alike(op, x, g)
    require_number(op, decay, trust, highest)
    for name, default in (("offset", 0.5), ("lr_min", 0.0)):
        value = op.get_float(name, default)
        require(op, value >= 0, f"{name} must be at least 0, got {value:g}")
    return [x.with_shape((1,))]


@lars.reference
def lars_reference(op: OperatorDef, x: Array, g: Array, decay: Array, trust: Array, highest: Array) -> List[Any]:
    length, steepness = (np.sqrt(np.square(array).sum()) for array in doubles(x, g))
    rate = 1.0
    if length > 0:
        rate = float(number(trust)) / (steepness / length + float(number(decay)) + op.get_float("offset", 0.5))
    return singles(np.full(1, np.fmax(np.fmin(rate, float(number(highest))), op.get_float("lr_min", 0.0))))


@operator("LearningRateAdaption", inputs=3, dtypes=("float32",), inplace={0: 0})
def learning_rate_adaption(op: OperatorDef, rate: TensorSpec, g: TensorSpec, step: TensorSpec) -> List[TensorSpec]:
    """Y = rate (1 - lr_alpha cos(g, step)), or without ``normalized_lr_adaption`` rate - lr_alpha (g . step).

    Inputs: rate, g, the step of the last iteration. ``lr_alpha`` is 0.01. Source: Caffe2; Baydin et al., Online
    Learning Rate Adaptation with Hypergradient Descent (2018).
    """
    require_alike(op, g, step)
    require_number(op, rate)
    return [rate]


@learning_rate_adaption.reference
def learning_rate_adaption_reference(op: OperatorDef, rate: Array, g: Array, step: Array) -> List[Any]:
    alpha, (old, g, step) = op.get_float("lr_alpha", 0.01), doubles(rate, g.reshape(-1), step.reshape(-1))
    along = (g * step).sum()
    if not op.get_bool("normalized_lr_adaption", True):
        return singles(old - alpha * along)
    lengths = [max(float(np.sqrt(np.square(array).sum())), 1e-12) for array in (g, step)]
    return singles(old * (1 - alpha * along / (lengths[0] * lengths[1])))


@operator("WeightScale", inputs=2, inplace={0: 0})
def weight_scale(op: OperatorDef, w: TensorSpec, iteration: TensorSpec) -> List[TensorSpec]:
    """Y = scale w where t = iteration + 1 is a multiple of ``stepsize`` and less than ``upper_bound_iter``, else w.

    ``scale`` is 1, the other two are the largest int32. Source: Caffe2.
    """
    require_alike(op, w)
    require(op, iteration.size == 1 and iteration.dtype == np.int64, "the iteration must be one int64", iteration)
    if op.get_int("stepsize", _NEVER) < 1:
        raise ArgumentError(op, f"stepsize must be at least 1, got {op.get_int('stepsize')}")
    return [w]


@weight_scale.reference
def weight_scale_reference(op: OperatorDef, w: Array, iteration: Array) -> List[Any]:
    t = int(number(iteration)) + 1
    scales = t % op.get_int("stepsize", _NEVER) == 0 and t < op.get_int("upper_bound_iter", _NEVER)
    return singles(w.astype(np.float64) * (op.get_float("scale", 1.0) if scales else 1.0))


@operator("Wngrad", inputs=4, outputs=(2, 4), inplace={0: 0, 1: 1})
def wngrad(op: OperatorDef, p: TensorSpec, b: TensorSpec, g: TensorSpec, rate: TensorSpec) -> List[TensorSpec]:
    """p' = p + rate g / (b + epsilon);  b' = b + |g|^2 / (b + epsilon). b is one number; ``epsilon`` is 1e-5.

    Inputs: p, b, g, rate. Outputs: p', b', and if wanted rate / (b + epsilon) and that times g. Source: Caffe2; Wu et
    al., WNGrad (2018).
    """
    require_alike(op, p, g)
    require_number(op, b, rate)
    return [p, b, b, g]


@wngrad.reference
def wngrad_reference(op: OperatorDef, p: Array, b: Array, g: Array, rate: Array) -> List[Any]:
    divisor, (gradient,) = np.float64(number(b)) + op.get_float("epsilon", 1e-5), doubles(g.reshape(p.shape))
    new = b + np.square(gradient).sum() / divisor
    effective = np.float64(number(rate)) / divisor
    update = effective * gradient
    return singles(p + update, new.reshape(b.shape), np.full(b.shape, effective), update.reshape(g.shape))


@operator("Storm", inputs=5, outputs=3, inplace={0: 0, 1: 1, 2: 2})
def storm(
    op: OperatorDef, p: TensorSpec, m: TensorSpec, s: TensorSpec, g: TensorSpec, rate: TensorSpec
) -> List[TensorSpec]:
    """s' = s + |g|^2;  e = rate / cbrt(beta + s');  m' = g + (1 - momentum e^2) (m - g);  p' = p + e m'.

    s is one number. Inputs: p, m, s, g, rate; outputs: p', m', s'. ``momentum`` is 10, ``beta`` 0.1. Source: Caffe2;
    Cutkosky and Orabona, Momentum-Based Variance Reduction in Non-Convex SGD (2019).
    """
    require_alike(op, p, m, g)
    require_number(op, s, rate)
    return [p, m, s]


def storm_rates(op: OperatorDef, s: Array, g: Array, rate: Array) -> Tuple[Array, Any, Any]:
    """s', e and momentum e^2 of ``storm``, in float64."""
    s = s.astype(np.float64) + np.square(g.astype(np.float64)).sum()
    effective = np.float64(number(rate)) / np.cbrt(op.get_float("beta", 0.1) + number(s))
    return s, effective, op.get_float("momentum", 10.0) * effective**2


@storm.reference
def storm_reference(op: OperatorDef, p: Array, m: Array, s: Array, g: Array, rate: Array) -> List[Any]:
    new, effective, share = storm_rates(op, s, g, rate)
    wide, moment, gradient = doubles(p, m, g.reshape(m.shape))
    moment = gradient + (1 - share) * (moment - gradient)
    return singles(wide + effective * moment.reshape(p.shape), moment, new)


@operator("Ftrl", inputs=(3, 4), outputs=2, inplace={0: 0, 1: 1})
def ftrl(
    op: OperatorDef, p: TensorSpec, state: TensorSpec, g: TensorSpec, alpha: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """n' = n + g^2;  z' = z + g - (sqrt(n') - sqrt(n)) / alpha p;  p' = 0 where |z'| <= lambda1, else
    (sign(z') lambda1 - z') / ((beta + sqrt(n')) / alpha + lambda2).

    Inputs: p, state (..., 2) with n and z, g, and alpha instead of the argument. alpha is 0.005, beta 1, lambda1 and
    lambda2 0.001. Source: Caffe2; McMahan et al., Ad Click Prediction (2013).
    """
    require_ftrl(op, p, state, alpha)
    require_alike(op, p, g)
    return [p, state]


def require_ftrl(op: OperatorDef, p: TensorSpec, state: TensorSpec, alpha: Optional[TensorSpec]) -> None:
    """ShapeError unless the state fits the parameter, and alpha, where it is given, is a number."""
    require(op, state.size == 2 * p.size and state.dtype == np.float32, "the state must be n and z each", p, state)
    require_number(op, *([] if alpha is None else [alpha]))


@ftrl.reference
def ftrl_reference(op: OperatorDef, p: Array, state: Array, g: Array, alpha: Optional[Array] = None) -> List[Any]:
    flat, pairs, gradient = doubles(p.reshape(-1), state.reshape(-1, 2), g.reshape(-1))
    new, pairs = ftrl_step(op, flat, pairs, gradient, alpha)
    return singles(new.reshape(p.shape), pairs.reshape(state.shape))


def ftrl_step(op: OperatorDef, p: Array, pairs: Array, g: Array, alpha: Optional[Array]) -> Tuple[Array, Array]:
    """p', and pairs (..., 2) of n' and z', in float64."""
    n, z, divisor = _ftrl_state(op, p, pairs, g, alpha)
    lambda1 = op.get_float("lambda1", 0.001)
    return np.where(np.abs(z) > lambda1, (np.sign(z) * lambda1 - z) / divisor, 0.0), np.stack([n, z], axis=-1)


def _ftrl_state(
    op: OperatorDef, p: Array, pairs: Array, g: Array, alpha: Optional[Array]
) -> Tuple[Array, Array, Array]:
    """n', z' and (beta + sqrt(n')) / alpha + lambda2."""
    rate = op.get_float("alpha", 0.005) if alpha is None else float(number(alpha))
    n = pairs[..., 0] + g * g
    z = pairs[..., 1] + g - (np.sqrt(n) - np.sqrt(pairs[..., 0])) / rate * p
    return n, z, (op.get_float("beta", 1.0) + np.sqrt(n)) / rate + op.get_float("lambda2", 0.001)


@operator("GFtrl", inputs=(3, 4), outputs=2, inplace={0: 0, 1: 1})
def gftrl(
    op: OperatorDef, p: TensorSpec, state: TensorSpec, g: TensorSpec, alpha: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Ftrl that sets whole columns to 0: those of p (M, ...) whose z' is no longer than L = lambda1 sqrt(M); in others
    p' = z' (L / |z'| - 1) / ((beta + sqrt(n')) / alpha + lambda2). Inputs and arguments are Ftrl's. Source: Caffe2.
    """
    require_ftrl(op, p, state, alpha)
    require_alike(op, p, g)
    require(op, p.ndim > 0, "the parameter must have rows", p)
    return [p, state]


@gftrl.reference
def gftrl_reference(op: OperatorDef, p: Array, state: Array, g: Array, alpha: Optional[Array] = None) -> List[Any]:
    rows = len(p), math.prod(p.shape[1:])  # either may be 0, so -1 would say too little
    wide, gradient = doubles(p.reshape(rows), g.reshape(rows))
    (pairs,) = doubles(state.reshape(*wide.shape, 2))
    n, z, divisor = _ftrl_state(op, wide, pairs, gradient, alpha)
    lengths, least = np.sqrt(np.square(z).sum(axis=0)), op.get_float("lambda1", 0.001) * np.sqrt(len(p))
    with np.errstate(divide="ignore", invalid="ignore"):
        new = np.where(lengths > least, z * (least / lengths - 1) / divisor, 0.0)
    return singles(new.reshape(p.shape), np.stack([n, z], axis=-1).reshape(state.shape))
