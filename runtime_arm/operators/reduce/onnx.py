"""ONNX's reductions, whose axes are an input, for all number types; CumSum and CumProd."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import BOOL, FLOATS, NUMBERS, Dtypes
from runtime_arm.operators.common.reductions import (
    L1,
    L2,
    LOG_SUM,
    LOG_SUM_EXP,
    MAX,
    MEAN,
    MIN,
    PRODUCT,
    SUM,
    SUM_SQUARE,
    Axes,
    Reduction,
    bind_reduction,
    highest,
    lowest,
    reduce_exactly,
    reduced_shape,
    scratch_of,
    why_slow,
)
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import Operator, axis_of, integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec


def onnx_axes(op: OperatorDef, ndim: int, given: Sequence[int]) -> Axes:
    """The axes to reduce: those of the input; if there are none, all, or none with noop_with_empty_axes."""
    if not given:
        return () if op.get_bool("noop_with_empty_axes") else tuple(range(ndim))
    if ndim == 0:
        raise ArgumentError(op, f"axes {list(given)} are out of range for 0 dimensions")
    return tuple(sorted({axis_of(op, axis, ndim) for axis in given}))


def spec_axes(op: OperatorDef, x: TensorSpec, axes: Optional[TensorSpec]) -> Axes:
    return onnx_axes(op, x.ndim, [] if axes is None else integers_of(op, axes, "axes"))


def _keepdims(op: OperatorDef) -> bool:
    return op.get_bool("keepdims", True)


def _declare(type: str, formula: str, reduction: Reduction, dtypes: Dtypes) -> Operator:
    """Declares the operator that reduces input 0 over the axes in input 1."""

    def shape(op: OperatorDef, x: TensorSpec, axes: Optional[TensorSpec] = None) -> List[TensorSpec]:
        return [x.with_shape(reduced_shape(x.shape, spec_axes(op, x, axes), _keepdims(op)))]

    def reference(op: OperatorDef, x: Array, axes: Optional[Array] = None) -> List[Any]:
        reduced = onnx_axes(op, x.ndim, [] if axes is None else axes.reshape(-1).tolist())
        return [reduce_exactly(reduction, x, reduced, _keepdims(op))]

    def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
        assert inputs[0] is not None
        return why_slow(reduction, inputs[0])

    def bind(call: Call) -> Run:
        x, axes = call.in_specs[0], call.in_specs[1] if len(call.in_specs) > 1 else None
        assert x is not None
        return bind_reduction(reduction, call, spec_axes(call.op, x, axes))

    shape.__doc__ = (
        f"Y is {formula} over the axes in input 1 (all), which stay as 1 unless keepdims=0.\n\n"
        "    With noop_with_empty_axes and without axes, each element is reduced on its own."
    )
    schema = operator(type, domain="onnx", inputs=(1, 2), dtypes=dtypes)(shape)
    schema.reference(reference)
    schema.kernel("NUMPY", supports=supports, scratch=scratch_of(reduction))(bind)
    return schema


def _minus_infinity(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else lowest(dtype)


def _infinity(dtype: np.dtype[Any]) -> Any:
    return np.inf if dtype.kind == "f" else highest(dtype)


for _type, _formula, _reduction, _dtypes in [
    ("ReduceSum", "the sum of X", SUM, NUMBERS),
    ("ReduceMean", "the mean of X (of integers, rounded towards zero; of no elements, 0)", MEAN, NUMBERS),
    (
        "ReduceMax",
        "the maximum of X (of no elements, -infinity or the smallest integer)",
        MAX._replace(nothing=_minus_infinity),
        NUMBERS + BOOL,
    ),
    (
        "ReduceMin",
        "the minimum of X (of no elements, infinity or the largest integer)",
        MIN._replace(nothing=_infinity),
        NUMBERS + BOOL,
    ),
    ("ReduceProd", "the product of X", PRODUCT, NUMBERS),
    ("ReduceL1", "the sum of |X|", L1, NUMBERS),
    ("ReduceL2", "sqrt(sum of X squared) (of integers, rounded towards zero)", L2, NUMBERS),
    ("ReduceSumSquare", "the sum of X squared", SUM_SQUARE, NUMBERS),
    ("ReduceLogSum", "log(sum of X)", LOG_SUM, FLOATS),
    ("ReduceLogSumExp", "log(sum of exp(X))", LOG_SUM_EXP, FLOATS),
]:
    _declare(_type, _formula, _reduction, _dtypes)


def _running(op: OperatorDef, x: TensorSpec, axis: TensorSpec) -> List[TensorSpec]:
    require(op, axis.size == 1 and axis.dtype.kind == "i", "axis must be one integer", axis)
    require(op, x.ndim > 0, "X must have a dimension", x)
    if axis.value is not None:
        axis_of(op, int(axis.value.reshape(-1)[0]), x.ndim)
    return [x]


@operator("CumSum", domain="onnx", inputs=2, dtypes=NUMBERS)
def cumsum(op: OperatorDef, x: TensorSpec, axis: TensorSpec) -> List[TensorSpec]:
    """Y[i] is the sum of X[0..i] along the axis; ``exclusive`` leaves X[i] out, ``reverse`` starts from the end."""
    return _running(op, x, axis)


@operator("CumProd", domain="onnx", inputs=2, dtypes=NUMBERS)
def cumprod(op: OperatorDef, x: TensorSpec, axis: TensorSpec) -> List[TensorSpec]:
    """Y[i] is the product of X[0..i] along the axis; ``exclusive`` leaves X[i] out, ``reverse`` starts from the end."""
    return _running(op, x, axis)


def _accumulated(op: OperatorDef, x: Array, axis: Array, ufunc: np.ufunc) -> List[Any]:
    at = axis_of(op, int(axis.reshape(-1)[0]), x.ndim)
    step = -1 if op.get_bool("reverse") else 1
    lanes = np.moveaxis(x.astype(np.float64) if x.dtype.kind == "f" else x, at, 0)[::step]
    if op.get_bool("exclusive"):
        lanes = np.concatenate([np.full_like(lanes[:1], ufunc.identity), lanes[:-1]])
    result = ufunc.accumulate(lanes, axis=0, dtype=lanes.dtype)[::step]
    return [np.ascontiguousarray(np.moveaxis(result, 0, at)).astype(x.dtype)]


@cumsum.reference
def cumsum_reference(op: OperatorDef, x: Array, axis: Array) -> List[Any]:
    return _accumulated(op, x, axis, np.add)


@cumprod.reference
def cumprod_reference(op: OperatorDef, x: Array, axis: Array) -> List[Any]:
    return _accumulated(op, x, axis, np.multiply)
