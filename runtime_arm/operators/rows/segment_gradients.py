"""The gradients of Caffe2's sums, means and maxima of segments, given by lengths or by ids.

The Sparse ones give the values of a sparse gradient: one row for each index. Source:
caffe2/operators/segment_reduction_op.h.
"""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.indices import absolute
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def _column(values: Any, rows: Array) -> Any:
    return np.asarray(values).reshape((-1,) + (1,) * (rows.ndim - 1))


def _by_lengths(op: OperatorDef, dy: Array, lengths: Array) -> Array:
    """dY's row for each row of a segment, float64; of a mean divided by the segment's length."""
    wide = dy.astype(np.float64)
    if "Mean" in op.type:
        wide = wide / _column(np.maximum(lengths, 1), wide)
    return np.repeat(wide, lengths, axis=0)


def _require_segments(op: OperatorDef, dy: TensorSpec, lengths: TensorSpec) -> None:
    require(op, lengths.dtype == np.int32 and lengths.ndim == 1, "lengths must be a vector of int32", lengths)
    require(op, dy.shape[:1] == lengths.shape, "dY must have one row for each segment", dy, lengths)


def _declare_lengths(type: str, doc: str) -> None:
    """Inputs: dY, lengths, and the data, or of a Sparse type the indices."""

    def shape(op: OperatorDef, dy: TensorSpec, lengths: TensorSpec, like: TensorSpec) -> List[TensorSpec]:
        _require_segments(op, dy, lengths)
        return [dy.with_shape((*like.shape[:1], *dy.shape[1:]))]

    shape.__doc__ = doc
    schema = operator(type, inputs=3, dtypes=FLOATS)(shape)

    @schema.reference
    def reference(op: OperatorDef, dy: Array, lengths: Array, like: Array) -> List[Any]:
        _require_total(op, lengths, len(like))
        return [_by_lengths(op, dy, lengths).astype(dy.dtype)]


def _require_total(op: OperatorDef, lengths: Array, rows: int) -> None:
    total = int(lengths.sum(dtype=np.int64))
    require(op, lengths.min(initial=0) >= 0 and total == rows, f"the lengths must add up to {rows}, got {total}")


for _sparse, _of in (("", "the data"), ("Sparse", "the indices")):
    for _reduction, _what in (("Sum", "segment"), ("Mean", "segment, divided by its length")):
        _declare_lengths(
            f"{_sparse}LengthsIndicesInGradient{_reduction}Gradient",
            f"Each row of dX is the row of dY of its {_what}. Inputs: dY, lengths, {_of}.",
        )


def _declare_weighted(type: str) -> None:
    """Inputs: weights, dY, lengths, and the data, or of a Sparse type the indices."""

    @operator(type, inputs=(4, 5), outputs=(1, 2), dtypes=FLOATS)
    def schema(
        op: OperatorDef, weights: TensorSpec, dy: TensorSpec, lengths: TensorSpec, *like: TensorSpec
    ) -> List[TensorSpec]:
        """Each row of dX is the row of dY of its segment times its weight. Inputs: weights, dY, lengths, and the data,
        or the indices, or both. Where the data are given and a second output is named: dweight = the sum of dY X."""
        _require_segments(op, dy, lengths)
        return [dy.with_shape((weights.shape[0], *dy.shape[1:])), weights]

    @schema.reference
    def reference(op: OperatorDef, weights: Array, dy: Array, lengths: Array, *like: Array) -> List[Any]:
        _require_total(op, lengths, weights.shape[0])
        rows = _by_lengths(op, dy, lengths)
        results = [(rows * _column(weights, rows)).astype(dy.dtype)]
        if len(op.output) > 1:
            data = like[0] if "MainInput" not in op.type else like[0][absolute(op, like[1], len(like[0]), wraps=False)]
            terms = rows * data.astype(np.float64)
            results.append(terms.reshape(len(rows), -1).sum(axis=1).astype(weights.dtype))
        return results


_declare_weighted("LengthsIndicesInGradientWeightedSumGradient")
_declare_weighted("SparseLengthsIndicesInGradientWeightedSumGradient")
_declare_weighted("SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient")


@operator("LengthsMaxWithMainInputAndForwardOutputGradient", inputs=4, dtypes=FLOATS)
def lengths_max_gradient(
    op: OperatorDef, y: TensorSpec, dy: TensorSpec, lengths: TensorSpec, x: TensorSpec
) -> List[TensorSpec]:
    """Each row of dX is the row of dY of its segment where X is the maximum, Y, else 0: ties all get it."""
    _require_segments(op, dy, lengths)
    return [x]


@lengths_max_gradient.reference
def lengths_max_gradient_reference(op: OperatorDef, y: Array, dy: Array, lengths: Array, x: Array) -> List[Any]:
    _require_total(op, lengths, len(x))
    return [np.where(x == np.repeat(y, lengths, axis=0), np.repeat(dy, lengths, axis=0), x.dtype.type(0))]


def _declare_ids(type: str, weighted: bool) -> None:
    """Inputs: the weights if any, dY, and the segment ids."""

    @operator(type, inputs=3 if weighted else 2, dtypes=FLOATS)
    def schema(op: OperatorDef, *given: TensorSpec) -> List[TensorSpec]:
        """Each row of dX is the row of dY of its segment; of a mean divided by the segment's size, of a weighted sum
        times its weight. Inputs: the weights if any, dY, segment ids."""
        *weights, dy, ids = given
        require(op, dy.ndim > 0 and ids.dtype.kind == "i" and ids.ndim == 1, "ids must be a vector of integers", *given)
        require(op, all(w.shape == ids.shape for w in weights), "there must be one weight for each id", *given)
        return [dy.with_shape((*ids.shape, *dy.shape[1:]))]

    @schema.reference
    def reference(op: OperatorDef, *given: Array) -> List[Any]:
        *weights, dy, ids = given
        rows = dy.astype(np.float64)[absolute(op, ids, len(dy), wraps=False)]
        if "Mean" in op.type:
            rows = rows / _column(np.bincount(ids, minlength=len(dy))[ids], rows)
        if weights:
            rows = rows * _column(weights[0], rows)
        return [rows.astype(dy.dtype)]


for _kind in ("SortedSegment", "UnsortedSegment"):
    for _reduction in ("Sum", "Mean", "WeightedSum"):
        _declare_ids(f"{_kind}{_reduction}Gradient", _reduction == "WeightedSum")


def _declare_range(kind: str) -> None:
    @operator(f"SortedSegmentRange{kind}Gradient", inputs=4, dtypes=FLOATS)
    def schema(op: OperatorDef, x: TensorSpec, y: TensorSpec, dy: TensorSpec, ids: TensorSpec) -> List[TensorSpec]:
        """dX from the row of dY of each row's segment, as the reduction's formula says. Inputs: X, Y, dY, ids."""
        fits = y.size == dy.size and y.shape[1:] == x.shape[1:]
        require(op, fits, "Y and dY must have one row a segment", x, y, dy)
        require(op, ids.shape == x.shape[:1] and ids.dtype.kind == "i", "there must be one id for each row", x, ids)
        return [x]

    @schema.reference
    def reference(op: OperatorDef, x: Array, y: Array, dy: Array, ids: Array) -> List[Any]:
        at = absolute(op, ids, len(y), wraps=False)
        error, result = dy.astype(np.float64).reshape(y.shape)[at], y.astype(np.float64)[at]
        sizes = _column(np.bincount(at, minlength=len(y))[at], error)
        powers = np.exp(x - result) if "Exp" in kind else 1.0
        if kind == "Max":
            powers = np.equal(x, y[at])
        return [(error * powers / (sizes if "Mean" in kind else 1)).astype(x.dtype)]


for _kind in ("Sum", "Mean", "Max", "LogSumExp", "LogMeanExp"):
    _declare_range(_kind)


@operator("BatchPermutationGradient", inputs=2, dtypes=("int32",))
def batch_permutation_gradient(op: OperatorDef, indices: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """Row ``indices[i]`` of dX is row i of dY."""
    require(op, indices.shape == dy.shape[:1], "there must be one index for each row", indices, dy)
    return [dy]


@batch_permutation_gradient.reference
def batch_permutation_gradient_reference(op: OperatorDef, indices: Array, dy: Array) -> List[Any]:
    dx = np.zeros_like(dy)
    dx[absolute(op, indices, len(dy), wraps=False)] = dy
    return [dx]
