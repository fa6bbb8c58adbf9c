"""Fused transposed convolutions and fully connected layers; see ``fused.py``."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import fully_connected, per_input
from runtime_arm.operators.conv.transposed import conv_transpose, conv_transpose_reference
from runtime_arm.operators.fused.fused import tail_specs, tail_values
from runtime_arm.operators.linear.caffe2 import fc_reference, fc_shape
from runtime_arm.registry.facts import Fusion, Kind
from runtime_arm.registry.schema import Operator, operator
from runtime_arm.registry.specs import TensorSpec


@operator(
    "FusedConvTranspose",
    domain="armnet",
    inputs=(2, 5),
    multiply_adds=per_input,
    fusion=Fusion("ConvTranspose", addend=3),
)
def fused_conv_transpose(
    op: OperatorDef,
    x: TensorSpec,
    w: TensorSpec,
    b: Optional[TensorSpec] = None,
    addend: Optional[TensorSpec] = None,
    slope: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """Y = activation(ConvTranspose(X, W, b) + addend), otherwise as FusedConv."""
    return tail_specs(op, conv_transpose.shape(op, x, w, b)[0], addend, slope)


@fused_conv_transpose.reference
def fused_conv_transpose_reference(
    op: OperatorDef,
    x: Array,
    w: Array,
    b: Optional[Array] = None,
    addend: Optional[Array] = None,
    slope: Optional[Array] = None,
) -> Sequence[Any]:
    return tail_values(op, conv_transpose_reference(op, x, w, b)[0], addend, slope)


def _fused_fc(layer: str) -> Operator:
    @operator(
        f"Fused{layer}",
        domain="armnet",
        inputs=(3, 5),
        multiply_adds=fully_connected(),
        kind=Kind.FULLY_CONNECTED,
        fusion=Fusion(layer, addend=3),
    )
    def schema(
        op: OperatorDef,
        x: TensorSpec,
        w: TensorSpec,
        b: TensorSpec,
        addend: Optional[TensorSpec] = None,
        slope: Optional[TensorSpec] = None,
    ) -> List[TensorSpec]:
        """Y = activation(FC(X, W, b) + addend), which broadcasts, or the same of FCTransposed; the slope is PRelu's.

        Arguments as for FC.
        """
        return tail_specs(op, fc_shape(op, x, w, b)[0], addend, slope)

    @schema.reference
    def reference(
        op: OperatorDef, x: Array, w: Array, b: Array, addend: Optional[Array] = None, slope: Optional[Array] = None
    ) -> Sequence[Any]:
        return tail_values(op, fc_reference(op, x, w, b)[0], addend, slope)

    return schema


fused_fc, fused_fc_transposed = _fused_fc("FC"), _fused_fc("FCTransposed")
