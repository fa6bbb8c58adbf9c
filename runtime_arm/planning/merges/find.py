"""Replaces a run of steps whose intermediate results nobody reads with one step, where a kernel computes it faster.

The other modules of this package say what can be merged. A merged step does not make the intermediate results. If one
of them is fetched all the same, the original steps run in addition, so that fetching changes no result.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Set

from runtime_arm.engines.conv import gemm
from runtime_arm.planning.merges.kinds import Before, Merge
from runtime_arm.planning.steps import Step, Value
from runtime_arm.records import NamedTuple
from runtime_arm.registry.facts import Kind


class Merged(NamedTuple):
    """Steps, and the original steps that were left out, which can still be run to make their results."""

    steps: List[Step]
    left_out: List[Step]


def merged(steps: Sequence[Step], outputs: Set[Value]) -> Merged:
    """The steps, with some of them merged. ``outputs``: the values that are read after the last step."""
    made_by = {value: step for step in steps for value in step.outputs}
    readers: Dict[Value, List[Step]] = {}
    for step in steps:
        for value in step.inputs:
            if value is not None:
                readers.setdefault(value, []).append(step)
    taken: Set[Step] = set()  # the steps that are part of a merged one

    def before(step: Step) -> Optional[Step]:
        x = step.inputs[0]
        maker = None if x is None or x in outputs or len(readers[x]) > 1 else made_by.get(x)
        return None if maker in taken else maker

    instead: Dict[Step, Step] = {}
    left_out: List[Step] = []
    for step in steps:
        found = merge(step, before)
        if found is not None:
            instead[step] = found.step
            taken.update(found.parts)
            left_out += found.parts[:-1]
    gone = set(left_out)
    return Merged([instead.get(step, step) for step in steps if step not in gone], left_out)


def merge(last: Step, before: Before) -> Optional[Merge]:
    """The merge that ends with this step, if there is one. Its module is imported only if it may apply."""
    if last.schema.kind is Kind.MAX_POOL:
        from runtime_arm.planning.merges import merge_pool

        return merge_pool.merge(last, before)
    if last.schema.kind is Kind.CONVOLUTION and gemm.multiplies_small():
        from runtime_arm.planning.merges import merge_separable_block

        return merge_separable_block.merge(last, before)
    return None


def needed(left_out: Sequence[Step], wanted: Set[Value]) -> List[Step]:
    """The steps that are needed to make the wanted values, in order."""
    result: List[Step] = []
    wanted = set(wanted)
    for step in reversed(left_out):
        if not wanted.isdisjoint(step.outputs):
            result.insert(0, step)
            wanted.update(value for value in step.inputs if value is not None)
    return result
