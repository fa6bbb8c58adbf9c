"""Writing elements by index: ScatterAssign, Scatter (Caffe2), ScatterElements, ScatterND, TensorScatter (ONNX)."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.indices import absolute, check_range, require_indices
from runtime_arm.operators.indexing.gather import element_index, fits_but, tuple_index
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import TensorSpec

Write = Callable[[Array, Any, Array], None]


def _assign(target: Array, index: Any, source: Array) -> None:
    target[index] = source


# ufunc.at: if an index occurs twice, both updates count
WRITES: Dict[str, Write] = {
    "none": _assign,
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


def _write(op: OperatorDef) -> Write:
    reduction = op.get_str("reduction", "none")
    if reduction not in WRITES:
        raise ArgumentError(op, f"reduction must be none, add, mul, max or min, got {reduction!r}")
    return WRITES[reduction]


@operator("ScatterAssign", inputs=3, inplace={0: 0})
def scatter_assign(op: OperatorDef, data: TensorSpec, indices: TensorSpec, slices: TensorSpec) -> List[TensorSpec]:
    """Y = data, but Y[indices[k]] = slices[k] along the first dimension. Of equal indices the last one counts."""
    require_indices(op, indices)
    require(
        op,
        data.ndim > 0 and data.dtype == slices.dtype,
        "data must have a dimension, and the slices the dtype of data",
        data,
        slices,
    )
    size = indices.size * TensorSpec(data.shape[1:], data.dtype).size
    require(op, slices.size == size, f"{indices.size} slices must have {size} elements", data, slices)
    return [data]


@scatter_assign.reference
def scatter_assign_reference(op: OperatorDef, data: Array, indices: Array, slices: Array) -> List[Any]:
    y = data.copy()
    rows = slices.reshape((indices.size, *data.shape[1:]))
    for k, row in enumerate(absolute(op, indices, data.shape[0], wraps=False).reshape(-1)):
        y[row] = rows[k]
    return [y]


@scatter_assign.kernel("NUMPY")
def scatter_assign_numpy(call: Call) -> Run:
    op, (data, indices, slices), y = call.op, call.inputs, call.outputs[0]
    rows, flat = slices.reshape((indices.size, *data.shape[1:])), indices.reshape(-1)

    def run() -> None:
        check_range(op, flat, y.shape[0], wraps=False)
        np.copyto(y, data)
        y[flat] = rows

    return run


@operator("Scatter", inputs=3)
def scatter(op: OperatorDef, data: TensorSpec, indices: TensorSpec, updates: TensorSpec) -> List[TensorSpec]:
    """ScatterElements along ``axis`` (1). Of equal indices the last one counts; negative ones are refused."""
    require_indices(op, indices)
    axis = axis_of(op, op.get_int("axis", 1), data.ndim)
    fits = fits_but(data.shape, indices.shape, axis) and indices.shape == updates.shape
    require(
        op,
        fits and data.dtype == updates.dtype,
        f"indices and updates must have one shape and data's dimensions, none longer except number {axis}",
        data,
        indices,
        updates,
    )
    return [data]


@scatter.reference
def scatter_reference(op: OperatorDef, data: Array, indices: Array, updates: Array) -> List[Any]:
    y, axis = data.copy(), axis_of(op, op.get_int("axis", 1), data.ndim)
    check_range(op, indices, data.shape[axis], wraps=False)
    y[element_index(op, data.shape, indices, axis)] = updates
    return [y]


@operator("ScatterElements", domain="onnx", inputs=3)
def scatter_elements(op: OperatorDef, data: TensorSpec, indices: TensorSpec, updates: TensorSpec) -> List[TensorSpec]:
    """Y = data, but Y[indices[i, j, ...], j, ...] = updates[i, j, ...] for ``axis`` 0, and accordingly for others.

    With ``reduction`` add, mul, max or min (default: none), the old value is combined with the update. Negative indices
    count from the end.
    """
    require_indices(op, indices)
    _write(op)
    axis = axis_of(op, op.get_int("axis", 0), data.ndim)
    fits = fits_but(data.shape, indices.shape, axis)
    require(
        op,
        fits and indices.shape == updates.shape and data.dtype == updates.dtype,
        f"indices and updates must have one shape and data's dimensions, none longer except number {axis}",
        data,
        indices,
        updates,
    )
    return [data]


@scatter_elements.reference
def scatter_elements_reference(op: OperatorDef, data: Array, indices: Array, updates: Array) -> List[Any]:
    y = data.copy()
    _write(op)(y, element_index(op, data.shape, indices, axis_of(op, op.get_int("axis", 0), data.ndim)), updates)
    return [y]


@operator("ScatterND", domain="onnx", inputs=3)
def scatter_nd(op: OperatorDef, data: TensorSpec, indices: TensorSpec, updates: TensorSpec) -> List[TensorSpec]:
    """Y = data, but Y[indices[i...]] = updates[i...], where indices[i...] index the first dimensions of data.

    With ``reduction`` add, mul, max or min (default: none), the old value is combined with the update. Negative indices
    count from the end.
    """
    require_indices(op, indices)
    _write(op)
    require(
        op,
        indices.ndim > 0 and 0 < indices.shape[-1] <= data.ndim,
        "the last dimension of indices must be 1 to the number of data's dimensions",
        data,
        indices,
    )
    shape = indices.shape[:-1] + data.shape[indices.shape[-1] :]
    require(
        op,
        updates.shape == shape and updates.dtype == data.dtype,
        f"updates must have the shape {shape}",
        data,
        indices,
        updates,
    )
    return [data]


@scatter_nd.reference
def scatter_nd_reference(op: OperatorDef, data: Array, indices: Array, updates: Array) -> List[Any]:
    y = data.copy()
    _write(op)(y, tuple_index(op, data.shape, indices), updates)
    return [y]


@operator("TensorScatter", domain="onnx", inputs=(2, 3))
def tensor_scatter(
    op: OperatorDef, cache: TensorSpec, update: TensorSpec, start: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Y = cache, but for each batch the update is written along ``axis`` (-2), starting at the position in input 2 (0).

    ``mode`` linear (the update must fit) or circular (it continues at the front).
    """
    axis = axis_of(op, op.get_int("axis", -2), cache.ndim)
    if op.get_str("mode", "linear") not in ("linear", "circular"):
        raise ArgumentError(op, f"mode must be linear or circular, got {op.get_str('mode')!r}")
    alike = cache.shape[:axis] + cache.shape[axis + 1 :] == update.shape[:axis] + update.shape[axis + 1 :]
    alike = alike and cache.ndim == update.ndim and update.shape[axis] <= cache.shape[axis]
    require(
        op,
        axis > 0 and alike and cache.dtype == update.dtype,
        f"the update must have the cache's shape except in dimension {axis}",
        cache,
        update,
    )
    require(
        op,
        start is None or start.shape == cache.shape[:1],
        "there must be a start position for each batch",
        cache,
        start,
    )
    return [cache]


@tensor_scatter.reference
def tensor_scatter_reference(op: OperatorDef, cache: Array, update: Array, start: Optional[Array] = None) -> List[Any]:
    axis = axis_of(op, op.get_int("axis", -2), cache.ndim)
    y, length = cache.copy(), cache.shape[axis]
    starts: Sequence[int] = [0] * len(cache) if start is None else [int(n) for n in start]
    for batch, first in enumerate(starts):
        positions = first + np.arange(update.shape[axis])
        if op.get_str("mode", "linear") == "circular":
            positions = positions % length
        check_range(op, positions, length, wraps=False)
        y[batch][(slice(None),) * (axis - 1) + (positions,)] = update[batch]
    return [y]
