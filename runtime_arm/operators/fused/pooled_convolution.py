"""PooledConv: a plan merges a convolution with the max pool after it, if nothing else reads its results."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.operators.fused.fused import activation_of
from runtime_arm.operators.fused.layers import Layers, renamed
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.schema import lookup, operator
from runtime_arm.registry.specs import TensorSpec

LAYERS = Layers(("x", "w", "b", "addend", "slope"), ("convolved", "y"))


@operator(
    "PooledConv", domain="armnet", inputs=(2, 5), multiply_adds=LAYERS.multiply_adds, kind=Kind.POOLED_CONVOLUTION
)
def pooled_conv(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Y = MaxPool(Conv(X, W, b)), with the two operators as the net ``layers``.

    Inputs: those of the convolution. ArgumentError if the layers are others.
    """
    convolution, pool = LAYERS.of(op).op
    kinds = [lookup(layer).kind for layer in (convolution, pool)]
    if kinds != [Kind.CONVOLUTION, Kind.MAX_POOL] or activation_of(pool) is not None:
        raise ArgumentError(op, f"layers must be a convolution and a max pool, got {convolution.type} and {pool.type}")
    return LAYERS.specs(op, inputs)[-1:]


@pooled_conv.reference
def pooled_conv_reference(op: OperatorDef, *inputs: Optional[Array]) -> Sequence[Any]:
    return LAYERS.evaluate(op, inputs)


def pooled_conv_of(convolution: OperatorDef, pool: OperatorDef) -> OperatorDef:
    """The operator that does the work of these two."""
    convolved, y = LAYERS.results
    net = NetDef(name="layers", op=(renamed(convolution, LAYERS.inputs, convolved), renamed(pool, [convolved], y)))
    return OperatorDef.of("PooledConv", convolution.input, list(pool.output), domain="armnet", layers=net)
