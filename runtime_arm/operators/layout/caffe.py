"""Caffe's operators that reshape, cut and pick.

Reshape, Flatten, SplitAxis, Crop, BatchReindex, Filter, Embed, ArgMax, Reduction.
"""

from __future__ import annotations

import math
from typing import Any, List, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import axis_of, operator, require, value_of
from runtime_arm.registry.specs import Shape, TensorSpec


@operator("Reshape", domain="caffe", view=True)
def reshape(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """X in another shape: ``shape`` replaces ``num_axes`` (-1: all) dimensions from ``axis`` (0) on.

    A 0 in ``shape`` copies the dimension at its place; one -1 takes what is left. Source: Caffe's reshape_layer.cpp.
    """
    shape, count = op.get_ints("shape"), op.get_int("num_axes", -1)
    axis = op.get_int("axis", 0)
    start = axis if axis >= 0 else axis + x.ndim + 1
    end = x.ndim if count == -1 else start + count
    if not 0 <= start <= end <= x.ndim:
        raise ArgumentError(op, f"axis {axis} and num_axes {count} are out of range for {x.ndim} dimensions")
    if any(n < -1 for n in shape) or list(shape).count(-1) > 1:
        raise ArgumentError(op, f"shape may have one -1 and no smaller number, got {list(shape)}")
    if any(n == 0 and start + index >= x.ndim for index, n in enumerate(shape)):
        raise ArgumentError(op, f"shape {list(shape)} copies a dimension that X, {list(x.shape)}, does not have")
    middle = [x.shape[start + index] if n == 0 else n for index, n in enumerate(shape)]
    dims = [*x.shape[:start], *middle, *x.shape[end:]]
    rest = math.prod(n for n in dims if n != -1)
    if -1 in dims:
        require(
            op,
            rest > 0 and x.size % rest == 0,
            f"X's elements cannot be divided among {dims}",
            x,
        )
        dims[dims.index(-1)] = x.size // rest
    require(op, math.prod(dims) == x.size, f"shape {dims} does not have X's number of elements", x)
    return [x.with_shape(dims)]


@operator("Flatten", domain="caffe", view=True)
def flatten(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """X with the dimensions ``axis`` (1) to ``end_axis`` (-1) merged into one. If the end comes first, inserts a 1."""
    start, end = (
        axis_of(op, op.get_int(name, default), x.ndim, name) for name, default in (("axis", 1), ("end_axis", -1))
    )
    return [x.with_shape((*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))]


@operator("SplitAxis", domain="caffe", inputs=2, view=True)
def split_axis(op: OperatorDef, x: TensorSpec, like: TensorSpec) -> List[TensorSpec]:
    """X with its first dimension split into the first ``axis`` dimensions of ``like``: undoes a Flatten of them."""
    leading = like.shape[: op.get_int("axis")]
    require(op, x.ndim > 0 and math.prod(leading) == x.shape[0], f"the first dimension must be {leading}", x)
    return [x.with_shape((*leading, *x.shape[1:]))]


def crop_cuts(op: OperatorDef, x: Shape, like: Shape) -> Tuple[Any, ...]:
    axis = axis_of(op, op.get_int("axis", 2), len(x))
    offsets = list(op.get_ints("offset", ()))
    if len(offsets) not in (0, 1, len(x) - axis):
        raise ArgumentError(op, f"offset must have one value or {len(x) - axis}, got {offsets}")
    offsets = (offsets or [0]) * (len(x) - axis) if len(offsets) <= 1 else offsets
    return (..., *(slice(offset, offset + n) for offset, n in zip(offsets, like[axis:])))


@operator("Crop", domain="caffe", inputs=2)
def crop(op: OperatorDef, x: TensorSpec, like: TensorSpec) -> List[TensorSpec]:
    """X cut to the size of ``like`` in the dimensions from ``axis`` (2) on, starting at ``offset`` (0).

    offset: one for all dimensions, or one each. Source: Caffe's crop_layer.cpp.
    """
    require(op, x.ndim == like.ndim, "both must have the same number of dimensions", x, like)
    cuts = crop_cuts(op, x.shape, like.shape)[1:]
    axis = x.ndim - len(cuts)
    inside = all(cut.start >= 0 and cut.stop <= n for cut, n in zip(cuts, x.shape[axis:]))
    require(op, inside, f"the part {[(cut.start, cut.stop) for cut in cuts]} is not inside X", x, like)
    return [x.with_shape((*x.shape[:axis], *like.shape[axis:]))]


@crop.reference
def crop_reference(op: OperatorDef, x: Array, like: Array) -> List[Any]:
    return [x[crop_cuts(op, x.shape, like.shape)].copy()]


@operator("BatchReindex", domain="caffe", inputs=2)
def batch_reindex(op: OperatorDef, x: TensorSpec, index: TensorSpec) -> List[TensorSpec]:
    """Y[i] = X[index[i]]. index: (M,), floats that are whole numbers."""
    require(op, x.ndim >= 1 and index.ndim == 1, "X must have a dimension, and the index exactly one", x, index)
    return [x.with_shape((*index.shape, *x.shape[1:]))]


def _whole(op: OperatorDef, values: Array, limit: int) -> Array:
    """Floats as indices, which must be 0 to ``limit`` - 1."""
    within = (values >= 0) & (values < limit)
    require(
        op,
        bool(within.all()),
        f"indices must be at least 0 and below {limit}, got {values.reshape(-1)[~within.reshape(-1)][:1]}",
    )
    return values.astype(np.int64)


@batch_reindex.reference
def batch_reindex_reference(op: OperatorDef, x: Array, index: Array) -> List[Any]:
    return [x[_whole(op, index, x.shape[0])]]


@operator("Filter", domain="caffe", inputs=2)
def filter_(op: OperatorDef, x: TensorSpec, selector: TensorSpec) -> List[TensorSpec]:
    """The items of X whose selector is not 0. There is one selector per item."""
    require(op, x.ndim >= 1 and selector.size == x.shape[0], "there must be a selector for each item", x, selector)
    count = int(np.count_nonzero(value_of(op, selector, "selector")))
    return [x.with_shape((count, *x.shape[1:]))]


@filter_.reference
def filter_reference(op: OperatorDef, x: Array, selector: Array) -> List[Any]:
    return [x[selector.reshape(-1) != 0]]


@operator("Embed", domain="caffe", inputs=(2, 3))
def embed(op: OperatorDef, x: TensorSpec, table: TensorSpec, *bias: TensorSpec) -> List[TensorSpec]:
    """Y[..., :] = table[X[...]] + bias. X holds whole numbers as floats; table: (K, N), bias: (N,)."""
    require(op, table.ndim == 2, "the table must be a matrix", table)
    require(
        op,
        all(spec.shape == table.shape[1:] for spec in bias),
        "the bias must be as long as a table row",
        table,
        *bias,
    )
    return [table.with_shape((*x.shape, table.shape[1]))]


@embed.reference
def embed_reference(op: OperatorDef, x: Array, table: Array, *bias: Array) -> List[Any]:
    rows = table[_whole(op, x, table.shape[0])]
    return [rows + bias[0] if bias else rows]


def _top_shape(op: OperatorDef, shape: Shape) -> Shape:
    top_k, values = op.get_int("top_k", 1), op.get_bool("out_max_val")
    if op.has("axis"):
        axis = axis_of(op, op.get_int("axis"), len(shape))
        return (*shape[:axis], top_k, *shape[axis + 1 :])
    return (shape[0], 2 if values else 1, top_k, *[1] * (max(len(shape), 3) - 3))


@operator("ArgMax", domain="caffe")
def arg_max(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The indices, as floats, of the ``top_k`` (1) largest elements along ``axis``; of equal ones, the last first.

    With out_max_val Y holds the values instead. Without an axis, the largest of each item of the batch are found, and Y
    is (N, 1, top_k, 1, ...), or with out_max_val (N, 2, top_k, 1, ...), indices and values. Source: Caffe's
    argmax_layer.cpp.
    """
    require(op, x.ndim >= 1, "X must have a dimension", x)
    n = x.shape[axis_of(op, op.get_int("axis"), x.ndim)] if op.has("axis") else math.prod(x.shape[1:])
    if not 1 <= op.get_int("top_k", 1) <= n:
        raise ArgumentError(op, f"top_k must be 1 to {n}, got {op.get_int('top_k', 1)}")
    return [x.with_shape(_top_shape(op, x.shape))]


@arg_max.reference
def arg_max_reference(op: OperatorDef, x: Array) -> List[Any]:
    axis = axis_of(op, op.get_int("axis"), x.ndim) if op.has("axis") else -1
    rows = np.moveaxis(x, axis, -1) if op.has("axis") else x.reshape(x.shape[0], -1)
    last = rows.shape[-1] - 1
    order = last - np.argsort(-rows[..., ::-1], -1, kind="stable")[..., : op.get_int("top_k", 1)]
    values = np.take_along_axis(rows, order, -1)
    if op.has("axis"):
        found = values if op.get_bool("out_max_val") else order.astype(x.dtype)
        return [np.ascontiguousarray(np.moveaxis(found, -1, axis))]
    parts = [order.astype(x.dtype), values] if op.get_bool("out_max_val") else [order.astype(x.dtype)]
    return [np.stack(parts, 1).reshape(_top_shape(op, x.shape))]


_REDUCTIONS = ("SUM", "ASUM", "SUMSQ", "MEAN")


@operator("Reduction", domain="caffe")
def reduction(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = coeff (1) times the SUM, ASUM (of magnitudes), SUMSQ (of squares) or MEAN of X.

    The dimensions from ``axis`` (0) on are reduced and left out of Y. Source: Caffe's reduction_layer.cpp.
    """
    if op.get_str("operation", "SUM") not in _REDUCTIONS:
        raise ArgumentError(op, f"operation must be one of {', '.join(_REDUCTIONS)}")
    return [x.with_shape(x.shape[: axis_of(op, op.get_int("axis", 0), x.ndim)])]


@reduction.reference
def reduction_reference(op: OperatorDef, x: Array) -> List[Any]:
    axes = tuple(range(axis_of(op, op.get_int("axis", 0), x.ndim), x.ndim))
    operation, wide = op.get_str("operation", "SUM"), x.astype(np.float64)
    terms = {"ASUM": np.abs, "SUMSQ": np.square}.get(operation, np.positive)(wide)
    total = terms.mean(axes) if operation == "MEAN" else terms.sum(axes)
    return [np.asarray(op.get_float("coeff", 1.0) * total).astype(x.dtype)]
