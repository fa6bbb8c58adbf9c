"""Merges a convolution with the max pool that follows it."""

from __future__ import annotations

from typing import Optional

from runtime_arm.engines.tiled import pooled_convolution_options  # noqa: F401 (declares its options)
from runtime_arm.operators.fused.fused import activation_of
from runtime_arm.operators.fused.pooled_convolution import pooled_conv, pooled_conv_of
from runtime_arm.planning.merges.kinds import Before, Merge, least_time, plain_time
from runtime_arm.planning.steps import Step
from runtime_arm.registry.facts import Kind


def merge(pool: Step, before: Before) -> Optional[Merge]:
    """The merge that ends with this step. It has the options and the place in the net of the convolution."""
    convolution = before(pool) if len(pool.outputs) == 1 else None
    if convolution is None or convolution.schema.kind is not Kind.CONVOLUTION:
        return None
    if activation_of(pool.op) is not None:
        return None
    op = pooled_conv_of(convolution.op, pool.op)
    step = Step(convolution.index, op, pooled_conv, convolution.inputs, pool.outputs)
    step.within = convolution
    apart = sum(min(least_time(part), plain_time(part)) for part in (convolution, pool))
    return Merge((convolution, pool), step) if least_time(step) < apart else None
