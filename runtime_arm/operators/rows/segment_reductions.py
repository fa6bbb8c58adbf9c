"""Caffe2's sums, means and maxima of segments. The Sparse ones pick the rows by index first, for embedding tables."""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.indices import absolute, require_indices
from runtime_arm.operators.common.segments import reduce_segments, weighted
from runtime_arm.registry.schema import Operator, operator, require
from runtime_arm.registry.specs import TensorSpec


def _reduced(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> TensorSpec:
    require(op, x.ndim > 0 and x.dtype == np.float32, "the data must be float32 and must have a dimension", x)
    require(op, lengths.ndim == 1 and lengths.dtype == np.int32, "lengths must be a vector of int32", lengths)
    return x.with_shape((lengths.shape[0], *x.shape[1:]))


@operator("LengthsSum", inputs=2)
def lengths_sum(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """The sum of the rows of each segment; 0 for an empty one. The lengths add up to the number of rows."""
    return [_reduced(op, x, lengths)]


@operator("LengthsMean", inputs=2)
def lengths_mean(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """The mean of the rows of each segment; 0 for an empty one."""
    return [_reduced(op, x, lengths)]


@operator("LengthsMax", inputs=2)
def lengths_max(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """The maximum of the rows of each segment; 0 for an empty one."""
    return [_reduced(op, x, lengths)]


def _picked(op: OperatorDef, x: TensorSpec, indices: TensorSpec, lengths: TensorSpec) -> TensorSpec:
    """Sums and means of float16 rows are float32."""
    require_indices(op, indices)
    require(op, indices.ndim == 1, "indices must be a vector", indices)
    halves = x.dtype == np.float16 and "Max" not in op.type
    return _reduced(op, TensorSpec(x.shape, np.float32) if halves else x, lengths)


@operator("SparseLengthsSum", inputs=3)
def sparse_lengths_sum(op: OperatorDef, x: TensorSpec, indices: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """LengthsSum of the rows of X at the indices in the second input."""
    return [_picked(op, x, indices, lengths)]


@operator("SparseLengthsMean", inputs=3)
def sparse_lengths_mean(op: OperatorDef, x: TensorSpec, indices: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """LengthsMean of the rows of X at the indices in the second input."""
    return [_picked(op, x, indices, lengths)]


@operator("SparseLengthsWeightedSum", inputs=4)
def sparse_lengths_weighted_sum(
    op: OperatorDef, x: TensorSpec, weights: TensorSpec, indices: TensorSpec, lengths: TensorSpec
) -> List[TensorSpec]:
    """LengthsSum of the rows of X at the indices in the third input, each multiplied by its weight."""
    require(
        op,
        weights.shape == indices.shape and weights.dtype == np.float32,
        "there must be one float32 weight per index",
        weights,
        indices,
    )
    return [_picked(op, x, indices, lengths)]


@operator("SparseLengthsMax", inputs=3)
def sparse_lengths_max(op: OperatorDef, x: TensorSpec, indices: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """LengthsMax of the rows of X at the indices in the second input."""
    return [_picked(op, x, indices, lengths)]


@operator("LengthsWeightedSum", inputs=3)
def lengths_weighted_sum(op: OperatorDef, x: TensorSpec, weights: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """LengthsSum of the rows of X, each multiplied by its weight."""
    fits = weights.shape == x.shape[:1] and weights.dtype == np.float32
    require(op, fits, "there must be one float32 weight per row", x, weights)
    return [_reduced(op, x, lengths)]


@lengths_weighted_sum.reference
def lengths_weighted_sum_reference(op: OperatorDef, x: Array, weights: Array, lengths: Array) -> List[Any]:
    return [_reduced_rows(op, weighted(x, weights), lengths, x.dtype)]


@operator("SparseLengthsPositionalWeightedSum", inputs=4)
def sparse_lengths_positional_weighted_sum(
    op: OperatorDef, x: TensorSpec, weights: TensorSpec, indices: TensorSpec, lengths: TensorSpec
) -> List[TensorSpec]:
    """SparseLengthsSum, with each row multiplied by the weight of its position in its segment."""
    require(op, weights.ndim == 1 and weights.dtype == np.float32, "the weights must be a vector of float32", weights)
    return [_picked(op, x, indices, lengths)]


@sparse_lengths_positional_weighted_sum.reference
def sparse_lengths_positional_weighted_sum_reference(
    op: OperatorDef, x: Array, weights: Array, indices: Array, lengths: Array
) -> List[Any]:
    _require_total(op, lengths, indices.size)
    longest = int(lengths.max(initial=0))
    require(op, longest <= weights.size, f"a segment has {longest} rows, but there are {weights.size} weights")
    places = np.arange(indices.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows = x[absolute(op, indices, x.shape[0], wraps=False)]
    return [_reduced_rows(op, weighted(rows, weights[places]), lengths, x.dtype)]


def _require_total(op: OperatorDef, lengths: Array, total: int) -> None:
    fits = int(lengths.min(initial=0)) >= 0 and int(lengths.sum(dtype=np.int64)) == total
    require(op, fits, f"lengths {lengths.tolist()} must add up to {total}")


def _reduced_rows(op: OperatorDef, rows: Array, lengths: Array, dtype: Any) -> Array:
    """The sum, mean or maximum of each segment of rows, as the operator's type says."""
    _require_total(op, lengths, len(rows))
    name = next((name for name in ("Max", "Mean") if name in op.type), "Sum")
    return reduce_segments(name, rows, lengths).astype(np.float32 if dtype == np.float16 else dtype)


def _add_reference(schema: Operator) -> None:
    @schema.reference
    def reference(op: OperatorDef, x: Array, *others: Array) -> List[Any]:
        *picks, lengths = others
        return [_reduced_rows(op, _rows(op, x, picks), lengths, x.dtype)]


def _rows(op: OperatorDef, x: Array, picks: Sequence[Array]) -> Array:
    """The rows to reduce: all, those at the indices, or those at the indices times weights."""
    if not picks:
        return x
    rows = x[absolute(op, picks[-1], x.shape[0], wraps=False)]
    return weighted(rows, picks[0]) if len(picks) == 2 else rows


for _schema in (lengths_sum, lengths_mean, lengths_max):
    _add_reference(_schema)
for _schema in (sparse_lengths_sum, sparse_lengths_mean, sparse_lengths_max, sparse_lengths_weighted_sum):
    _add_reference(_schema)
