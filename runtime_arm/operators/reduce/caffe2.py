"""Caffe2's reductions, whose dimensions are arguments: Reduce*, ReduceFront*, ReduceBack*, Moments and others."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import second_shape
from runtime_arm.operators.common.dtypes import CAFFE2_NUMBERS, FLOATS
from runtime_arm.operators.common.reductions import (
    L1,
    L2,
    MAX,
    MEAN,
    MIN,
    SUM,
    Axes,
    Reduction,
    bind_reduction,
    reduce_exactly,
    reduced_shape,
    scratch_of,
    why_slow,
    zero,
)
from runtime_arm.operators.common.statistics import moments, require_floats, split_at
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import Operator, axis_of, operator, require
from runtime_arm.registry.specs import TensorSpec

AxesOf = Callable[[OperatorDef, int], Axes]


def _declare(
    type: str,
    doc: str,
    reduction: Reduction,
    axes_of: AxesOf,
    keepdims: Callable[[OperatorDef], bool],
    dtypes: Sequence[str],
    inputs: Any = 1,
) -> Operator:
    """Declares an operator that reduces input 0 over the axes ``axes_of(op, ndim)``."""

    def shape(op: OperatorDef, x: TensorSpec, *lengths: TensorSpec) -> List[TensorSpec]:
        result = x.with_shape(reduced_shape(x.shape, axes_of(op, x.ndim), keepdims(op)))
        for spec in lengths:
            require(
                op,
                spec.dtype == np.int32 and spec.shape == (result.size,),
                "lengths must be one int32 per result",
                x,
                spec,
            )
        return [result]

    def reference(op: OperatorDef, x: Array, *lengths: Array) -> List[Any]:
        axes = axes_of(op, x.ndim)
        if lengths:
            return [_reduce_in_part(op, reduction, x, axes, lengths[0])]
        return [reduce_exactly(reduction, x, axes, keepdims(op))]

    def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
        assert inputs[0] is not None
        return "only without lengths" if len(inputs) > 1 else why_slow(reduction, inputs[0])

    def bind(call: Call) -> Run:
        return bind_reduction(reduction, call, axes_of(call.op, call.inputs[0].ndim))

    shape.__doc__ = doc
    schema = operator(type, inputs=inputs, dtypes=dtypes)(shape)
    schema.reference(reference)
    schema.kernel("NUMPY", supports=supports, scratch=scratch_of(reduction))(bind)
    return schema


def _reduce_in_part(op: OperatorDef, reduction: Reduction, x: Array, axes: Axes, lengths: Array) -> Array:
    """The reduction over the first ``lengths[i]`` elements for result i."""
    at_front = 0 in axes
    rows, columns = split_at(x.shape, len(axes) if at_front else x.ndim - len(axes))
    matrix = x.reshape(rows, columns)
    many = matrix if at_front else matrix.T
    require(op, bool(np.all((lengths >= 1) & (lengths <= len(many)))), f"lengths must be from 1 to {len(many)}")
    results = [reduce_exactly(reduction, many[:length, i], (0,), keepdims=False) for i, length in enumerate(lengths)]
    return np.array(results, x.dtype).reshape(reduced_shape(x.shape, axes, keepdims=False))


def named_axes(op: OperatorDef, ndim: int) -> Axes:
    axes = op.get_ints("axes") or range(ndim)
    return tuple(sorted({_inside(op, axis, ndim) for axis in axes}))


def _inside(op: OperatorDef, axis: int, ndim: int) -> int:
    if ndim == 0:
        raise ArgumentError(op, f"axis {axis} is out of range for 0 dimensions")
    return axis_of(op, axis, ndim)


def keepdims_of(op: OperatorDef) -> bool:
    return op.get_bool("keepdims", True)


for _type, _what, _reduction, _dtypes in [
    ("ReduceSum", "the sum", SUM, (*CAFFE2_NUMBERS, "float16")),
    ("ReduceMean", "the mean (0 of no elements)", MEAN, FLOATS),
    (
        "ReduceMax",
        "the maximum (of no elements, the lowest finite number)",
        MAX,
        (*CAFFE2_NUMBERS, "float16"),
    ),
    ("ReduceMin", "the minimum (of no elements, the highest finite number)", MIN, (*CAFFE2_NUMBERS, "float16")),
    ("ReduceL1", "the sum of magnitudes", L1, FLOATS),
    ("ReduceL2", "the square root of the sum of squares", L2, FLOATS),
]:
    _declare(
        _type,
        f"Y is {_what} of X over ``axes`` (all), which stay as 1 unless keepdims=0.",
        _reduction,
        named_axes,
        keepdims_of,
        _dtypes,
    )


def _counted(op: OperatorDef, ndim: int) -> int:
    count = op.get_int("num_reduce_dim", 1)
    if not 0 <= count <= ndim:
        raise ArgumentError(op, f"num_reduce_dim must be from 0 to {ndim}, got {count}")
    return count


def front_axes(op: OperatorDef, ndim: int) -> Axes:
    return tuple(range(_counted(op, ndim)))


def back_axes(op: OperatorDef, ndim: int) -> Axes:
    return tuple(range(ndim - _counted(op, ndim), ndim))


def _never(op: OperatorDef) -> bool:
    return False


for _side, _axes_of in [("Front", front_axes), ("Back", back_axes)]:
    for _name, _what, _reduction, _dtypes in [
        ("Sum", "the sum", SUM, (*CAFFE2_NUMBERS, "float16")),
        ("Mean", "the mean (0 of no elements; of integers, rounded towards zero)", MEAN, (*CAFFE2_NUMBERS, "float16")),
        ("Max", "the maximum (0 of no elements)", MAX._replace(nothing=zero), FLOATS),
    ]:
        _declare(
            f"Reduce{_side}{_name}",
            f"Y is {_what} of X over the {'first' if _side == 'Front' else 'last'} "
            "``num_reduce_dim`` (1) dimensions.\n\n    Input 1, one int32 per result, says how many elements count.",
            _reduction,
            _axes_of,
            _never,
            _dtypes,
            inputs=(1, 2),
        )

_declare(
    "ReduceTailSum",
    "Y is the sum of X over all dimensions but the first.",
    SUM,
    lambda op, ndim: tuple(range(1, ndim)),
    _never,
    FLOATS,
)


def all_axes(op: OperatorDef, ndim: int) -> Axes:
    return tuple(range(ndim))


_declare("SumElementsInt", "Y, without dimensions, is the sum of X's elements.", SUM, all_axes, _never, ("int32",))
_declare(
    "AveragedLoss",
    "Y, without dimensions, is the mean of X's elements; 0 of none.",
    MEAN,
    all_axes,
    _never,
    FLOATS,
)


@operator("SumElements", dtypes=FLOATS)
def sum_elements(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y, without dimensions, is the sum of X's elements, or with ``average`` their mean; 0 of no elements."""
    op.get_bool("average")
    return [x.with_shape(())]


@sum_elements.reference
def sum_elements_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [reduce_exactly(MEAN if op.get_bool("average") else SUM, x, tuple(range(x.ndim)), keepdims=False)]


@operator("SumSqrElements", dtypes=FLOATS)
def sum_sqr_elements(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y, without dimensions, is the sum of X's squared elements, with ``average`` their mean; 0 of no elements."""
    op.get_bool("average")
    return [x.with_shape(())]


@sum_sqr_elements.reference
def sum_sqr_elements_reference(op: OperatorDef, x: Array) -> List[Any]:
    total = np.square(x.astype(np.float64)).sum()
    return [np.array(total / max(x.size, 1) if op.get_bool("average") else total, x.dtype)]


def _of_matrices(op: OperatorDef, axis: int, ndim: int) -> Axes:
    require(op, ndim == 3, f"X must be a batch of matrices, with 3 dimensions, got {ndim}")
    return (axis,)


_declare(
    "RowwiseMax",
    "Y (B, M) is the maximum of each row of X (B, M, N).",
    MAX,
    lambda op, ndim: _of_matrices(op, 2, ndim),
    _never,
    FLOATS,
)
_declare(
    "ColwiseMax",
    "Y (B, N) is the maximum of each column of X (B, M, N).",
    MAX,
    lambda op, ndim: _of_matrices(op, 1, ndim),
    _never,
    FLOATS,
)


def _summed_axes(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> Axes:
    aligned = second_shape(op.with_args(broadcast=1), a, b)
    return tuple(i for i, n in enumerate((1,) * (a.ndim - len(aligned)) + aligned) if n == 1)


@operator("SumReduceLike", inputs=2, dtypes=FLOATS)
def sum_reduce_like(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """Y is A summed over the dimensions along which B would be broadcast with broadcast=1. Y has B's shape."""
    _summed_axes(op, a, b)
    return [a.with_shape(b.shape)]


@sum_reduce_like.reference
def sum_reduce_like_reference(op: OperatorDef, a: Array, b: Array) -> List[Any]:
    axes = _summed_axes(op, TensorSpec(a.shape, a.dtype), TensorSpec(b.shape, b.dtype))
    return [reduce_exactly(SUM, a, axes, keepdims=False).reshape(b.shape)]


@operator("Moments", outputs=2)
def moments_(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Mean and variance of X over ``axes`` (all; not negative), which stay as 1 unless keepdims=0; 0 of no elements."""
    require_floats(op, x)
    if not all(0 <= axis < x.ndim for axis in op.get_ints("axes")):
        raise ArgumentError(op, f"axes must be from 0 to {x.ndim - 1}, got {list(op.get_ints('axes'))}")
    result = x.with_shape(reduced_shape(x.shape, named_axes(op, x.ndim), keepdims_of(op)))
    return [result, result]


@moments_.reference
def moments_reference(op: OperatorDef, x: Array) -> List[Any]:
    axes = named_axes(op, x.ndim)
    shape = reduced_shape(x.shape, axes, keepdims_of(op))
    return [result.reshape(shape).astype(x.dtype) for result in moments(x, axes)]
