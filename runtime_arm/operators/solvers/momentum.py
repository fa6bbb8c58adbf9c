"""Stochastic gradient descent with momentum: MomentumSGD, MomentumSGDUpdate (Caffe2)."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.solvers.blocks import (
    Views,
    block_scratch,
    by_blocks,
    doubles,
    number,
    require_alike,
    require_number,
    singles,
)
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import TensorSpec


@operator("MomentumSGD", inputs=3, outputs=2, inplace={0: 0, 1: 1})
def momentum_sgd(op: OperatorDef, g: TensorSpec, m: TensorSpec, rate: TensorSpec) -> List[TensorSpec]:
    """The step that MomentumSGDUpdate subtracts, and the new momentum. Inputs: g, m, rate. Source: Caffe2."""
    require_alike(op, g, m)
    require_number(op, rate)
    return [g, m]


@operator("MomentumSGDUpdate", inputs=4, outputs=3, inplace={0: 0, 1: 1, 2: 3})
def momentum_sgd_update(
    op: OperatorDef, g: TensorSpec, m: TensorSpec, rate: TensorSpec, p: TensorSpec
) -> List[TensorSpec]:
    """m' = momentum m + rate g;  step = m', or with nesterov=1 (1 + momentum) m' - momentum m;  p' = p - step.

    Inputs: g, m, rate, p; outputs: step, m', p'. ``momentum`` and ``nesterov`` are 0 by default. Source: Caffe2.
    """
    require_alike(op, g, m, p)
    require_number(op, rate)
    return [g, m, p]


def momentum_step(op: OperatorDef, g: Array, m: Array, rate: Array) -> Tuple[Array, Array]:
    """The step and the new momentum, in float64."""
    momentum, (g, m) = op.get_float("momentum", 0.0), doubles(g, m)
    new = momentum * m + g * np.float64(number(rate))
    return ((1 + momentum) * new - momentum * m if op.get_bool("nesterov") else new), new


@momentum_sgd.reference
def momentum_sgd_reference(op: OperatorDef, g: Array, m: Array, rate: Array) -> List[Any]:
    return singles(*momentum_step(op, g, m.reshape(g.shape), rate))


@momentum_sgd_update.reference
def momentum_sgd_update_reference(op: OperatorDef, g: Array, m: Array, rate: Array, p: Array) -> List[Any]:
    step, new = momentum_step(op, g, m.reshape(g.shape), rate)
    return singles(step, new.reshape(m.shape), p - step.reshape(p.shape))


@momentum_sgd.kernel("NUMPY", scratch=block_scratch(1), splits_work=True)
def momentum_sgd_numpy(call: Call) -> Run:
    return _stepping(call, (0, 1), None)


@momentum_sgd_update.kernel("NUMPY", scratch=block_scratch(1), splits_work=True)
def momentum_sgd_update_numpy(call: Call) -> Run:
    return _stepping(call, (0, 1, 3), 2)


def _stepping(call: Call, tensors: Tuple[int, ...], parameter: Optional[int]) -> Run:
    momentum, nesterov = np.float32(call.op.get_float("momentum", 0.0)), call.op.get_bool("nesterov")
    rate = call.inputs[2]

    def begin() -> Any:
        lr = number(rate)

        def formula(x: Views, y: Views, spare: Views) -> None:
            (held,) = spare
            np.multiply(x[1], momentum, out=held)
            np.multiply(x[0], lr, out=y[0])
            np.add(held, y[0], out=y[1])
            if nesterov:
                np.multiply(y[1], 1 + momentum, out=y[0])
                np.subtract(y[0], held, out=y[0])
            else:
                np.copyto(y[0], y[1])
            if parameter is not None:
                np.subtract(x[parameter], y[0], out=y[parameter])

        return formula

    return by_blocks(call, tensors, begin)
