"""Softmax and LogSoftmax (Caffe2, ONNX) and ONNX's Hardmax."""

from __future__ import annotations

from math import prod
from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.statistics import StackSum, require_floats, single_or_double, split_at
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


def as_stack(op: OperatorDef, shape: Shape) -> Tuple[int, int, int]:
    """X's shape as (outer, n, inner), where n elements are normalised together.

    These are the elements of the axis, in Caffe2 all from the axis on.
    """
    if op.domain == "":
        rows, n = split_at(shape, axis_of(op, op.get_int("axis", 1), len(shape)))
        return rows, n, 1
    axis = axis_of(op, op.get_int("axis", -1), len(shape))
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def _same_floats(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    require_floats(op, x)
    require(op, x.ndim > 0, "X must have a dimension", x)
    as_stack(op, x.shape)
    return [x]


@operator("Softmax")
def softmax(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = exp(X) / sum of exp(X) per row. X as a matrix has the dimensions before ``axis`` (1) as rows."""
    return _same_floats(op, x)


@operator("Softmax", domain="onnx", inplace={0: 0})
def onnx_softmax(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = exp(X) / sum of exp(X) along ``axis`` (-1)."""
    return _same_floats(op, x)


@operator("LogSoftmax", domain="onnx", inplace={0: 0})
def log_softmax(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X - log(sum of exp(X)) along ``axis`` (-1)."""
    return _same_floats(op, x)


@operator("Hardmax", domain="onnx")
def hardmax(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y is 1 at the first maximum along ``axis`` (-1), 0 elsewhere."""
    return _same_floats(op, x)


def _shifted(op: OperatorDef, x: Array) -> Array:
    """X as (outer, n, inner) in float64, minus its maximum along n."""
    stack = x.astype(np.float64).reshape(as_stack(op, x.shape))
    return stack - stack.max(axis=1, keepdims=True) if x.size else stack


@softmax.reference
@onnx_softmax.reference
def softmax_reference(op: OperatorDef, x: Array) -> List[Any]:
    powers = np.exp(_shifted(op, x))
    return [(powers / powers.sum(axis=1, keepdims=True)).reshape(x.shape).astype(x.dtype)]


@log_softmax.reference
def log_softmax_reference(op: OperatorDef, x: Array) -> List[Any]:
    shifted = _shifted(op, x)
    return [(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))).reshape(x.shape).astype(x.dtype)]


@hardmax.reference
def hardmax_reference(op: OperatorDef, x: Array) -> List[Any]:
    stack: Array = x.reshape(as_stack(op, x.shape))
    if not x.size:
        return [x.copy()]
    first = np.expand_dims(stack.argmax(axis=1), 1)
    return [(np.arange(stack.shape[1]).reshape(-1, 1) == first).reshape(x.shape).astype(x.dtype)]


def _statistics(op: OperatorDef, outputs: Sequence[TensorSpec]) -> TensorSpec:
    outer, _, inner = as_stack(op, outputs[0].shape)
    return TensorSpec((outer, 1, inner), outputs[0].dtype)


def _softmax_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return [_statistics(op, outputs)]


def _log_softmax_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return [_statistics(op, outputs), outputs[0]]


def _nothing() -> None:
    return None


@softmax.kernel("NUMPY", supports=single_or_double, scratch=_softmax_scratch, splits_work=True)
@onnx_softmax.kernel("NUMPY", supports=single_or_double, scratch=_softmax_scratch, splits_work=True)
def softmax_numpy(call: Call) -> Run:
    shape = as_stack(call.op, call.inputs[0].shape)
    wholes = call.inputs[0].reshape(shape), call.outputs[0].reshape(shape), call.scratch[0]
    x, y, statistics = (whole[call.slice_of(shape[0])] for whole in wholes)
    sums = StackSum(y)

    def run() -> None:
        np.maximum.reduce(x, axis=1, keepdims=True, out=statistics)
        np.subtract(x, statistics, out=y)
        np.exp(y, out=y)
        sums.into(y, statistics)
        np.divide(y, statistics, out=y)

    return run if x.size else _nothing


@log_softmax.kernel("NUMPY", supports=single_or_double, scratch=_log_softmax_scratch)
def log_softmax_numpy(call: Call) -> Run:
    shape = as_stack(call.op, call.inputs[0].shape)
    x, y = call.inputs[0].reshape(shape), call.outputs[0].reshape(shape)
    statistics, powers = call.scratch[0], call.scratch[1].reshape(shape)
    sums = StackSum(powers)

    def run() -> None:
        np.maximum.reduce(x, axis=1, keepdims=True, out=statistics)
        np.subtract(x, statistics, out=y)
        np.exp(y, out=powers)
        sums.into(powers, statistics)
        np.log(statistics, out=statistics)
        np.subtract(y, statistics, out=y)

    return run if x.size else _nothing
