"""The gradient of Caffe2's TopK. Source: caffe2/operators/top_k.cc."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.reduce.argtop import front_axis
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("TopKGradient", inputs=3, dtypes=FLOATS)
def top_k_gradient(op: OperatorDef, dy: TensorSpec, indices: TensorSpec, x: TensorSpec) -> List[TensorSpec]:
    """dX = dY at the elements that are among the largest, 0 elsewhere. Indices of -1 do not count."""
    axis = front_axis(op, x.ndim)
    fits = (
        dy.shape == indices.shape and dy.shape[:axis] == x.shape[:axis] and dy.shape[axis + 1 :] == x.shape[axis + 1 :]
    )
    require(op, fits and indices.dtype == np.int64, "dY and the int64 indices must fit X", dy, indices, x)
    return [x]


@top_k_gradient.reference
def top_k_gradient_reference(op: OperatorDef, dy: Array, indices: Array, x: Array) -> List[Any]:
    axis = front_axis(op, x.ndim)
    wider = np.zeros((*x.shape[:axis], x.shape[axis] + 1, *x.shape[axis + 1 :]), x.dtype)
    np.put_along_axis(wider, np.where(indices < 0, x.shape[axis], indices), dy, axis)  # -1 means the added element
    return [np.delete(wider, x.shape[axis], axis)]
