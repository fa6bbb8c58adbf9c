"""Gradient operators of what moves elements about and is not undone by an operator that Caffe2 has anyway."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32_64, FLOATS
from runtime_arm.operators.common.formulas import only_for
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("DropoutGrad", inputs=(1, 2), dtypes=FLOATS, inplace={0: 0})
def dropout_grad(op: OperatorDef, dy: TensorSpec, mask: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """dX = dY / (1 - ratio) where the mask is true, else 0; with is_test dX = dY."""
    masked = mask is not None and mask.dtype == np.bool_ and mask.shape == dy.shape
    require(op, op.get_bool("is_test") or masked, "without is_test there must be a mask of dY's shape", dy, mask)
    return [dy]


def _factor(op: OperatorDef) -> float:
    return 1.0 if op.get_bool("is_test") else 1 / (1 - op.get_float("ratio", 0.5))


@dropout_grad.reference
def dropout_grad_reference(op: OperatorDef, dy: Array, mask: Optional[Array] = None) -> List[Any]:
    kept = 1.0 if op.get_bool("is_test") or mask is None else mask
    return [(dy.astype(np.float64) * kept * _factor(op)).astype(dy.dtype)]


@dropout_grad.kernel("NUMPY", supports=only_for(FLOAT32_64))
def dropout_grad_numpy(call: Call) -> Run:
    dy, dx, factor = call.inputs[0], call.outputs[0], call.outputs[0].dtype.type(_factor(call.op))
    mask = None if call.op.get_bool("is_test") else call.inputs[1]

    def run() -> None:
        np.multiply(dy, factor, out=dx)
        if mask is not None:
            np.multiply(dx, mask, out=dx)

    return run
