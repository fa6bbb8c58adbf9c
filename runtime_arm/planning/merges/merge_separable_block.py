"""Merges three convolutions, of which the second is depthwise."""

from __future__ import annotations

from typing import List, Optional, Sequence

from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.engines.tiled import separable_block_options  # noqa: F401 (declares its options)
from runtime_arm.operators.fused.separable_block import block_of, separable_block
from runtime_arm.planning.merges.kinds import Before, Merge, least_time
from runtime_arm.planning.steps import Step, Value
from runtime_arm.registry.facts import Kind


def merge(project: Step, before: Before) -> Optional[Merge]:
    """The merge that ends with this step, if there is one."""
    depthwise = _without_addend(before(project))
    expand = None if depthwise is None else _without_addend(before(depthwise))
    if depthwise is None or expand is None:
        return None
    parts = expand, depthwise, project
    op = block_of(*(step.op for step in parts))
    operands = [value for step, count in zip(parts, (2, 2, 4)) for value in _padded(step.inputs[1:], count)]
    block = Step(project.index, op, separable_block, [expand.inputs[0], *operands], project.outputs)
    biases = PASS * sum(
        spec.size for step in parts[:-1] for spec in step.out_specs
    )  # without another pass in the block
    return Merge(parts, block) if least_time(block) < sum(map(least_time, parts)) + biases else None


def _without_addend(step: Optional[Step]) -> Optional[Step]:
    return step if step is not None and step.schema.kind is Kind.CONVOLUTION and not any(step.inputs[3:]) else None


def _padded(values: Sequence[Optional[Value]], count: int) -> List[Optional[Value]]:
    return [*values, *[None] * count][:count]
