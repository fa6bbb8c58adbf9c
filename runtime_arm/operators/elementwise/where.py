"""Choosing between two blobs, elementwise or row by row: Caffe2's Where and Conditional, ONNX's Where."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import broadcast
from runtime_arm.operators.common.dtypes import BOOL, CAFFE2_NUMBERS, require_same_dtype
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def _require_rows(op: OperatorDef, condition: TensorSpec, x: TensorSpec) -> None:
    fits = condition.ndim == 1 and x.ndim > 0 and condition.shape[0] == x.shape[0]
    require(op, fits, "the condition must be a vector with one element per row", condition, x)


def _per_row(condition: Array, ndim: int) -> Array:
    return condition.reshape((-1,) + (1,) * (ndim - 1))


@operator("Where", inputs=3, dtypes=BOOL)
def where(op: OperatorDef, condition: TensorSpec, x: TensorSpec, y: TensorSpec) -> List[TensorSpec]:
    """Z = X where the condition holds, else Y; all of one shape. With broadcast_on_rows, one condition per row."""
    require_same_dtype(op, x, y)
    require(op, x.dtype.name in BOOL + CAFFE2_NUMBERS, "takes bool, int32, int64, float32 and float64", x)
    require(op, x.shape == y.shape, "both choices must have one shape", x, y)
    if op.get_bool("broadcast_on_rows"):
        _require_rows(op, condition, x)
    else:
        require(op, condition.shape == x.shape, "the condition must have the shape of the choices", condition, x)
    return [x]


@operator("Conditional", inputs=3, dtypes=BOOL)
def conditional(op: OperatorDef, condition: TensorSpec, x: TensorSpec, y: TensorSpec) -> List[TensorSpec]:
    """Each row of Z is the row of X where the condition, a vector, holds, else the row of Y."""
    require_same_dtype(op, x, y)
    require(op, x.shape == y.shape, "both choices must have one shape", x, y)
    _require_rows(op, condition, x)
    return [x]


@operator("Where", domain="onnx", inputs=3, dtypes=BOOL, kind=Kind.ELEMENTWISE)
def onnx_where(op: OperatorDef, condition: TensorSpec, x: TensorSpec, y: TensorSpec) -> List[TensorSpec]:
    """Z = X where the condition holds, else Y; all three broadcast."""
    require_same_dtype(op, x, y)
    return [TensorSpec(broadcast(op, (condition, x, y)), x.dtype)]


@where.reference
@conditional.reference
@onnx_where.reference
def where_reference(op: OperatorDef, condition: Array, x: Array, y: Array) -> List[Any]:
    return [np.where(_condition(op, condition, x), x, y)]


@where.kernel("NUMPY")
@conditional.kernel("NUMPY")
@onnx_where.kernel("NUMPY")
def where_numpy(call: Call) -> Run:
    condition, x, y = call.inputs
    z = call.outputs[0]
    mask = _condition(call.op, condition, x)

    def run() -> None:
        np.copyto(z, y)
        np.copyto(z, x, where=mask)

    return run


def _condition(op: OperatorDef, condition: Array, x: Array) -> Array:
    by_row = op.type == "Conditional" or (op.domain != "onnx" and op.get_bool("broadcast_on_rows"))
    return _per_row(condition, x.ndim) if by_row else condition
