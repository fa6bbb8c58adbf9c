"""One-hot encodings and buckets of Caffe2, and ONNX's OneHot."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.indices import check_range
from runtime_arm.registry.schema import axis_of, operator, require, value_of
from runtime_arm.registry.specs import TensorSpec


def _size(op: OperatorDef, size: TensorSpec) -> int:
    require(op, size.size == 1 and size.dtype == np.int64, "the index size must be one int64", size)
    return int(value_of(op, size, "index_size").reshape(-1)[0])


def _is_vector(spec: TensorSpec, dtype: Any) -> bool:
    return spec.ndim == 1 and spec.dtype == dtype


@operator("OneHot", inputs=2)
def one_hot(op: OperatorDef, indices: TensorSpec, size: TensorSpec) -> List[TensorSpec]:
    """Row i of Y, float32, is 1 at indices[i] and 0 elsewhere. The second input is the length of a row; both int64."""
    require(op, _is_vector(indices, np.int64), "indices must be a vector of int64", indices)
    return [TensorSpec((indices.shape[0], _size(op, size)), np.float32)]


@one_hot.reference
def one_hot_reference(op: OperatorDef, indices: Array, size: Array) -> List[Any]:
    y = np.zeros((indices.size, int(size.reshape(-1)[0])), np.float32)
    check_range(op, indices, y.shape[1], wraps=False)
    y[np.arange(indices.size), indices] = 1
    return [y]


@operator("SegmentOneHot", inputs=3)
def segment_one_hot(op: OperatorDef, lengths: TensorSpec, indices: TensorSpec, size: TensorSpec) -> List[TensorSpec]:
    """Row i of Y, float32, is 1 at the indices of segment i, which are the next lengths[i] of the second input."""
    require(
        op,
        _is_vector(lengths, np.int32) and _is_vector(indices, np.int64),
        "lengths must be a vector of int32, indices a vector of int64",
        lengths,
        indices,
    )
    require(op, size.value is None or _size(op, size) > 0, "the index size must be positive", size)
    return [TensorSpec((lengths.shape[0], _size(op, size)), np.float32)]


@segment_one_hot.reference
def segment_one_hot_reference(op: OperatorDef, lengths: Array, indices: Array, size: Array) -> List[Any]:
    y = np.zeros((lengths.size, int(size.reshape(-1)[0])), np.float32)
    require(
        op,
        int(lengths.sum()) <= indices.size and int(lengths.min(initial=0)) >= 0,
        f"lengths {lengths.tolist()} do not fit the indices",
    )
    check_range(op, indices, y.shape[1], wraps=False)
    rows = np.repeat(np.arange(lengths.size), lengths)
    y[rows, indices[: rows.size]] = 1
    return [y]


@operator("BatchOneHot", inputs=3)
def batch_one_hot(op: OperatorDef, x: TensorSpec, lengths: TensorSpec, values: TensorSpec) -> List[TensorSpec]:
    """Column j of X becomes lengths[j] columns: 1 where X equals the next of the values, else 0; in X's dtype."""
    columns = TensorSpec(x.shape[1:], x.dtype).size
    require(
        op,
        x.ndim > 0 and _is_vector(lengths, np.int32) and lengths.shape[0] == columns,
        "there must be a length, int32, for each of X's columns",
        x,
        lengths,
    )
    require(op, values.ndim == 1 and values.dtype == x.dtype, "values must be a vector of X's dtype", x, values)
    return [x.with_shape((x.shape[0], values.shape[0]))]


@batch_one_hot.reference
def batch_one_hot_reference(op: OperatorDef, x: Array, lengths: Array, values: Array) -> List[Any]:
    _check_lengths(op, lengths, values)
    columns = np.repeat(x.reshape(x.shape[0], lengths.size), lengths, axis=1)
    return [(columns == values).astype(x.dtype)]


def _check_lengths(op: OperatorDef, lengths: Array, values: Array) -> None:
    fit = int(lengths.min(initial=0)) >= 0 and int(lengths.sum()) == values.size
    require(op, fit, f"lengths {lengths.tolist()} must add up to the number of values, {values.size}")


@operator("BatchBucketOneHot", inputs=3)
def batch_bucket_one_hot(
    op: OperatorDef, x: TensorSpec, lengths: TensorSpec, boundaries: TensorSpec
) -> List[TensorSpec]:
    """Column j of X becomes lengths[j] + 1 columns of Y, float32: 1 for the bucket that X falls into.

    The boundaries of a column ascend; a bucket includes its upper one. Of the buckets between equal boundaries X falls
    into the middle one.
    """
    columns = lengths.shape[0] if _is_vector(lengths, np.int32) else -1
    require(
        op,
        x.ndim == 2 and x.dtype == np.float32 and x.shape[1] == columns,
        "X must be a matrix of float32 with a length, int32, for each column",
        x,
        lengths,
    )
    require(op, _is_vector(boundaries, np.float32), "boundaries must be a vector of float32", boundaries)
    return [TensorSpec((x.shape[0], boundaries.shape[0] + x.shape[1]), np.float32)]


@batch_bucket_one_hot.reference
def batch_bucket_one_hot_reference(op: OperatorDef, x: Array, lengths: Array, boundaries: Array) -> List[Any]:
    _check_lengths(op, lengths, boundaries)
    y = np.zeros((x.shape[0], boundaries.size + x.shape[1]), np.float32)
    start = 0
    for column, length in enumerate(lengths.tolist()):
        bounds, values = boundaries[start : start + length], x[:, column]
        bucket = (np.searchsorted(bounds, values, "left") + np.searchsorted(bounds, values, "right")) // 2
        y[np.arange(x.shape[0]), start + column + bucket] = 1
        start += length
    return [y]


def _bucket(x: Array, boundaries: Array) -> Array:
    """The number of boundaries below each element; 0 for NaN."""
    return np.asarray((boundaries < x[..., np.newaxis]).sum(axis=-1))


@operator("Bucketize")
def bucketize(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The number of the bucket that X falls into, int32. ``boundaries`` ascend; a bucket includes its upper one."""
    boundaries = op.get_floats("boundaries")
    require(op, list(boundaries) == sorted(boundaries), f"boundaries {boundaries} must ascend")
    require(op, x.dtype == np.float32, "X must be float32", x)
    return [x.with_dtype(np.int32)]


@bucketize.reference
def bucketize_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [_bucket(x, np.array(op.get_floats("boundaries"), np.float32)).astype(np.int32)]


@operator("OneHot", domain="onnx", inputs=3)
def onnx_one_hot(op: OperatorDef, indices: TensorSpec, depth: TensorSpec, values: TensorSpec) -> List[TensorSpec]:
    """Y has a new dimension of ``depth`` elements at ``axis`` (-1): values[1] at the index, values[0] elsewhere.

    Negative indices count from the end. Those out of range give a row of values[0]. The depth is the second input.
    """
    require(op, depth.size == 1 and values.shape == (2,), "depth must be one number, values must be two", depth, values)
    count = int(value_of(op, depth, "depth").reshape(-1)[0])
    require(op, count >= 0, f"depth must not be negative, got {count}")
    axis = axis_of(op, op.get_int("axis", -1), indices.ndim + 1)
    return [TensorSpec((*indices.shape[:axis], count, *indices.shape[axis:]), values.dtype)]


@onnx_one_hot.reference
def onnx_one_hot_reference(op: OperatorDef, indices: Array, depth: Array, values: Array) -> List[Any]:
    count, axis = int(depth.reshape(-1)[0]), axis_of(op, op.get_int("axis", -1), indices.ndim + 1)
    places = np.arange(count).reshape((-1,) + (1,) * (indices.ndim - axis))
    index = np.expand_dims(np.trunc(indices) if indices.dtype.kind == "f" else indices, axis)
    if indices.dtype.kind != "u":
        index = np.where(index < 0, index + count, index)
    return [np.where(index == places, values[1], values[0])]
