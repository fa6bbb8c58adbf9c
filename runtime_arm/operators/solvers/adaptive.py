"""Solvers that scale each step by the size of its gradients: Adagrad, Adam, Adadelta, RmsProp, and Caffe's RMSProp.

Caffe2's solvers add ``rate`` times the step instead of subtracting it: a negative rate descends.
"""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.solvers.blocks import (
    Views,
    block_scratch,
    by_blocks,
    doubles,
    number,
    require_alike,
    require_number,
    share,
    singles,
)
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("Adagrad", inputs=4, outputs=(2, 4), inplace={0: 0, 1: 1})
def adagrad(op: OperatorDef, p: TensorSpec, h: TensorSpec, g: TensorSpec, rate: TensorSpec) -> List[TensorSpec]:
    """h' = decay h + g^2;  p' = p + rate g / (sqrt(h') + epsilon). First, g += weight_decay p.

    Inputs: p, h, g, rate; outputs: p', h', rate / (sqrt(h') + epsilon), p' - p. ``decay`` is 1, ``epsilon`` 1e-5,
    ``weight_decay`` 0. Source: Caffe2; Duchi et al., Adaptive Subgradient Methods (2011).
    """
    require_alike(op, p, h, g)
    require_number(op, rate)
    return [p, h, p, p]


@adagrad.reference
def adagrad_reference(op: OperatorDef, p: Array, h: Array, g: Array, rate: Array) -> List[Any]:
    shapes, (p, h, g) = (p.shape, h.shape), doubles(p, h.reshape(p.shape), g.reshape(p.shape))
    g = g + op.get_float("weight_decay", 0.0) * p
    h = op.get_float("decay", 1.0) * h + g * g
    effective = np.float64(number(rate)) / (np.sqrt(h) + op.get_float("epsilon", 1e-5))
    return singles(p + effective * g, h.reshape(shapes[1]), effective, effective * g)


def _two_outputs(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if len(outputs) > 2:
        return "only for two outputs"
    return "only without weight_decay" if op.get_float("weight_decay", 0.0) else None


@adagrad.kernel("NUMPY", supports=_two_outputs, scratch=block_scratch(1), splits_work=True)
def adagrad_numpy(call: Call) -> Run:
    epsilon, decay = np.float32(call.op.get_float("epsilon", 1e-5)), np.float32(call.op.get_float("decay", 1.0))

    def begin() -> Any:
        lr = number(call.inputs[3])

        def formula(x: Views, y: Views, spare: Views) -> None:
            (t,) = spare
            np.multiply(x[2], x[2], out=t)
            np.multiply(x[1], decay, out=y[1])
            np.add(y[1], t, out=y[1])
            np.sqrt(y[1], out=t)
            np.add(t, epsilon, out=t)
            np.divide(x[2], t, out=t)
            np.multiply(t, lr, out=t)
            np.add(x[0], t, out=y[0])

        return formula

    return by_blocks(call, (0, 1, 2), begin)


def adam_correction(op: OperatorDef, iteration: Array) -> float:
    """sqrt(1 - beta2^t) / (1 - beta1^t), where t = iteration + 1: the moments start at 0."""
    t = int(number(iteration)) + 1
    return math.sqrt(1 - share(op, "beta2", 0.999)[0] ** t) / (1 - share(op, "beta1", 0.9)[0] ** t)


def _rectified(op: OperatorDef, iteration: Array) -> Tuple[float, bool]:
    """What RAdam multiplies m' by, and whether it divides it by sqrt(v') + epsilon: the first squares say too little.

    Source: Liu et al., On the Variance of the Adaptive Learning Rate and Beyond (2020).
    """
    t = int(number(iteration)) + 1
    kept, new = share(op, "beta2", 0.999)
    most = 2 / new - 1
    rho = most - 2 * t * kept**t / (1 - kept**t)
    if rho < 5:
        return 1 / (1 - share(op, "beta1", 0.9)[0] ** t), False
    ratio = (rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho)
    return adam_correction(op, iteration) * math.sqrt(ratio), True


def check_adam(op: OperatorDef, iteration: TensorSpec) -> None:
    """Refuse what Adam's operators cannot do."""
    for name in ("beta1", "beta2"):
        if not 0 <= op.get_float(name, 0.9) < 1:
            raise ArgumentError(op, f"{name} must be from 0 to less than 1, got {op.get_float(name)}")
    require(op, iteration.size == 1 and iteration.dtype == np.int64, "the iteration must be one int64", iteration)


@operator("Adam", inputs=6, outputs=(3, 4), inplace={0: 0, 1: 1, 2: 2})
def adam(
    op: OperatorDef,
    p: TensorSpec,
    m: TensorSpec,
    v: TensorSpec,
    g: TensorSpec,
    rate: TensorSpec,
    iteration: TensorSpec,
) -> List[TensorSpec]:
    """p' = p + rate s,  s = c m' / (sqrt(v') + epsilon),  with decaying means m of g and v of g^2.

    m' = beta1 m + (1 - beta1) g;  v' = beta2 v + (1 - beta2) g^2;  c = sqrt(1 - beta2^t) / (1 - beta1^t), where t is
    iteration + 1. Inputs: p, m, v, g, rate, iteration; outputs: p', m', v', s. beta1 is 0.9, beta2 0.999, epsilon 1e-5.
    Source: Caffe2; Kingma and Ba, Adam (2015).
    """
    require_alike(op, p, m, v, g)
    require_number(op, rate)
    check_adam(op, iteration)
    return [p, m, v, g]


def adam_step(op: OperatorDef, m: Array, v: Array, g: Array, iteration: Array) -> Tuple[Array, Array, Array]:
    """s, m' and v' of ``adam``, in float64. v may be a column, one number a row."""
    m, v, g = doubles(m, v, g)
    (keep1, new1), (keep2, new2) = share(op, "beta1", 0.9), share(op, "beta2", 0.999)
    squares = g * g if v.shape == g.shape else (g * g).mean(axis=1, keepdims=True)
    m, v = keep1 * m + new1 * g, keep2 * v + new2 * squares
    scale, divides = adam_correction(op, iteration), True
    if op.type == "SparseAdam" and op.get_bool("enableRAdam"):  # Caffe2's dense Adam knows no RAdam
        scale, divides = _rectified(op, iteration)
    return scale * m / (np.sqrt(v) + op.get_float("epsilon", 1e-5) if divides else 1), m, v


@adam.reference
def adam_reference(op: OperatorDef, p: Array, m: Array, v: Array, g: Array, rate: Array, iteration: Array) -> List[Any]:
    step, m_new, v_new = adam_step(op, m.reshape(-1), v.reshape(-1), g.reshape(-1), iteration)
    p_new = p + np.float64(number(rate)) * step.reshape(p.shape)
    return singles(p_new, m_new.reshape(m.shape), v_new.reshape(v.shape), step.reshape(g.shape))


@adam.kernel("NUMPY", scratch=block_scratch(1), splits_work=True)
def adam_numpy(call: Call) -> Run:
    keep1, new1 = map(np.float32, share(call.op, "beta1", 0.9))
    keep2, new2 = map(np.float32, share(call.op, "beta2", 0.999))
    epsilon = np.float32(call.op.get_float("epsilon", 1e-5))

    def begin() -> Any:
        lr, correction = number(call.inputs[4]), np.float32(adam_correction(call.op, call.inputs[5]))

        def formula(x: Views, y: Views, spare: Views) -> None:
            (t,) = spare
            np.multiply(x[3], new1, out=t)
            np.multiply(x[1], keep1, out=y[1])
            np.add(y[1], t, out=y[1])
            np.multiply(x[3], x[3], out=t)
            np.multiply(t, new2, out=t)
            np.multiply(x[2], keep2, out=y[2])
            np.add(y[2], t, out=y[2])
            np.sqrt(y[2], out=t)
            np.add(t, epsilon, out=t)
            np.divide(y[1], t, out=t)
            np.multiply(t, correction, out=t)
            if len(y) > 3:
                np.copyto(y[3], t)
            np.multiply(t, lr, out=t)
            np.add(x[0], t, out=y[0])

        return formula

    return by_blocks(call, (0, 1, 2, 3), begin)


@operator("Adadelta", inputs=5, outputs=3, inplace={0: 0, 1: 1, 2: 2})
def adadelta(
    op: OperatorDef, p: TensorSpec, h: TensorSpec, d: TensorSpec, g: TensorSpec, rate: TensorSpec
) -> List[TensorSpec]:
    """h' = decay h + (1 - decay) g^2;  s = g sqrt((d + epsilon) / (h' + epsilon));  d' = decay d + (1 - decay) s^2.

    p' = p + rate s. Inputs: p, h, d, g, rate; outputs: p', h', d'. ``decay`` is 0.95, ``epsilon`` 1e-5. Source: Caffe2;
    Zeiler, ADADELTA (2012).
    """
    require_alike(op, p, h, d, g)
    require_number(op, rate)
    epsilon, decay = op.get_float("epsilon", 1e-5), op.get_float("decay", 0.95)
    require(op, epsilon >= 0, f"epsilon must be at least 0, got {epsilon:g}")
    require(op, 0 < decay < 1, f"decay must be between 0 and 1, got {decay:g}")
    return [p, h, d]


def adadelta_step(op: OperatorDef, h: Array, d: Array, g: Array) -> Tuple[Array, Array, Array]:
    """s, h' and d' of ``adadelta``, in float64."""
    (h, d, g), (keep, new), epsilon = doubles(h, d, g), share(op, "decay", 0.95), op.get_float("epsilon", 1e-5)
    h = keep * h + new * g * g
    step = g * np.sqrt(d + epsilon) / np.sqrt(h + epsilon)
    return step, h, keep * d + new * step * step


@adadelta.reference
def adadelta_reference(op: OperatorDef, p: Array, h: Array, d: Array, g: Array, rate: Array) -> List[Any]:
    step, h_new, d_new = adadelta_step(op, h.reshape(-1), d.reshape(-1), g.reshape(-1))
    p_new = p + np.float64(number(rate)) * step.reshape(p.shape)
    return singles(p_new, h_new.reshape(h.shape), d_new.reshape(d.shape))


@adadelta.kernel("NUMPY", scratch=block_scratch(2), splits_work=True)
def adadelta_numpy(call: Call) -> Run:
    keep, new = map(np.float32, share(call.op, "decay", 0.95))
    epsilon = np.float32(call.op.get_float("epsilon", 1e-5))

    def begin() -> Any:
        lr = number(call.inputs[4])

        def formula(x: Views, y: Views, spare: Views) -> None:
            t, s = spare
            np.multiply(x[3], x[3], out=t)
            np.multiply(t, new, out=t)
            np.multiply(x[1], keep, out=y[1])
            np.add(y[1], t, out=y[1])
            np.add(y[1], epsilon, out=t)
            np.add(x[2], epsilon, out=s)
            np.divide(s, t, out=s)
            np.sqrt(s, out=s)
            np.multiply(s, x[3], out=s)
            np.multiply(s, lr, out=t)
            np.add(x[0], t, out=y[0])
            np.multiply(s, s, out=s)
            np.multiply(s, new, out=s)
            np.multiply(x[2], keep, out=y[2])
            np.add(y[2], s, out=y[2])

        return formula

    return by_blocks(call, (0, 1, 2, 3), begin)


@operator("RmsProp", inputs=4, outputs=3, inplace={0: 0, 1: 1, 2: 2})
def rms_prop(op: OperatorDef, g: TensorSpec, h: TensorSpec, m: TensorSpec, rate: TensorSpec) -> List[TensorSpec]:
    """h' = h + (1 - decay) (g^2 - h);  m' = momentum m + rate g / sqrt(h' + epsilon). Nothing is added to a parameter.

    Inputs: g, h, m, rate; outputs: m', h', m'. ``decay`` is 0.9, ``momentum`` 0, ``epsilon`` 1e-5. Source: Caffe2.
    """
    require_alike(op, g, h, m)
    require_number(op, rate)
    return [g, h, m]


@rms_prop.reference
def rms_prop_reference(op: OperatorDef, g: Array, h: Array, m: Array, rate: Array) -> List[Any]:
    shapes, (g, h, m) = (g.shape, h.shape, m.shape), doubles(*(x.reshape(-1) for x in (g, h, m)))
    h = h + share(op, "decay", 0.9)[1] * (g * g - h)
    step = np.float64(number(rate)) * g / np.sqrt(h + op.get_float("epsilon", 1e-5))
    m = op.get_float("momentum", 0.0) * m + step
    return singles(*(x.reshape(shape) for x, shape in zip((m, h, m), shapes)))


@rms_prop.kernel("NUMPY", scratch=block_scratch(1), splits_work=True)
def rms_prop_numpy(call: Call) -> Run:
    new, momentum = np.float32(share(call.op, "decay", 0.9)[1]), np.float32(call.op.get_float("momentum", 0.0))
    epsilon = np.float32(call.op.get_float("epsilon", 1e-5))

    def begin() -> Any:
        lr = number(call.inputs[3])

        def formula(x: Views, y: Views, spare: Views) -> None:
            (t,) = spare
            np.multiply(x[0], x[0], out=t)
            np.subtract(t, x[1], out=t)
            np.multiply(t, new, out=t)
            np.add(x[1], t, out=y[1])
            np.add(y[1], epsilon, out=t)
            np.sqrt(t, out=t)
            np.divide(x[0], t, out=t)
            np.multiply(t, lr, out=t)
            np.multiply(x[2], momentum, out=y[2])
            np.add(y[2], t, out=y[2])
            np.copyto(y[0], y[2])

        return formula

    return by_blocks(call, (0, 1, 2), begin)


@operator("RMSProp", domain="caffe", inputs=4, outputs=2, inplace={0: 0, 1: 1})
def caffe_rms_prop(op: OperatorDef, p: TensorSpec, h: TensorSpec, g: TensorSpec, rate: TensorSpec) -> List[TensorSpec]:
    """h' = rms_decay h + (1 - rms_decay) g^2;  p' = p - rate g / (sqrt(h') + delta). Inputs: p, h, g, rate.

    ``rms_decay`` is 0.99, ``delta`` 1e-8, as in Caffe's SolverParameter. Source: Caffe; Tieleman and Hinton, RMSProp.
    """
    require_alike(op, p, h, g)
    require_number(op, rate)
    return [p, h]


@caffe_rms_prop.reference
def caffe_rms_prop_reference(op: OperatorDef, p: Array, h: Array, g: Array, rate: Array) -> List[Any]:
    (keep, new), (wide, squares, g) = share(op, "rms_decay", 0.99), doubles(p, h.reshape(p.shape), g.reshape(p.shape))
    squares = keep * squares + new * g * g
    wide = wide - np.float64(number(rate)) * g / (np.sqrt(squares) + op.get_float("delta", 1e-8))
    return singles(wide, squares.reshape(h.shape))


@caffe_rms_prop.kernel("NUMPY", scratch=block_scratch(1), splits_work=True)
def caffe_rms_prop_numpy(call: Call) -> Run:
    keep, new = map(np.float32, share(call.op, "rms_decay", 0.99))
    delta = np.float32(call.op.get_float("delta", 1e-8))

    def begin() -> Any:
        lr = number(call.inputs[3])

        def formula(x: Views, y: Views, spare: Views) -> None:
            (t,) = spare
            np.multiply(x[2], x[2], out=t)
            np.multiply(t, new, out=t)
            np.multiply(x[1], keep, out=y[1])
            np.add(y[1], t, out=y[1])
            np.sqrt(y[1], out=t)
            np.add(t, delta, out=t)
            np.divide(x[2], t, out=t)
            np.multiply(t, lr, out=t)
            np.subtract(x[0], t, out=y[0])

        return formula

    return by_blocks(call, (0, 1, 2), begin)
