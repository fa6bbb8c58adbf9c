"""The gradient of Softmax. Source: caffe2/operators/softmax_op.cc."""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.slopes import same_floats
from runtime_arm.operators.common.statistics import StackSum, single_or_double
from runtime_arm.operators.norm.softmax import as_stack
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import TensorSpec


@operator("SoftmaxGradient", inputs=2, inplace={0: 1})
def softmax_gradient(op: OperatorDef, y: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dX = Y (dY - the sum of Y dY per row), rows as for Softmax."""
    as_stack(op, y.shape)
    return [same_floats(op, y, dy)]


@softmax_gradient.reference
def softmax_gradient_reference(op: OperatorDef, y: Array, dy: Array) -> List[Any]:
    a, d = (array.astype(np.float64).reshape(as_stack(op, y.shape)) for array in (y, dy))
    return [(a * (d - (a * d).sum(axis=1, keepdims=True))).reshape(y.shape).astype(y.dtype)]


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    outer, _, inner = as_stack(op, outputs[0].shape)
    return [TensorSpec((outer, 1, inner), outputs[0].dtype), outputs[0]]


@softmax_gradient.kernel("NUMPY", supports=single_or_double, scratch=_scratch, splits_work=True)
def softmax_gradient_numpy(call: Call) -> Run:
    shape = as_stack(call.op, call.inputs[0].shape)
    wholes = [array.reshape(shape) for array in (*call.inputs, call.outputs[0], call.scratch[1])]
    y, dy, dx, terms, sums = (whole[call.slice_of(shape[0])] for whole in (*wholes, call.scratch[0]))
    rows = StackSum(terms)

    def run() -> None:
        np.multiply(y, dy, out=terms)
        rows.into(terms, sums)
        np.subtract(dy, sums, out=terms)
        np.multiply(y, terms, out=dx)

    return run if y.size else lambda: None


softmax_gradient.alias("SoftmaxGradient", domain="armnet")
