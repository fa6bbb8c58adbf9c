"""The gradients of Caffe2's SparseToDenseMask and FlexibleTopK. Source: caffe2/operators."""

from __future__ import annotations

from math import prod
from typing import Any, List, Optional

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.indices import absolute, require_indices
from runtime_arm.operators.rows.sparse import masked_places
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("SparseToDenseMaskGradient", inputs=(2, 3))
def sparse_to_dense_mask_gradient(
    op: OperatorDef, indices: TensorSpec, dy: TensorSpec, lengths: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """dvalues: dY at the place that the value went to, 0 for a value that was left out or overwritten."""
    mask = op.get_ints("mask")
    shape = (len(mask),) if lengths is None else (lengths.size, len(mask))
    require_indices(op, indices)
    require(
        op,
        lengths is None or (lengths.ndim == 1 and lengths.dtype == np.int32),
        "lengths must be a vector of int32",
        lengths,
    )
    fits = indices.ndim == 1 and dy.shape[: len(shape)] == shape and dy.dtype.kind == "f"
    require(op, fits, f"dY must be floats of the shape {list(shape)} or longer", indices, dy)
    return [dy.with_shape((indices.shape[0], *dy.shape[len(shape) :]))]


@sparse_to_dense_mask_gradient.reference
def sparse_to_dense_mask_gradient_reference(
    op: OperatorDef, indices: Array, dy: Array, lengths: Optional[Array] = None
) -> List[Any]:
    values, segments, columns = masked_places(op, indices, lengths)
    by_segment = dy[None] if lengths is None else dy
    writer = np.full(by_segment.shape[:2], -1)
    writer[segments, columns] = values
    last = writer[segments, columns] == values
    dx = np.zeros((len(indices), *by_segment.shape[2:]), dy.dtype)
    dx[values[last]] = by_segment[segments[last], columns[last]]
    return [dx]


@operator("FlexibleTopKGradient", inputs=4, dtypes=FLOATS)
def flexible_top_k_gradient(
    op: OperatorDef, x: TensorSpec, k: TensorSpec, dy: TensorSpec, places: TensorSpec
) -> List[TensorSpec]:
    """dX = dY at the k[i] elements of row i that are the largest, 0 elsewhere."""
    fits = dy.ndim == 1 and places.shape == dy.shape and dy.dtype == x.dtype and x.ndim > 0
    require(op, fits, "dY must be a vector of X's type, with one place for each element", x, dy, places)
    require_indices(op, places)
    require(op, k.size == prod(x.shape[:-1]) and k.dtype == np.int64, "there must be one int64 per row", x, k)
    return [x]


@flexible_top_k_gradient.reference
def flexible_top_k_gradient_reference(op: OperatorDef, x: Array, k: Array, dy: Array, places: Array) -> List[Any]:
    dx = np.zeros((k.size, x.shape[-1]), x.dtype)
    fits = int(k.min(initial=0)) >= 0 and int(k.sum(dtype=np.int64)) == dy.size
    require(op, fits, f"k {k.tolist()} must add up to {dy.size}, the elements of dY")
    rows = np.repeat(np.arange(k.size), k.reshape(-1))
    dx[rows, absolute(op, places, x.shape[-1], wraps=False)] = dy
    return [dx.reshape(x.shape)]
