"""TensorFlow Lite's operators that pick and place elements and that neither Caffe2 nor ONNX has."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import broadcast
from runtime_arm.operators.common.copying import copy_all
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import axis_of, integers_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


@operator("Gather", domain="tflite", inputs=2)
def gather(op: OperatorDef, x: TensorSpec, indices: TensorSpec) -> List[TensorSpec]:
    """The elements of X along ``axis`` at the indices. The first ``batch_dims`` dimensions each have their own indices.

    X: (batch..., outer..., n, inner...), indices: (batch..., more...), Y: (batch..., outer..., more..., inner...).
    """
    axis, batch = _gather_axes(op, x)
    require(
        op,
        indices.dtype.kind in "iu" and x.shape[:batch] == indices.shape[:batch],
        f"X and the indices must agree in {batch} dimensions",
        x,
        indices,
    )
    return [x.with_shape((*x.shape[:axis], *indices.shape[batch:], *x.shape[axis + 1 :]))]


def _gather_axes(op: OperatorDef, x: TensorSpec) -> Tuple[int, int]:
    axis, batch = axis_of(op, op.get_int("axis"), x.ndim), op.get_int("batch_dims", 0)
    if not 0 <= batch <= axis:
        raise ArgumentError(op, f"batch_dims must be 0 to {axis}, got {batch}")
    return axis, batch


@gather.reference
def gather_reference(op: OperatorDef, x: Array, indices: Array) -> List[Any]:
    axis, batch = _gather_axes(op, TensorSpec.known(x))
    require(op, bool(np.all((indices >= 0) & (indices < x.shape[axis]))), f"an index is not 0 to {x.shape[axis] - 1}")
    result = np.empty((*x.shape[:axis], *indices.shape[batch:], *x.shape[axis + 1 :]), x.dtype)
    for place in np.ndindex(*x.shape[:batch]):
        result[place] = np.take(x[place], indices[place], axis=axis - batch)
    return [result]


@operator("DynamicUpdateSlice", domain="tflite", inputs=3, inplace={0: 0})
def dynamic_update_slice(op: OperatorDef, x: TensorSpec, update: TensorSpec, start: TensorSpec) -> List[TensorSpec]:
    """X with ``update`` written at ``start``. The start is moved so that the update lies inside X."""
    require(
        op,
        x.ndim == update.ndim and x.dtype == update.dtype and start.shape == (x.ndim,),
        "X and the update must have one dtype and as many dimensions as the start has elements",
        x,
        update,
        start,
    )
    require(op, all(n <= m for n, m in zip(update.shape, x.shape)), "the update must fit into X", x, update)
    return [x.with_shape(x.shape)]


@dynamic_update_slice.reference
def dynamic_update_slice_reference(op: OperatorDef, x: Array, update: Array, start: Array) -> List[Any]:
    result = x.copy()
    result[_place(start, x.shape, update.shape)] = update
    return [result]


def _place(start: Array, whole: Shape, part: Shape) -> Tuple[slice, ...]:
    heads = [min(max(int(n), 0), m - k) for n, m, k in zip(start, whole, part)]
    return tuple(slice(head, head + n) for head, n in zip(heads, part))


@dynamic_update_slice.kernel("NUMPY")
def dynamic_update_slice_numpy(call: Call) -> Run:
    x, update, start = call.inputs
    y, known = call.outputs[0], call.in_specs[2]
    if known is not None and known.value is not None:
        return copy_all([(y, x), (y[_place(start, x.shape, update.shape)], update)])
    copied = copy_all([(y, x)])

    def run() -> None:
        copied()
        y[_place(start, y.shape, update.shape)] = update

    return run


_REDUCTIONS: Dict[str, Tuple[np.ufunc, Callable[[np.dtype[Any]], Any]]] = {
    "sum": (np.add, lambda dtype: 0),
    "prod": (np.multiply, lambda dtype: 1),
    "max": (np.maximum, lambda dtype: _limits(dtype).min),
    "min": (np.minimum, lambda dtype: _limits(dtype).max),
}


def _limits(dtype: np.dtype[Any]) -> Any:
    return np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)


@operator("UnsortedSegment", domain="tflite", inputs=3)
def unsorted_segment(op: OperatorDef, x: TensorSpec, ids: TensorSpec, count: TensorSpec) -> List[TensorSpec]:
    """Slice s of Y is the ``reduction`` (sum, prod, max, min) of the slices of X with the id s.

    X: (ids..., rest...), Y: (count, rest...). Negative ids are left out. Without slices, the result is the neutral
    element: 0, 1, the lowest or the highest number.
    """
    if op.get_str("reduction") not in _REDUCTIONS:
        raise ArgumentError(op, f"reduction must be one of {', '.join(_REDUCTIONS)}, got {op.get_str('reduction')!r}")
    require(
        op,
        ids.dtype.kind == "i" and x.shape[: ids.ndim] == ids.shape,
        "the ids must have X's first dimensions",
        x,
        ids,
    )
    (segments,) = integers_of(op, count, "count")
    require(op, segments >= 0, f"the count must not be negative, got {segments}")
    return [x.with_shape((segments, *x.shape[ids.ndim :]))]


@unsorted_segment.reference
def unsorted_segment_reference(op: OperatorDef, x: Array, ids: Array, count: Array) -> List[Any]:
    segments, rest = int(count.reshape(-1)[0]), x.shape[ids.ndim :]
    require(op, bool(np.all(ids < segments)), f"an id is not less than {segments}")
    ufunc, start = _REDUCTIONS[op.get_str("reduction")]
    result = np.full((segments, *rest), start(x.dtype), x.dtype)
    flat, kept = x.reshape(-1, *rest), ids.reshape(-1) >= 0
    ufunc.at(result, ids.reshape(-1)[kept], flat[kept])
    return [result]


@operator("BroadcastArgs", domain="tflite", inputs=2, dtypes=("int32", "int64"))
def broadcast_args(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """The shape to which two shapes broadcast."""
    require(op, a.ndim == b.ndim == 1 and a.dtype == b.dtype, "the inputs must be two vectors of one dtype", a, b)
    return [TensorSpec((max(a.shape[0], b.shape[0]),), a.dtype)]


@broadcast_args.reference
def broadcast_args_reference(op: OperatorDef, a: Array, b: Array) -> List[Any]:
    shapes = [tuple(map(int, one)) for one in (a, b)]
    specs = [TensorSpec(one.shape, one.dtype) for one in (a, b)]
    return [np.array(broadcast(op, specs, shapes), a.dtype)]
