"""How large a step may be: ClipTensorByScaling, Lars; and solvers with one state for a whole tensor or two a number:
Wngrad, Ftrl (Caffe2)."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.solvers.blocks import doubles, number, require_alike, require_number, singles
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("ClipTensorByScaling", inputs=(2, 3), dtypes=("float32",), inplace={0: 0})
def clip_tensor_by_scaling(
    op: OperatorDef, x: TensorSpec, norm: TensorSpec, factor: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Y = X * limit / norm where norm > limit, else X. limit = ``threshold``, times input 2 if it is given.

    Source: Caffe2.
    """
    require_number(op, norm, *([] if factor is None else [factor]))
    op.get_float("threshold")
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
    return [x.with_shape((1,))]


@lars.reference
def lars_reference(op: OperatorDef, x: Array, g: Array, decay: Array, trust: Array, highest: Array) -> List[Any]:
    length, steepness = (np.sqrt(np.square(array).sum()) for array in doubles(x, g))
    rate = 1.0
    if length > 0:
        rate = float(number(trust)) / (steepness / length + float(number(decay)) + op.get_float("offset", 0.5))
    return singles(np.full(1, max(min(rate, float(number(highest))), op.get_float("lr_min", 0.0))))


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


@operator("Ftrl", inputs=(3, 4), outputs=2, inplace={0: 0, 1: 1})
def ftrl(
    op: OperatorDef, p: TensorSpec, state: TensorSpec, g: TensorSpec, alpha: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """n' = n + g^2;  z' = z + g - (sqrt(n') - sqrt(n)) / alpha p;  p' = 0 where |z'| <= lambda1, else
    (sign(z') lambda1 - z') / ((beta + sqrt(n')) / alpha + lambda2).

    Inputs: p, state (..., 2) with n and z, g, and alpha instead of the argument. alpha is 0.005, beta 1, lambda1 and
    lambda2 0.001. Source: Caffe2; McMahan et al., Ad Click Prediction (2013).
    """
    require_alike(op, p, g)
    require(op, state.size == 2 * p.size and state.dtype == np.float32, "the state must be n and z each", p, state)
    require_number(op, *([] if alpha is None else [alpha]))
    return [p, state]


@ftrl.reference
def ftrl_reference(op: OperatorDef, p: Array, state: Array, g: Array, alpha: Optional[Array] = None) -> List[Any]:
    rate = op.get_float("alpha", 0.005) if alpha is None else float(number(alpha))
    flat, pairs, gradient = doubles(p.reshape(-1), state.reshape(-1, 2), g.reshape(-1))
    n = pairs[:, 0] + gradient * gradient
    z = pairs[:, 1] + gradient - (np.sqrt(n) - np.sqrt(pairs[:, 0])) / rate * flat
    lambda1, lambda2 = op.get_float("lambda1", 0.001), op.get_float("lambda2", 0.001)
    new = (np.sign(z) * lambda1 - z) / ((op.get_float("beta", 1.0) + np.sqrt(n)) / rate + lambda2)
    new = np.where(np.abs(z) > lambda1, new, 0.0)
    return singles(new.reshape(p.shape), np.stack([n, z], axis=1).reshape(state.shape))
