"""Selections whose size depends on the data, and searches, of Caffe2 and ONNX."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import axis_of, operator, require, value_of
from runtime_arm.registry.specs import TensorSpec


@operator("NonZero", domain="onnx")
def nonzero(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The indices of X's elements that are not 0, int64: one row per dimension, one column per element."""
    return [TensorSpec((x.ndim, int(np.count_nonzero(value_of(op, x, "X")))), np.int64)]


@nonzero.reference
def nonzero_reference(op: OperatorDef, x: Array) -> List[Any]:
    rows = np.nonzero(x.reshape(x.shape or (1,)))
    return [np.array(rows[: x.ndim], np.int64).reshape(x.ndim, -1) if x.ndim else np.zeros((0, rows[0].size), np.int64)]


@operator("Compress", domain="onnx", inputs=2)
def compress(op: OperatorDef, x: TensorSpec, condition: TensorSpec) -> List[TensorSpec]:
    """The slices of X along ``axis`` (default: the elements of the flattened X) whose condition holds.

    The condition may be shorter than the axis.
    """
    require(
        op, condition.ndim == 1 and condition.dtype == np.bool_, "the condition must be a vector of bool", condition
    )
    axis = axis_of(op, op.get_int("axis"), x.ndim) if op.has("axis") else None
    length = x.size if axis is None else x.shape[axis]
    require(op, condition.shape[0] <= length, f"the condition must not be longer than {length}", x, condition)
    count = int(np.count_nonzero(value_of(op, condition, "condition")))
    return [x.with_shape((count,) if axis is None else (*x.shape[:axis], count, *x.shape[axis + 1 :]))]


@compress.reference
def compress_reference(op: OperatorDef, x: Array, condition: Array) -> List[Any]:
    return [np.compress(condition, x, op.get_int("axis") if op.has("axis") else None)]


@operator("BooleanMask", inputs=2, outputs=(1, 2))
def boolean_mask(op: OperatorDef, x: TensorSpec, mask: TensorSpec) -> List[TensorSpec]:
    """The rows of X whose mask is true. The second output holds their indices, int64."""
    fits = x.ndim > 0 and mask.dtype == np.bool_ and mask.shape == x.shape[:1]
    require(op, fits, "the mask must be a vector of bool, one for each row", x, mask)
    count = int(np.count_nonzero(value_of(op, mask, "mask")))
    return [x.with_shape((count, *x.shape[1:])), TensorSpec((count,), np.int64)]


@boolean_mask.reference
def boolean_mask_reference(op: OperatorDef, x: Array, mask: Array) -> List[Any]:
    return [x[mask], np.flatnonzero(mask).astype(np.int64)]


@operator("Unique", outputs=(1, 2))
def unique(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The distinct elements of X, ascending. The second output, int32: the position of each of X's elements in them."""
    require(op, x.ndim == 1 and x.dtype.name in ("int32", "int64"), "X must be a vector of int32 or int64", x)
    return [x.with_shape((np.unique(value_of(op, x, "X")).size,)), x.with_dtype(np.int32)]


@unique.reference
def unique_reference(op: OperatorDef, x: Array) -> List[Any]:
    values, places = np.unique(x, return_inverse=True)
    return [values, places.astype(np.int32).reshape(x.shape)]


@operator("Unique", domain="onnx", outputs=(1, 4))
def onnx_unique(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The distinct slices of X along ``axis`` (default: elements of the flattened X).

    Further outputs, int64: where each occurs first in X; the position of each of X's slices in them; how often each
    occurs. ``sorted`` 1 (default): ascending; 0: in the order of X.
    """
    values, first, places, _ = _unique(op, value_of(op, x, "X"))
    return [x.with_shape(values.shape), *(TensorSpec((n,), np.int64) for n in (first.size, places.size, first.size))]


def _unique(op: OperatorDef, x: Array) -> List[Array]:
    axis = axis_of(op, op.get_int("axis"), x.ndim) if op.has("axis") else None
    values, first, places, counts = np.unique(x, True, True, True, axis=axis)
    places = places.reshape(-1)
    if not op.get_bool("sorted", True):
        order = np.argsort(first)
        values = np.take(values, order, axis=0 if axis is None else axis)
        places, first, counts = np.argsort(order)[places], first[order], counts[order]
    return [values, first.astype(np.int64), places.astype(np.int64), counts.astype(np.int64)]


@onnx_unique.reference
def onnx_unique_reference(op: OperatorDef, x: Array) -> List[Any]:
    return list(_unique(op, x))


@operator("Find", inputs=2)
def find(op: OperatorDef, index: TensorSpec, needles: TensorSpec) -> List[TensorSpec]:
    """The position of the last occurrence of each needle in the index, or ``missing_value`` (-1).

    All are int32 or all int64.
    """
    require(
        op,
        index.dtype == needles.dtype and index.dtype.name in ("int32", "int64"),
        "index and needles must both be int32 or both int64",
        index,
        needles,
    )
    return [needles]


@find.reference
def find_reference(op: OperatorDef, index: Array, needles: Array) -> List[Any]:
    order = np.argsort(index.reshape(-1), kind="stable")
    values = index.reshape(-1)[order]
    last = np.searchsorted(values, needles, side="right") - 1
    found = (last >= 0) & (values[last] == needles) if values.size else np.zeros(needles.shape, np.bool_)
    places = order[last] if values.size else last
    return [np.where(found, places, op.get_int("missing_value", -1)).astype(needles.dtype)]


@operator("StumpFuncIndex", outputs=2, dtypes=("float32",))
def stump_func_index(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The indices, int64, of the elements of X that are at most ``threshold`` (0), and of the others."""
    below = _not_above(op, value_of(op, x, "X"))
    return [TensorSpec((int(below.sum()),), np.int64), TensorSpec((int((~below).sum()),), np.int64)]


def _not_above(op: OperatorDef, x: Array) -> Array:
    return np.asarray(x.reshape(-1) <= np.float32(op.get_float("threshold", 0.0)))


@stump_func_index.reference
def stump_func_index_reference(op: OperatorDef, x: Array) -> List[Any]:
    below = _not_above(op, x)
    return [np.flatnonzero(below).astype(np.int64), np.flatnonzero(~below).astype(np.int64)]


@operator("FindDuplicateElements")
def find_duplicate_elements(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The indices, int64, of the elements of a vector that equal an earlier one."""
    require(op, x.ndim == 1, "X must be a vector", x)
    return [TensorSpec((_duplicates(value_of(op, x, "X")).size,), np.int64)]


def _duplicates(x: Array) -> Array:
    first = np.unique(x, return_index=True)[1]
    return np.delete(np.arange(x.size, dtype=np.int64), first)


@find_duplicate_elements.reference
def find_duplicate_elements_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [_duplicates(x)]
