"""Merges a convolution with the max pool that follows it."""

from __future__ import annotations

from typing import Iterator

from runtime_arm.engines.tiled import pooled_convolution_options  # noqa: F401 (declares its options)
from runtime_arm.engines.tiled.options import KnownOptions, conversion
from runtime_arm.operators.fused.fused import activation_of
from runtime_arm.operators.fused.pooled_convolution import pooled_conv, pooled_conv_of
from runtime_arm.planning.merges.kinds import Before, Merge, options
from runtime_arm.planning.steps import Step
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.layouts import Planes, Tiles


def saved_by_planes(pool: Step, known: KnownOptions) -> float:
    """What it saves a pool if its input lies in planes: a conversion, since no convolution makes larger tiles of it."""
    if not any(isinstance(option.inputs[0], Planes) for option in options(pool, known)):
        return 0.0
    x = pool.in_specs[0]
    assert x is not None
    return conversion(x, Tiles.of(x, 1, 1), Tiles.of(x, 2, 1))[1].time


def merges(pool: Step, before: Before) -> Iterator[Merge]:
    """The merge that ends with this step, if there is one. It has the options and the place in the net of the
    convolution."""
    convolution = before(pool) if len(pool.outputs) == 1 else None
    if convolution is None or convolution.schema.kind is not Kind.CONVOLUTION:
        return
    if activation_of(pool.op) is not None:
        return
    op = pooled_conv_of(convolution.op, pool.op)
    step = Step(convolution.index, op, pooled_conv, convolution.inputs, pool.outputs)
    step.within = convolution
    yield Merge((convolution, pool), step)
