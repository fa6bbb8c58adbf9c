"""Picking elements by index: Caffe2's Gather and BatchGather, ONNX's Gather, GatherElements and GatherND."""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.indices import absolute, check_range, require_indices
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import Operator, axis_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


class Picking(NamedTuple):
    """How Gather picks: the dimension, whether negative indices wrap, whether each batch has its own indices."""

    axis: int
    wraps: bool
    batched: bool


@operator("Gather", inputs=2)
def gather(op: OperatorDef, data: TensorSpec, indices: TensorSpec) -> List[TensorSpec]:
    """Y[..., i..., ...] = data[..., indices[i...], ...] along ``axis`` (0).

    With ``wrap_indices``, negative indices count from the end; by default only along dimension 0. With ``match_outer``,
    data and indices share the dimensions before the axis, and each batch picks by its own indices. Data without
    elements along the axis give an output of their own shape, as in Caffe2.
    """
    return [_gathered(op, data, indices)]


@operator("BatchGather", inputs=2)
def batch_gather(op: OperatorDef, data: TensorSpec, indices: TensorSpec) -> List[TensorSpec]:
    """Gather along dimension 1. Negative indices are refused. ``match_outer`` as in Gather."""
    return [_gathered(op, data, indices)]


@operator("Gather", domain="onnx", inputs=2)
def onnx_gather(op: OperatorDef, data: TensorSpec, indices: TensorSpec) -> List[TensorSpec]:
    """Caffe2's Gather with ``wrap_indices``, but that no index fits data without elements along the axis."""
    return [_gathered(op, data, indices)]


def _picking(op: OperatorDef, ndim: int) -> Picking:
    if op.type == "BatchGather":
        return Picking(axis_of(op, 1, ndim), False, op.get_bool("match_outer"))
    axis = op.get_int("axis", 0)
    if op.domain:
        return Picking(axis_of(op, axis, ndim), True, False)
    require(op, axis_of(op, axis, ndim) > 0 or not op.get_bool("match_outer"), "match_outer needs an axis of 1 or more")
    return Picking(axis_of(op, axis, ndim), op.get_bool("wrap_indices", axis == 0), op.get_bool("match_outer"))


def _gathered(op: OperatorDef, data: TensorSpec, indices: TensorSpec) -> TensorSpec:
    require(op, data.ndim > 0, "data must have a dimension", data)
    require_indices(op, indices)
    axis, _, batched = _picking(op, data.ndim)
    if _keeps_shape(op, data.shape[axis]):
        return data.with_shape(data.shape)
    outer = data.shape[:axis]
    if batched:
        require(op, indices.shape[:axis] == outer, f"indices must have data's first {axis} dimensions", data, indices)
        return data.with_shape((*indices.shape, *data.shape[axis + 1 :]))
    return data.with_shape((*outer, *indices.shape, *data.shape[axis + 1 :]))


def _keeps_shape(op: OperatorDef, length: int) -> bool:
    """Whether there is nothing to pick, which Caffe2 accepts with any indices."""
    return length == 0 and not op.domain


def _add_gather_kernels(schema: Operator) -> None:
    @schema.reference
    def reference(op: OperatorDef, data: Array, indices: Array) -> List[Any]:
        axis, wraps, batched = _picking(op, data.ndim)
        if _keeps_shape(op, data.shape[axis]):
            return [data.copy()]
        index = absolute(op, indices, data.shape[axis], wraps)
        if not batched:
            return [data[(slice(None),) * axis + (index,)]]
        spec = schema.shape(op, TensorSpec.known(data), TensorSpec.known(indices))[0]
        y = np.empty(spec.shape, data.dtype)
        for outer in np.ndindex(*data.shape[:axis]):
            y[outer] = data[outer][index[outer]]
        return [y]

    schema.kernel("NUMPY", supports=_supports_take, scratch=_wide_indices)(gather_numpy)


def _supports_take(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Any:
    data = inputs[0]
    assert data is not None
    axis, _, batched = _picking(op, data.ndim)
    if batched:
        return "every batch has its own indices"
    return "data are empty" if _keeps_shape(op, data.shape[axis]) else None


def _wide_indices(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    indices = inputs[1]
    assert indices is not None
    return (TensorSpec(indices.shape, np.intp),)


def gather_numpy(call: Call) -> Run:
    """Picks with ``take``, which allocates nothing if the indices are intp and wrap."""
    op, (data, indices), y, index = call.op, call.inputs, call.outputs[0], call.scratch[0]
    axis, wraps, _ = _picking(op, data.ndim)
    length = data.shape[axis]

    def run() -> None:
        check_range(op, indices, length, wraps)
        np.copyto(index, indices)
        data.take(index, axis, y, "wrap")

    return run


_add_gather_kernels(gather)
_add_gather_kernels(batch_gather)
_add_gather_kernels(onnx_gather)


@operator("GatherElements", domain="onnx", inputs=2)
def gather_elements(op: OperatorDef, data: TensorSpec, indices: TensorSpec) -> List[TensorSpec]:
    """Y[i, j, ...] = data[indices[i, j, ...], j, ...] for ``axis`` 0, and accordingly for others. Y has indices' shape.

    Negative indices count from the end.
    """
    require_indices(op, indices)
    axis = axis_of(op, op.get_int("axis", 0), data.ndim)
    require(
        op,
        fits_but(data.shape, indices.shape, axis),
        f"indices must have as many dimensions as data, none longer except dimension {axis}",
        data,
        indices,
    )
    return [data.with_shape(indices.shape)]


def fits_but(shape: Shape, part: Shape, axis: int) -> bool:
    """Whether ``part`` has the dimensions of ``shape``, none of them longer except dimension ``axis``."""
    return len(shape) == len(part) and all(m <= n or i == axis for i, (n, m) in enumerate(zip(shape, part)))


def element_index(op: OperatorDef, shape: Shape, indices: Array, axis: int) -> Any:
    """The NumPy index of the elements, of a blob of ``shape``, that GatherElements reads and ScatterElements writes."""
    grid: List[Any] = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    grid[axis] = absolute(op, indices, shape[axis])
    return tuple(grid)


@gather_elements.reference
def gather_elements_reference(op: OperatorDef, data: Array, indices: Array) -> List[Any]:
    return [data[element_index(op, data.shape, indices, axis_of(op, op.get_int("axis", 0), data.ndim))]]


@operator("GatherND", domain="onnx", inputs=2)
def gather_nd(op: OperatorDef, data: TensorSpec, indices: TensorSpec) -> List[TensorSpec]:
    """Y[i...] = data[indices[i...]]: the last dimension of the indices holds indices into the first dimensions of data.

    data and indices share the first ``batch_dims`` (0) dimensions. Negative indices count from the end.
    """
    require_indices(op, indices)
    batch = op.get_int("batch_dims", 0)
    require(
        op,
        indices.ndim > batch >= 0 and data.shape[:batch] == indices.shape[:batch],
        f"data and indices must agree in their first {batch} dimensions",
        data,
        indices,
    )
    depth = indices.shape[-1]
    require(
        op,
        0 < depth <= data.ndim - batch,
        f"indices of {depth} numbers do not fit data's dimensions",
        data,
        indices,
    )
    return [data.with_shape((*indices.shape[:-1], *data.shape[batch + depth :]))]


def tuple_index(op: OperatorDef, shape: Shape, indices: Array, batch: int = 0) -> Any:
    """The NumPy index of the slices, of a blob of ``shape``, that GatherND reads and ScatterND writes."""
    lead = indices.shape[:-1]
    grid = [np.arange(n).reshape((-1,) + (1,) * (len(lead) - i - 1)) for i, n in enumerate(lead[:batch])]
    return (*grid, *(absolute(op, indices[..., k], shape[batch + k]) for k in range(indices.shape[-1])))


@gather_nd.reference
def gather_nd_reference(op: OperatorDef, data: Array, indices: Array) -> List[Any]:
    return [data[tuple_index(op, data.shape, indices, op.get_int("batch_dims", 0))]]
