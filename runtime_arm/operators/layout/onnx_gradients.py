"""The gradient of ONNX's Pad, armnet's own operator."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dialects import forward_form
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.statistics import require_floats
from runtime_arm.operators.layout.pad import pad, padding_of
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("PadGradient", domain="armnet", inputs=(3, 5), dtypes=FLOATS)
def pad_gradient(op: OperatorDef, dy: TensorSpec, x: TensorSpec, *pads: Optional[TensorSpec]) -> List[TensorSpec]:
    """dX = the sum of dY over the elements of Y that are copies of one of X. Inputs: dY, X, then those of Pad."""
    require_floats(op, dy, x)
    (y,) = pad.shape(forward_form(op), x, *pads)
    require(op, dy.shape == y.shape, f"dY must have the shape {list(y.shape)}", dy, x)
    return [x]


@pad_gradient.reference
def pad_gradient_reference(op: OperatorDef, dy: Array, x: Array, *pads: Optional[Array]) -> List[Any]:
    known = [None if array is None else TensorSpec.known(array) for array in pads]
    padding, dx = padding_of(forward_form(op), TensorSpec.known(x), known), dy.astype(np.float64)
    for axis in range(x.ndim):
        sources = np.array(padding.sources(x.shape, axis), np.intp)
        inside = (sources >= 0) & (sources < x.shape[axis])
        total = np.zeros((*dx.shape[:axis], x.shape[axis], *dx.shape[axis + 1 :]))
        at: Any = (*[slice(None)] * axis, sources[inside])
        np.add.at(total, at, np.compress(inside, dx, axis))
        dx = total
    return [dx.astype(x.dtype)]
