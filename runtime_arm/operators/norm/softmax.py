"""Softmax and LogSoftmax (Caffe2, ONNX) and ONNX's Hardmax."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.statistics import (
    StackSum,
    ones_for,
    powers_into,
    require_floats,
    single_or_double,
    split_at,
    sums_columns,
)
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec
from runtime_arm.registry.steps import Step, in_turn

FEW = 256  # elements of a single row that get memory of their own for their powers
LEAST_SUM = 1e-16  # of the powers of a row without its maximum: those that float32 cannot hold are 1e-22 of it


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


def _block_rows(rows: int, n: int) -> int:
    """How many rows are normalised at a time."""
    return min(max(BLOCK // max(n, 1), 1), max(rows, 1))


def _softmax_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Sums; and powers, which may have to be made again from X: those of a row or of a block of several rows."""
    rows, n, inner = as_stack(op, outputs[0].shape)
    if inner != 1 or (rows == 1 and n > FEW):
        return [_statistics(op, outputs)]
    if rows == 1:
        return [_statistics(op, outputs), TensorSpec((n,), outputs[0].dtype)]
    count, dtype = _block_rows(rows, n), outputs[0].dtype
    return [TensorSpec((count, sums_columns(n)), dtype), TensorSpec((count if count > 1 else 0, n), dtype)]


def _log_softmax_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return [_statistics(op, outputs), outputs[0]]


def _nothing() -> None:
    return None


@softmax.kernel("NUMPY", supports=single_or_double, scratch=_softmax_scratch, splits_work=True)
@onnx_softmax.kernel("NUMPY", supports=single_or_double, scratch=_softmax_scratch, splits_work=True)
def softmax_numpy(call: Call) -> Run:
    shape = as_stack(call.op, call.inputs[0].shape)
    if shape[2] == 1:
        return _rows(call, shape[0], shape[1]) if shape[0] != 1 else _row(call) if call.worker == 0 else _nothing
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


def _row(call: Call) -> Run:
    """Softmax of all of X, in as few and as cheap calls as possible: where there is room for the powers, without a
    maximum, if their sum shows that none was too large and that those which count were not too small."""
    x, y, statistic, *room = call.inputs[0].reshape(-1), call.outputs[0].reshape(-1), *call.scratch
    powers, total, ones = (room[0] if room else y), statistic.reshape(()), np.ones(x.size, x.dtype)
    exp, add_up, divide = np.exp, powers.dot, np.divide

    def run() -> None:
        if room:
            exp(x, powers)
            add_up(ones, total)
        if not (room and LEAST_SUM < total.item() < 1 / LEAST_SUM):
            np.maximum.reduce(x, axis=0, out=total)
            np.subtract(x, total, powers)
            exp(powers, powers)
            add_up(ones, total)
        divide(powers, total, y)

    return run if x.size else _nothing


def _rows(call: Call, rows: int, n: int) -> Run:
    """Softmax of rows, in blocks that have one maximum where that is exact."""
    x, y = (one.reshape(rows, n)[call.slice_of(rows)] for one in (call.inputs[0], call.outputs[0]))
    sums, powers = call.scratch
    ones, count = ones_for(n, y.dtype), _block_rows(rows, n)
    steps: List[Step] = []
    for first in range(0, len(x) if n else 0, count):
        block = slice(first, min(first + count, len(x)))
        size = block.stop - block.start
        steps.append(
            partial(_normalise, x[block], y[block], powers[:size] if count > 1 else y[block], sums[:size], ones)
        )
    return in_turn(steps)


def _normalise(x: Array, y: Array, powers: Array, sums: Array, ones: Array) -> None:
    """y = the softmax of the rows of x, which ``powers`` may be if it is a single one."""
    if not powers_into(x, powers, ones, sums) and len(x) > 1:
        tops = sums[:, :1]
        np.maximum.reduce(x, axis=1, keepdims=True, out=tops)
        np.subtract(x, tops, powers)
        np.exp(powers, powers)
        np.matmul(powers, ones, sums)
    np.divide(powers, sums, y)


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
