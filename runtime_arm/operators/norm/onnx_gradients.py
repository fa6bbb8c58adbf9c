"""The gradients of ONNX's normalisations, armnet's own operators: statistics are recomputed."""

from __future__ import annotations

from math import prod
from typing import Any, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.slopes import same_floats
from runtime_arm.operators.common.statistics import StackSum, require_floats, single_or_double
from runtime_arm.operators.norm.softmax import as_stack
from runtime_arm.operators.norm.standard_gradients import RULE, Given, declare_standard
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("LogSoftmaxGradient", domain="armnet", inputs=2, inplace={0: 1})
def log_softmax_gradient(op: OperatorDef, y: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dX = dY - exp(Y) times the sum of dY along ``axis`` (-1)."""
    as_stack(op, y.shape)
    return [same_floats(op, y, dy)]


@log_softmax_gradient.reference
def log_softmax_gradient_reference(op: OperatorDef, y: Array, dy: Array) -> List[Any]:
    a, d = (array.astype(np.float64).reshape(as_stack(op, y.shape)) for array in (y, dy))
    return [(d - np.exp(a) * d.sum(axis=1, keepdims=True)).reshape(y.shape).astype(y.dtype)]


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    outer, _, inner = as_stack(op, outputs[0].shape)
    return [TensorSpec((outer, 1, inner), outputs[0].dtype), outputs[0]]


@log_softmax_gradient.kernel("NUMPY", supports=single_or_double, scratch=_scratch)
def log_softmax_gradient_numpy(call: Call) -> Run:
    shape = as_stack(call.op, call.inputs[0].shape)
    y, dy, dx, powers = (array.reshape(shape) for array in (*call.inputs, call.outputs[0], call.scratch[1]))
    totals, sums = call.scratch[0], StackSum(dy)

    def run() -> None:
        np.exp(y, out=powers)
        sums.into(dy, totals)
        np.multiply(powers, totals, out=powers)
        np.subtract(dy, powers, out=dx)

    return run if y.size else lambda: None


def _layer(op: OperatorDef, inputs: Sequence[Any]) -> Given:
    dy, x, scale = inputs
    axis = axis_of(op, op.get_int("axis", -1), x.ndim)
    return Given(x, dy, scale, None, None, (prod(x.shape[:axis]), 1, prod(x.shape[axis:]), 1))


def _group(op: OperatorDef, inputs: Sequence[Any]) -> Given:
    dy, x, scale = inputs
    count = op.get_int("num_groups")
    return Given(x, dy, scale, None, None, (x.shape[0], count, x.shape[1] // count, prod(x.shape[2:])))


declare_standard("LayerNormalizationGradient", _layer, 3, f"{RULE} Inputs: dY, X, scale.", (2, 3), domain="armnet")
declare_standard("GroupNormalizationGradient", _group, 3, f"{RULE} Inputs: dY, X, scale.", 3, domain="armnet")


@operator("RMSNormalizationGradient", domain="armnet", inputs=3, outputs=2, dtypes=FLOATS)
def rms_normalization_gradient(op: OperatorDef, dy: TensorSpec, x: TensorSpec, scale: TensorSpec) -> List[TensorSpec]:
    """dX = r (g - x^ mean of g x^), with r = 1 / sqrt(mean of X squared + epsilon), x^ = X r, g = dY scale;
    dscale = the sum of dY x^."""
    require_floats(op, dy, x, scale)
    same_floats(op, dy, x)
    inner = prod(x.shape[axis_of(op, op.get_int("axis", -1), x.ndim) :])
    require(op, scale.size == inner, f"the scale must have {inner} elements", x, scale)
    return [x, scale]


@rms_normalization_gradient.reference
def rms_normalization_gradient_reference(op: OperatorDef, dy: Array, x: Array, scale: Array) -> List[Any]:
    axis = axis_of(op, op.get_int("axis", -1), x.ndim)
    flat = (prod(x.shape[:axis]), prod(x.shape[axis:]))
    d, a = (array.astype(np.float64).reshape(flat) for array in (dy, x))
    r = 1 / np.sqrt(np.square(a).mean(axis=1, keepdims=True) + op.get_float("epsilon", 1e-5))
    normal, terms = a * r, d * scale.astype(np.float64).reshape(1, -1)
    dx = r * (terms - normal * (terms * normal).mean(axis=1, keepdims=True))
    dscale = (d * normal).sum(axis=0)
    return [dx.reshape(x.shape).astype(x.dtype), dscale.reshape(scale.shape).astype(scale.dtype)]
