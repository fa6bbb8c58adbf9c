"""Batch normalisation followed by an addition and an activation, as one operator.

It has a file of its own, because few optimised nets contain it.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.fused.fused import tail_specs, tail_values
from runtime_arm.operators.norm.channel import spatial_bn, spatial_bn_reference
from runtime_arm.registry.facts import Fusion, Kind
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import TensorSpec


@operator(
    "FusedBatchNorm",
    domain="armnet",
    inputs=(5, 7),
    inplace={0: 0},
    kind=Kind.BATCH_NORM,
    fusion=Fusion("SpatialBN", addend=5),
)
def fused_batch_norm(
    op: OperatorDef,
    x: TensorSpec,
    scale: TensorSpec,
    bias: TensorSpec,
    mean: TensorSpec,
    variance: TensorSpec,
    addend: Optional[TensorSpec] = None,
    slope: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """Y = activation(SpatialBN(X, scale, bias, mean, variance) + addend), with is_test=1; the slope is PRelu's.

    The addition broadcasts. Arguments as for SpatialBN.
    """
    if not op.get_int("is_test"):
        raise ArgumentError(op, "is_test must be 1")
    return tail_specs(op, spatial_bn.shape(op, x, scale, bias, mean, variance)[0], addend, slope)


@fused_batch_norm.reference
def fused_batch_norm_reference(
    op: OperatorDef,
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    variance: Array,
    addend: Optional[Array] = None,
    slope: Optional[Array] = None,
) -> Sequence[Any]:
    return tail_values(op, spatial_bn_reference(op, x, scale, bias, mean, variance)[0], addend, slope)
