"""Merges a depthwise convolution with the dense one before it, the 1x1 convolution after it, or both."""

from __future__ import annotations

from typing import Iterator, Optional

from runtime_arm.engines.tiled.options import conversion
from runtime_arm.engines.tiled.stem import FEW_CHANNELS
from runtime_arm.operators.fused.separable_block import Parts, block_of, in_order, separable_block
from runtime_arm.planning.merges.kinds import Before, Merge, is_depthwise
from runtime_arm.planning.steps import Step
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.layouts import Planes, Tiles


def merges(last: Step, before: Before) -> Iterator[Merge]:
    """The merges that end with this step, a 2D convolution, if small products are fast."""
    if len(last.out_specs[0].shape) != 4:
        return
    from runtime_arm.engines.tiled.separable import options  # noqa: F401 (declares its options)

    if is_depthwise(last):
        expand = _expand_of(last, before)
        if expand is not None and not any(last.inputs[3:4]):
            yield _merge(expand, last, None)
        return
    depthwise = _filter_of(last, before)
    if depthwise is None:
        return
    yield _merge(None, depthwise, last)._replace(saves=-_into_planes(depthwise, before(depthwise)))
    expand = _expand_of(depthwise, before)
    if expand is not None:
        yield _merge(expand, depthwise, last)


def merges_of_two(last: Step, before: Before) -> Iterator[Merge]:
    """The merge that ends with this step, if BLAS packs all matrices."""
    depthwise = None if is_depthwise(last) else _filter_of(last, before)
    if depthwise is not None:
        from runtime_arm.engines.tiled.filtered_products import suits

        merge = _merge(None, depthwise, last)
        if suits(merge.step.op, merge.step.in_specs, merge.step.out_specs[0]):
            yield merge._replace(is_certain=True)


def _filter_of(project: Step, before: Before) -> Optional[Step]:
    """The depthwise convolution before a step; None if there is none."""
    depthwise = before(project)
    found = depthwise is not None and is_depthwise(depthwise) and not any(depthwise.inputs[3:4])
    return depthwise if found else None


def _expand_of(depthwise: Step, before: Before) -> Optional[Step]:
    """The dense convolution before a depthwise one, if a block can contain it; else None."""
    dense = before(depthwise)
    if dense is None or dense.schema.kind is not Kind.CONVOLUTION or is_depthwise(dense) or any(dense.inputs[3:]):
        return None
    return dense


def _into_planes(depthwise: Step, maker: Optional[Step]) -> float:
    """The time to convert the input to planes; of the dense convolutions, only stems can write these."""
    x, of = depthwise.in_specs[0], None if maker is None else maker.in_specs[0]
    assert x is not None
    if maker is not None and of is not None:
        dense = maker.schema.kind is Kind.CONVOLUTION and not is_depthwise(maker)
        if not dense or of.shape[1] <= FEW_CHANNELS:
            return 0.0
    return conversion(x, Tiles.of(x, 1, 1), Planes(Tiles.of(x, 2, 1)))[1].time


def _merge(expand: Optional[Step], depthwise: Step, project: Optional[Step]) -> Merge:
    steps = expand, depthwise, project
    parts = [step for step in steps if step is not None]
    op = block_of(Parts(None if expand is None else expand.op, depthwise.op, None if project is None else project.op))
    inputs = in_order([() if step is None else step.inputs for step in steps])
    return Merge(parts, Step(parts[-1].index, op, separable_block, inputs, parts[-1].outputs))
