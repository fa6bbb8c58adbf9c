"""GatedConv: a plan merges the product with one factor per channel, of squeeze-and-excitation, with the 1x1 convolution
that follows, if nothing else reads the product."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.operators.fused.layers import Layers, renamed
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.schema import lookup, operator
from runtime_arm.registry.specs import TensorSpec

LAYERS = Layers(("x", "gate", "w", "b", "addend", "slope"), ("product", "y"))


@operator("GatedConv", domain="armnet", inputs=(3, 6), multiply_adds=LAYERS.multiply_adds, kind=Kind.GATED_CONVOLUTION)
def gated_conv(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Y = Conv(X * gate, W, b), with the two operators as the net ``layers``.

    Inputs: X, the gate (N, C, 1, 1), then those of the convolution after X. ArgumentError for other layers.
    """
    product, convolution = LAYERS.of(op).op
    if product.type != "Mul" or lookup(convolution).kind is not Kind.CONVOLUTION:
        raise ArgumentError(op, f"layers must be Mul and a convolution, got {product.type} and {convolution.type}")
    return LAYERS.specs(op, inputs)[-1:]


@gated_conv.reference
def gated_conv_reference(op: OperatorDef, *inputs: Optional[Array]) -> Sequence[Any]:
    return LAYERS.evaluate(op, inputs)


def gated_conv_of(product: OperatorDef, convolution: OperatorDef, x: int) -> OperatorDef:
    """The operator that does the work of these two; x: the input of the product that is not the gate."""
    (of, gate, *rest), (made, y) = LAYERS.inputs, LAYERS.results
    factors = (of, gate) if x == 0 else (gate, of)
    net = NetDef(name="layers", op=(renamed(product, factors, made), renamed(convolution, (made, *rest), y)))
    names = [product.input[x], product.input[1 - x], *convolution.input[1:]]
    return OperatorDef.of("GatedConv", names, list(convolution.output), domain="armnet", layers=net)
