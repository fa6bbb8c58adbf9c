"""Reductions of segments that are named by ids: Caffe2's SortedSegment*, UnsortedSegment*, and their Sparse forms.

The inputs are X (rows), then weights if the name says Weighted, then indices of rows if it says Sparse, then the
segment ids, one per row that is reduced. Source: caffe2/operators/segment_reduction_op.h.
"""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.indices import absolute, require_indices
from runtime_arm.operators.common.multiply_adds import per_row
from runtime_arm.operators.common.segments import reduce_segments, weighted
from runtime_arm.registry.schema import integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec


def _sorted_count(op: OperatorDef, ids: Sequence[int]) -> int:
    steps = [b - a for a, b in zip(ids, ids[1:])]
    require(
        op, not ids or (ids[0] == 0 and set(steps) <= {0, 1}), f"ids must ascend from 0 without gaps, got {list(ids)}"
    )
    return ids[-1] + 1 if ids else 0


def _unsorted_count(op: OperatorDef, ids: Sequence[int]) -> int:
    count = op.get_int("num_segments", -1)
    if count < -1:
        raise ArgumentError(op, f"num_segments must not be negative, got {count}")
    count = max(ids, default=-1) + 1 if count == -1 else count
    require(op, all(0 <= n < count for n in ids), f"ids must be 0 to {count - 1}, got {list(ids)}")
    return count


def _declare(type: str, reduction: str, count: Callable[[OperatorDef, Sequence[int]], int]) -> None:
    sparse, has_weights = type.startswith("Sparse"), "Weighted" in type

    @operator(type, inputs=2 + sparse + has_weights, dtypes=("float32",))
    def schema(op: OperatorDef, x: TensorSpec, *others: TensorSpec) -> List[TensorSpec]:
        """Row s of Y is the reduction of the rows of X whose segment id is s; 0 if there are none.

        Sorted ids ascend from 0 without gaps. Unsorted ids are less than ``num_segments``, by default one more than the
        largest.
        """
        *picks, ids = others
        require(op, x.ndim > 0 and ids.ndim == 1, "X must have a dimension, and the ids must be a vector", x, ids)
        rows = x.shape[0]
        if sparse:
            require_indices(op, picks[-1])
            require(op, picks[-1].ndim == 1, "the indices must be a vector", picks[-1])
            rows = picks[-1].shape[0]
        require(op, ids.shape[0] == rows, f"there must be {rows} ids, one per row", ids)
        fits = not has_weights or (picks[0].shape == (rows,) and picks[0].dtype == np.float32)
        require(op, fits, f"there must be {rows} float32 weights, one per row", *picks)
        return [x.with_shape((count(op, integers_of(op, ids, "segment ids")), *x.shape[1:]))]

    @schema.reference
    def reference(op: OperatorDef, x: Array, *others: Array) -> List[Any]:
        *picks, ids = others
        order = np.argsort(ids, kind="stable")
        rows = x[absolute(op, picks[-1], len(x), wraps=False)[order] if sparse else order]
        if has_weights:
            rows = weighted(rows, picks[0][order])
        counts = np.bincount(ids, minlength=count(op, ids.tolist()))
        return [reduce_segments(reduction, rows, counts).astype(x.dtype)]


for _name in ("Sum", "Mean", "WeightedSum"):
    for _prefix in ("", "Sparse"):
        _declare(f"{_prefix}SortedSegment{_name}", _name, _sorted_count)
        _declare(f"{_prefix}UnsortedSegment{_name}", _name, _unsorted_count)
for _name in ("Sum", "Mean", "Max", "LogSumExp", "LogMeanExp"):
    _declare(f"SortedSegmentRange{_name}", _name, _sorted_count)


@operator("ReduceFrontWeightedSum", inputs=2, dtypes=("float32",), multiply_adds=per_row(0, dims=0))
def reduce_front_weighted_sum(op: OperatorDef, x: TensorSpec, weights: TensorSpec) -> List[TensorSpec]:
    """The sum of X's rows, each multiplied by its weight."""
    fits = x.ndim > 0 and weights.shape == x.shape[:1] and weights.dtype == np.float32
    require(op, fits, "there must be one float32 weight per row", x, weights)
    return [x.with_shape(x.shape[1:])]


@reduce_front_weighted_sum.reference
def reduce_front_weighted_sum_reference(op: OperatorDef, x: Array, weights: Array) -> List[Any]:
    return [np.tensordot(weights.astype(np.float64), x.astype(np.float64), 1).astype(x.dtype)]
