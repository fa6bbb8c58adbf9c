"""Steps of which only the last one's results are read, as one step, where a kernel computes them faster so.

The modules beside this file say what can be merged. What a merged step leaves out exists no more. Where
somebody fetches it all the same, the steps that were merged make it; so what is fetched changes no result.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Set

from runtime_arm.engines.conv import gemm
from runtime_arm.planning.merges.kinds import Before, Merge
from runtime_arm.planning.steps import Step, Value
from runtime_arm.registry.facts import Kind


class Merged(NamedTuple):
    """Steps, and those that were left out: they can still be run to make what they make."""

    steps: List[Step]
    left_out: List[Step]


def merged(steps: Sequence[Step], outputs: Set[Value]) -> Merged:
    """The steps, some of them in one. ``outputs``: the values that are read behind the steps."""
    made_by = {value: step for step in steps for value in step.outputs}
    readers: Dict[Value, List[Step]] = {}
    for step in steps:
        for value in step.inputs:
            if value is not None:
                readers.setdefault(value, []).append(step)
    taken: Set[Step] = set()  # that are in one

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
    """What ends with this step, if anything does. The kinds are loaded where there may be one."""
    if last.schema.kind is Kind.MAX_POOL:
        from runtime_arm.planning.merges import pooled_convolution

        return pooled_convolution.merge(last, before)
    if last.schema.kind is Kind.CONVOLUTION and gemm.multiplies_small():
        from runtime_arm.planning.merges import separable_block

        return separable_block.merge(last, before)
    return None


def needed(left_out: Sequence[Step], wanted: Set[Value]) -> List[Step]:
    """Those of the steps that it takes to make the wanted values, in order."""
    result: List[Step] = []
    wanted = set(wanted)
    for step in reversed(left_out):
        if not wanted.isdisjoint(step.outputs):
            result.insert(0, step)
            wanted.update(value for value in step.inputs if value is not None)
    return result
