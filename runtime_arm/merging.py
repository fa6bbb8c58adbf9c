"""Convolutions of which only the last one's results are read, as one step, where a kernel computes them faster so.

What a merged step leaves out exists no more. Where somebody fetches it all the same, the steps that were merged make
it; so what is fetched changes no result.
"""

from __future__ import annotations

from math import inf
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from runtime_arm.engines import gemm
from runtime_arm.engines.pointwise import PASS
from runtime_arm.engines.tilings import options_of
from runtime_arm.operators.separable_block import block_of, separable_block
from runtime_arm.trace import Step, Value

CONVOLUTIONS = ("Conv", "Conv2D", "ConvRelu", "FusedConv")


class Merged(NamedTuple):
    """Steps, and those that were left out: they can still be run to make what they make."""

    steps: List[Step]
    left_out: List[Step]


def merged(steps: Sequence[Step], outputs: Set[Value]) -> Merged:
    """The steps with separable blocks in one. ``outputs``: the values that are read behind the steps."""
    if not gemm.multiplies_small():
        return Merged(list(steps), [])
    from runtime_arm.engines import separable_block_tiling  # noqa: F401 (loaded where it can run: it declares how)

    made_by = {value: step for step in steps for value in step.outputs}
    readers: Dict[Value, List[Step]] = {}
    for step in steps:
        for value in step.inputs:
            if value is not None:
                readers.setdefault(value, []).append(step)
    blocks: Dict[Step, Step] = {}
    taken: Set[Step] = set()  # that are in one
    left_out: List[Step] = []
    for step in steps:
        parts = _parts(step, made_by, readers, outputs)
        block = None if parts is None or not taken.isdisjoint(parts) else _block(*parts)
        if parts is not None and block is not None:
            blocks[step] = block
            taken.update(parts)
            left_out += parts[:-1]
    gone = set(left_out)
    return Merged([blocks.get(step, step) for step in steps if step not in gone], left_out)


def needed(left_out: Sequence[Step], wanted: Set[Value]) -> List[Step]:
    """Those of the steps that it takes to make the wanted values, in order."""
    result: List[Step] = []
    wanted = set(wanted)
    for step in reversed(left_out):
        if not wanted.isdisjoint(step.outputs):
            result.insert(0, step)
            wanted.update(value for value in step.inputs if value is not None)
    return result


def _parts(project: Step, made_by: Mapping[Value, Step], readers: Mapping[Value, Sequence[Step]],
           outputs: Set[Value]) -> Optional[Tuple[Step, Step, Step]]:
    """Three convolutions of which each reads what the one before it makes for it alone."""

    def before(step: Step) -> Optional[Step]:
        x = step.inputs[0]
        if x is None or x in outputs or len(readers[x]) > 1:
            return None
        maker = made_by.get(x)
        return maker if maker is not None and maker.op.type in CONVOLUTIONS and not any(maker.inputs[3:]) else None

    depthwise = before(project) if project.op.type in CONVOLUTIONS else None
    expand = before(depthwise) if depthwise is not None else None
    return (expand, depthwise, project) if expand is not None and depthwise is not None else None


def _block(expand: Step, depthwise: Step, project: Step) -> Optional[Step]:
    """The three steps as one, if that is faster."""
    parts = expand, depthwise, project
    op = block_of(*(step.op for step in parts))
    operands = [value for step, count in zip(parts, (2, 2, 4)) for value in _padded(step.inputs[1:], count)]
    block = Step(project.index, op, separable_block, [expand.inputs[0], *operands], project.outputs)
    biases = PASS * sum(spec.size for step in parts[:-1] for spec in step.out_specs)  # which the block adds on the way
    return block if _least_time(block) < sum(map(_least_time, parts)) + biases else None


def _padded(values: Sequence[Optional[Value]], count: int) -> List[Optional[Value]]:
    return [*values, *[None] * count][:count]


def _least_time(step: Step) -> float:
    """Infinite for what has no option between tiles."""
    options = options_of(step.op, step.in_specs, step.out_specs, step.kernel)
    return min((option.work.time for option in options), default=inf)
