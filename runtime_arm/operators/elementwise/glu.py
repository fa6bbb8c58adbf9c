"""Gated linear units: one half of the features gates the other. Caffe2's Glu and ONNX's SwiGLU."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32, FLOATS, require_same_dtype
from runtime_arm.operators.common.formulas import exactly
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import TensorSpec


def _logistic(x: Any) -> Any:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


@operator("Glu", dtypes=FLOAT32)
def glu(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = A sigmoid(B), where A and B are the halves of X along ``dim`` (the last). Dauphin et al., 2016."""
    axis = axis_of(op, op.get_int("dim", -1), x.ndim, "dim")
    require(op, x.ndim > 0 and x.shape[axis] % 2 == 0, f"dimension {axis} must be even", x)
    return [x.with_shape((*x.shape[:axis], x.shape[axis] // 2, *x.shape[axis + 1 :]))]


@glu.reference
def glu_reference(op: OperatorDef, x: Array) -> List[Any]:
    a, b = np.split(x, 2, axis=op.get_int("dim", -1))
    return [exactly(lambda a, b: a * _logistic(b), a, b)]


@operator("SwiGLU", domain="onnx", inputs=2, dtypes=FLOATS, inplace={0: (0, 1)})
def swiglu(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """Y = A sigmoid(alpha A) B. Shazeer, GLU Variants Improve Transformer, 2020."""
    require_same_dtype(op, a, b)
    require(op, a.shape == b.shape, "inputs must have one shape", a, b)
    return [a]


@swiglu.reference
def swiglu_reference(op: OperatorDef, a: Array, b: Array) -> List[Any]:
    alpha = op.get_float("alpha", 1.0)
    return [exactly(lambda a, b: a * _logistic(alpha * a) * b, a, b)]
