"""The ReLU of a train net that keeps one bit per element for the backward pass, instead of its output."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.bits import (
    BLOCK,
    blocks,
    keep_where_set,
    mask_spec,
    octets_of,
    pack_positive,
    packed,
    unpacked,
)
from runtime_arm.operators.common.dtypes import FLOAT32_64
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("ReluWithMask", domain="armnet", outputs=2, dtypes=FLOAT32_64, inplace={0: 0})
def relu_with_mask(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = max(X, 0), and the mask of Y > 0, int32 words as in ``operators/common/bits.py``."""
    require(op, x.size > 0, "X must not be empty", x)
    return [x, mask_spec(x.shape)]


@relu_with_mask.reference
def relu_with_mask_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [np.maximum(x, 0), packed(x > 0)]


@relu_with_mask.kernel("NUMPY", scratch=lambda *specs: [TensorSpec((BLOCK,), np.bool_)])
def relu_with_mask_numpy(call: Call) -> Run:
    x, (y, mask) = call.inputs[0], call.outputs
    parts, flags = blocks(y.size), call.scratch[0]
    flat, octets = y.reshape(-1), octets_of(mask)

    def run() -> None:
        np.maximum(x, 0, out=y)
        pack_positive(flat, octets, parts, flags)

    return run


@operator("ReluMaskGradient", domain="armnet", inputs=2, inplace={0: 1})
def relu_mask_gradient(op: OperatorDef, mask: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dX = dY where the mask is set, else 0. Inputs: the mask, dY."""
    require(op, dy.dtype.name in FLOAT32_64 and dy.size > 0, "dY must hold float32 or float64", dy)
    require(op, mask == mask_spec(dy.shape), "the mask must have one bit for each element, in int32 words", mask, dy)
    return [dy]


@relu_mask_gradient.reference
def relu_mask_gradient_reference(op: OperatorDef, mask: Array, dy: Array) -> List[Any]:
    return [np.where(unpacked(mask, dy.shape), dy, 0).astype(dy.dtype)]


@relu_mask_gradient.kernel("NUMPY")
def relu_mask_gradient_numpy(call: Call) -> Run:
    octets, dy, dx = octets_of(call.inputs[0]), call.inputs[1].reshape(-1), call.outputs[0].reshape(-1)
    parts = blocks(dx.size)
    return lambda: keep_where_set(dy, octets, parts, dx)
