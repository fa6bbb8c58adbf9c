"""A fused max pool: it ends with an activation, see ``fused.py``."""

from __future__ import annotations

from typing import Any, List, Sequence

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.fused.fused import tail_specs, tail_values
from runtime_arm.operators.pool.caffe2 import float_pool_shape, max_pool_reference
from runtime_arm.registry.facts import Fusion, Kind
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import TensorSpec


@operator("FusedMaxPool", domain="armnet", kind=Kind.MAX_POOL, fusion=Fusion("MaxPool"))
def fused_max_pool(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = activation(MaxPool(X)). Arguments as for MaxPool."""
    return tail_specs(op, float_pool_shape(op, x)[0], None, None)


@fused_max_pool.reference
def fused_max_pool_reference(op: OperatorDef, x: Array) -> Sequence[Any]:
    return tail_values(op, max_pool_reference(op, x)[0], None, None)
