"""The positions of the largest and smallest elements: ArgMax, ArgMin and TopK of Caffe2 and ONNX."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import CAFFE2_NUMBERS, FLOATS, NUMBERS
from runtime_arm.operators.common.reductions import reduced_shape
from runtime_arm.registry.schema import axis_of, integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec


def front_axis(op: OperatorDef, ndim: int) -> int:
    """Caffe2's axis: -1 (the default) is the last dimension, others count from the front."""
    axis = op.get_int("axis", -1)
    if not -1 <= axis < ndim or ndim == 0:
        raise ArgumentError(op, f"axis must be -1 or from 0 to {ndim - 1}, got {axis}")
    return axis % ndim


def _onnx_axis(op: OperatorDef, ndim: int, default: int) -> int:
    require(op, ndim > 0, "X must have a dimension")
    return axis_of(op, op.get_int("axis", default), ndim)


def _positions(op: OperatorDef, x: TensorSpec, axis: int) -> List[TensorSpec]:
    y = TensorSpec(reduced_shape(x.shape, (axis,), op.get_bool("keepdims", True)), np.int64)
    require(op, not op.domain or x.shape[axis] > 0 or not y.size, "there must be an element along the axis", x)
    return [y]


@operator("ArgMax", dtypes=CAFFE2_NUMBERS)
def arg_max(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y, int64: the index of the first maximum along ``axis`` (-1), which stays as 1 unless keepdims=0.

    The index is 0 if there are no elements. NaN is a maximum only if it comes first: nothing is larger.
    """
    return _positions(op, x, front_axis(op, x.ndim))


@operator("ArgMin", dtypes=CAFFE2_NUMBERS)
def arg_min(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y, int64: the index of the first minimum along ``axis`` (-1). Otherwise as ArgMax."""
    return _positions(op, x, front_axis(op, x.ndim))


@operator("ArgMax", domain="onnx", dtypes=NUMBERS)
def onnx_arg_max(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Caffe2's ArgMax, with axis 0 as the default. With ``select_last_index``, the last of several maxima.

    There must be an element along the axis, unless Y has none.
    """
    return _positions(op, x, _onnx_axis(op, x.ndim, 0))


@operator("ArgMin", domain="onnx", dtypes=NUMBERS)
def onnx_arg_min(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Caffe2's ArgMin, with axis 0 as the default. With ``select_last_index``, the last of several minima.

    There must be an element along the axis, unless Y has none.
    """
    return _positions(op, x, _onnx_axis(op, x.ndim, 0))


@arg_max.reference
@arg_min.reference
@onnx_arg_max.reference
@onnx_arg_min.reference
def position_reference(op: OperatorDef, x: Array) -> List[Any]:
    axis = _onnx_axis(op, x.ndim, 0) if op.domain else front_axis(op, x.ndim)
    lanes, largest = np.moveaxis(x, axis, -1), op.type == "ArgMax"
    if x.shape[axis] == 0:
        found = np.zeros(lanes.shape[:-1], np.int64)
    else:
        found = _first(_without_nan(lanes, largest), largest, op.get_bool("select_last_index"))
        found = np.where(lanes[..., 0] == lanes[..., 0], found, 0)
    return [found.reshape(reduced_shape(x.shape, (axis,), op.get_bool("keepdims", True))).astype(np.int64)]


def _without_nan(x: Array, largest: bool) -> Array:
    """X with NaN replaced by what is chosen last."""
    nan = np.isnan(x) if x.dtype.kind == "f" else np.zeros(0, bool)
    return np.where(nan, -np.inf if largest else np.inf, x).astype(x.dtype) if nan.any() else x


def _first(lanes: Array, largest: bool, from_behind: bool) -> Any:
    find = np.argmax if largest else np.argmin
    if from_behind:
        return lanes.shape[-1] - 1 - find(lanes[..., ::-1], axis=-1)
    return find(lanes, axis=-1)


@operator("TopK", inputs=(1, 2), outputs=(2, 3), dtypes=FLOATS)
def top_k(op: OperatorDef, x: TensorSpec, k: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """The ``k`` largest elements along ``axis`` (-1), in descending order, and their indices, int64.

    Equal elements keep their order. k is input 1, one int64, or an argument. If there are fewer elements, zeros follow,
    and -1 as indices. Output 2 holds the indices into X's memory, a vector.
    """
    count = _count(op, k)
    axis = front_axis(op, x.ndim)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    values = x.with_shape(shape)
    return [values, TensorSpec(shape, np.int64), TensorSpec((values.size,), np.int64)]


def _count(op: OperatorDef, k: Optional[TensorSpec]) -> int:
    if k is None:
        count = op.get_int("k", -1)
    else:
        require(op, k.size == 1 and k.dtype == np.int64, "k must be one int64", k)
        count = integers_of(op, k, "k")[0]
    if count < 1:
        raise ArgumentError(op, f"k must be 1 or more, got {count}")
    return count


@top_k.reference
def top_k_reference(op: OperatorDef, x: Array, k: Optional[Array] = None) -> List[Any]:
    axis, count = front_axis(op, x.ndim), _count(op, None if k is None else TensorSpec.known(k))
    missing = max(count - x.shape[axis], 0)
    order = _ordered(x, axis, largest=True, count=count)
    places = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    results = [np.take_along_axis(x, order, axis), order, np.take_along_axis(places, order, axis)]
    width = [(0, missing if i == axis else 0) for i in range(x.ndim)]
    values, indices, flat = (np.pad(result, width, constant_values=fill) for result, fill in zip(results, (0, -1, -1)))
    return [values, indices, flat.reshape(-1)]


def _ordered(x: Array, axis: int, largest: bool, count: int) -> Array:
    """The indices of the first ``count`` elements along the axis in sorted order. Equal elements keep their order."""
    lanes = np.moveaxis(_without_nan(x, largest), axis, -1)
    if largest:
        order = lanes.shape[-1] - 1 - np.argsort(lanes[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    else:
        order = np.argsort(lanes, axis=-1, kind="stable")
    return np.ascontiguousarray(np.moveaxis(order[..., :count], -1, axis), np.int64)


@operator("TopK", domain="onnx", inputs=2, outputs=2, dtypes=NUMBERS)
def onnx_top_k(op: OperatorDef, x: TensorSpec, k: TensorSpec) -> List[TensorSpec]:
    """The K largest elements along ``axis`` (-1), or with largest=0 the smallest, and their indices.

    They are always sorted, for any value of ``sorted``; of equal elements the first comes first.
    """
    axis = _onnx_axis(op, x.ndim, -1)
    require(op, k.size == 1, "K must be one number", k)
    count = integers_of(op, k, "K")[0]
    require(op, 0 <= count <= x.shape[axis], f"K must be from 0 to {x.shape[axis]}, got {count}")
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return [x.with_shape(shape), TensorSpec(shape, np.int64)]


@onnx_top_k.reference
def onnx_top_k_reference(op: OperatorDef, x: Array, k: Array) -> List[Any]:
    axis = _onnx_axis(op, x.ndim, -1)
    order = _ordered(x, axis, op.get_bool("largest", True), int(k.reshape(-1)[0]))
    return [np.take_along_axis(x, order, axis), order]
