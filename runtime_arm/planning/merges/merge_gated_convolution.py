"""Merges a product with one factor per channel and the 1x1 convolution that follows."""

from __future__ import annotations

from typing import Iterator

from runtime_arm.engines.tiled import gated  # noqa: F401 (declares its options)
from runtime_arm.engines.tiled.options import conversion
from runtime_arm.operators.fused.gated_convolution import gated_conv, gated_conv_of
from runtime_arm.planning.merges.kinds import Before, Merge
from runtime_arm.planning.steps import Step
from runtime_arm.registry.layouts import Tiles


def merges(convolution: Step, before: Before) -> Iterator[Merge]:
    """The merge that ends with this step, if there is one."""
    product = before(convolution)
    if product is None or product.op.type != "Mul" or len(product.inputs) != 2:
        return
    shape = product.out_specs[0].shape
    for x in (0, 1):
        of, gate = product.inputs[x], product.inputs[1 - x]
        assert of is not None
        assert gate is not None
        if len(shape) == 4 and of.spec.shape == shape and gate.spec.shape == (*shape[:2], 1, 1) and min(shape) > 0:
            op = gated_conv_of(product.op, convolution.op, x)
            step = Step(convolution.index, op, gated_conv, [of, gate, *convolution.inputs[1:]], convolution.outputs)
            step.within = convolution
            saves = conversion(of.spec, Tiles.of(of.spec, 1, 1), None)[1].time  # the product alone does not read tiles
            yield Merge((product, convolution), step, saves)
            return
