"""Sums, means and maxima of segments; the Sparse ones pick the rows by index first, as embedding tables do."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.indices import absolute, require_indices
from runtime_arm.registry import Operator, operator, require
from runtime_arm.tensor import TensorSpec


def _reduced(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> TensorSpec:
    require(op, x.ndim > 0 and x.dtype == np.float32, "the data must be float32 and have a dimension", x)
    require(op, lengths.ndim == 1 and lengths.dtype == np.int32, "lengths must be a vector of int32", lengths)
    return x.with_shape((lengths.shape[0], *x.shape[1:]))


@operator("LengthsSum", inputs=2)
def lengths_sum(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """The sum of the rows of each segment; 0 of none. The lengths add up to the number of rows."""
    return [_reduced(op, x, lengths)]


@operator("LengthsMean", inputs=2)
def lengths_mean(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """The mean of the rows of each segment; 0 of none."""
    return [_reduced(op, x, lengths)]


@operator("LengthsMax", inputs=2)
def lengths_max(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """The largest element of the rows of each segment; 0 of none."""
    return [_reduced(op, x, lengths)]


def _picked(op: OperatorDef, x: TensorSpec, indices: TensorSpec, lengths: TensorSpec) -> TensorSpec:
    require_indices(op, indices)
    require(op, indices.ndim == 1, "indices must be a vector", indices)
    return _reduced(op, x, lengths)


@operator("SparseLengthsSum", inputs=3)
def sparse_lengths_sum(op: OperatorDef, x: TensorSpec, indices: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """LengthsSum of the rows of X that the second input names."""
    return [_picked(op, x, indices, lengths)]


@operator("SparseLengthsMean", inputs=3)
def sparse_lengths_mean(op: OperatorDef, x: TensorSpec, indices: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """LengthsMean of the rows of X that the second input names."""
    return [_picked(op, x, indices, lengths)]


@operator("SparseLengthsWeightedSum", inputs=4)
def sparse_lengths_weighted_sum(op: OperatorDef, x: TensorSpec, weights: TensorSpec, indices: TensorSpec,
                                lengths: TensorSpec) -> List[TensorSpec]:
    """LengthsSum of the rows of X that the third input names, each times its weight."""
    require(op, weights.shape == indices.shape and weights.dtype == np.float32,
            "there must be a weight, float32, for each index", weights, indices)
    return [_picked(op, x, indices, lengths)]


@operator("SparseLengthsMax", inputs=3)
def sparse_lengths_max(op: OperatorDef, x: TensorSpec, indices: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """LengthsMax of the rows of X that the second input names."""
    return [_picked(op, x, indices, lengths)]


@operator("LengthsWeightedSum", inputs=3)
def lengths_weighted_sum(op: OperatorDef, x: TensorSpec, weights: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """LengthsSum of the rows of X, each times its weight."""
    fits = weights.shape == x.shape[:1] and weights.dtype == np.float32
    require(op, fits, "there must be a weight, float32, for each row", x, weights)
    return [_reduced(op, x, lengths)]


@lengths_weighted_sum.reference
def lengths_weighted_sum_reference(op: OperatorDef, x: Array, weights: Array, lengths: Array) -> List[Any]:
    return [_reduce(op, _weighted(x.astype(np.float64), weights), lengths)]


@operator("SparseLengthsPositionalWeightedSum", inputs=4)
def sparse_lengths_positional_weighted_sum(op: OperatorDef, x: TensorSpec, weights: TensorSpec, indices: TensorSpec,
                                           lengths: TensorSpec) -> List[TensorSpec]:
    """SparseLengthsSum, each row times the weight of its place in its segment."""
    require(op, weights.ndim == 1 and weights.dtype == np.float32, "the weights must be a vector of float32", weights)
    return [_picked(op, x, indices, lengths)]


@sparse_lengths_positional_weighted_sum.reference
def sparse_lengths_positional_weighted_sum_reference(op: OperatorDef, x: Array, weights: Array, indices: Array,
                                                     lengths: Array) -> List[Any]:
    longest = max([int(n) for n in lengths], default=0)
    require(op, longest <= weights.size, f"a segment has {longest} rows, there are {weights.size} weights")
    places = np.concatenate([np.arange(0), *(np.arange(max(int(n), 0)) for n in lengths)])
    require(op, places.size == indices.size, f"lengths {lengths.tolist()} must add up to {indices.size}")
    rows = x.astype(np.float64)[absolute(op, indices, x.shape[0], wraps=False)]
    return [_reduce(op, _weighted(rows, weights[places]), lengths)]


def _weighted(rows: Array, weights: Array) -> Array:
    return np.asarray(rows * weights.reshape((-1,) + (1,) * (rows.ndim - 1)))


def _segments(op: OperatorDef, rows: Array, lengths: Array) -> List[Array]:
    counts = [int(n) for n in lengths]
    require(op, min(counts, default=0) >= 0 and sum(counts) == len(rows),
            f"lengths {counts} must add up to {len(rows)}")
    stops = np.cumsum([0, *counts])
    return [rows[start:stop] for start, stop in zip(stops, stops[1:])]


def _reduce(op: OperatorDef, rows: Array, lengths: Array) -> Array:
    """The sum, mean or maximum of each segment of rows, by the operator's type."""
    y = np.zeros((lengths.size, *rows.shape[1:]), np.float32)
    for i, segment in enumerate(_segments(op, rows.astype(np.float64), lengths)):
        if len(segment):
            y[i] = segment.max(axis=0) if "Max" in op.type else segment.sum(axis=0)
            y[i] /= len(segment) if "Mean" in op.type else 1
    return y


def _add_reference(schema: Operator) -> None:
    @schema.reference
    def reference(op: OperatorDef, x: Array, *others: Array) -> List[Any]:
        *picks, lengths = others
        return [_reduce(op, _rows(op, x, picks), lengths)]


def _rows(op: OperatorDef, x: Array, picks: Sequence[Array]) -> Array:
    """The rows to reduce: all, those of the indices, or those of the indices times weights."""
    weights: Optional[Array] = picks[0] if len(picks) == 2 else None
    if not picks:
        return x
    rows = x.astype(np.float64)[absolute(op, picks[-1], x.shape[0], wraps=False)]
    return rows if weights is None else _weighted(rows, weights)


for _schema in (lengths_sum, lengths_mean, lengths_max):
    _add_reference(_schema)
for _schema in (sparse_lengths_sum, sparse_lengths_mean, sparse_lengths_max, sparse_lengths_weighted_sum):
    _add_reference(_schema)
