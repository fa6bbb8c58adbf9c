"""The gradients of Caffe2's BatchGather, Gather along other axes than 0, and BooleanMask. Source: caffe2/operators."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.indices import absolute, require_indices
from runtime_arm.operators.indexing.gather import Picking
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import TensorSpec


def _picking(op: OperatorDef, ndim: int) -> Picking:
    """As Gather picks; ``axis`` is 1 for BatchGather, which does not say so."""
    axis = axis_of(op, op.get_int("axis", 1), ndim)
    return Picking(axis, op.get_bool("wrap_indices"), op.get_bool("match_outer"))


@operator("BatchGatherGradient", inputs=3, dtypes=FLOATS)
def batch_gather_gradient(op: OperatorDef, data: TensorSpec, indices: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """ddata = for each element the sum of dY over the places to which it was picked. Arguments as for Gather."""
    require_indices(op, indices)
    axis, _, batched = _picking(op, data.ndim)
    picked = indices.shape if batched else (*data.shape[:axis], *indices.shape)
    shape = (*picked, *data.shape[axis + 1 :])
    require(op, dy.shape == shape, f"dY must have the shape {list(shape)}", data, indices, dy)
    return [data]


@batch_gather_gradient.reference
def batch_gather_gradient_reference(op: OperatorDef, data: Array, indices: Array, dy: Array) -> List[Any]:
    axis, wraps, batched = _picking(op, data.ndim)
    index = absolute(op, indices, data.shape[axis], wraps)
    total, terms = np.zeros(data.shape), dy.astype(np.float64)
    if batched:
        outer = np.indices(indices.shape)[:axis]
        np.add.at(total, (*outer, index), terms)
    else:
        at: Any = (*[slice(None)] * axis, index)
        np.add.at(total, at, terms)
    return [total.astype(data.dtype)]


@operator("BooleanMaskGradient", inputs=2)
def boolean_mask_gradient(op: OperatorDef, mask: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dX = dY at the rows whose mask is true, 0 elsewhere."""
    fits = dy.ndim > 0 and dy.dtype.kind == "f" and mask.ndim == 1 and mask.dtype == np.bool_
    require(op, fits, "the mask must be a vector of bool, and dY have rows of floats", dy, mask)
    return [dy.with_shape((mask.shape[0], *dy.shape[1:]))]


@boolean_mask_gradient.reference
def boolean_mask_gradient_reference(op: OperatorDef, mask: Array, dy: Array) -> List[Any]:
    count = int(np.count_nonzero(mask))
    require(op, len(dy) == count, f"the mask selects {count} rows, but dY has {len(dy)}")
    dx = np.zeros((len(mask), *dy.shape[1:]), dy.dtype)
    dx[mask] = dy
    return [dx]
