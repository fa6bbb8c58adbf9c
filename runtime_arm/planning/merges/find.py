"""Replaces a run of steps whose intermediate results nobody reads with one step, where a kernel computes it faster.

The other modules of this package say what can be merged. A merged step does not make the intermediate results. If one
of them is fetched all the same, the original steps run in addition, so that fetching changes no result.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.tiled.options import KnownOptions
from runtime_arm.planning.merges.kinds import Before, Merge, is_depthwise, time_alone, time_together
from runtime_arm.planning.steps import Step, Value
from runtime_arm.records import NamedTuple
from runtime_arm.registry.facts import Kind


class Merged(NamedTuple):
    """Steps, and the original steps that were left out, which can still be run to make their results."""

    steps: List[Step]
    left_out: List[Step]


def merged(steps: Sequence[Step], outputs: Set[Value], known: KnownOptions) -> Merged:
    """The steps, with some of them merged. ``outputs``: the values that are read after the last step."""
    before = _before(steps, outputs)
    found = {step: list(merges(step, before)) for step in steps}
    for step in steps:
        maker = before(step)
        if maker is not None and found[maker] and gemm.multiplies_small() and step.schema.kind is Kind.MAX_POOL:
            found[maker] = _in_front_of(step, found[maker], known)
    chosen = _fastest(steps, before, found, known)
    taken: Set[Step] = set()  # the steps that are part of a merged one
    instead: Dict[Step, Step] = {}
    for step in reversed(steps):
        merge = chosen.get(step)
        if merge is not None and step not in taken:
            instead[step] = merge.step
            taken.update(merge.parts)
    left_out = [step for step in steps if step in taken and step not in instead]
    gone = set(left_out)
    return Merged([instead.get(step, step) for step in steps if step not in gone], left_out)


def _in_front_of(pool: Step, ends: List[Merge], known: KnownOptions) -> List[Merge]:
    from runtime_arm.planning.merges import merge_pool

    saved = merge_pool.saved_by_planes(pool, known)
    return [merge._replace(saves=saved) if is_depthwise(merge.parts[-1]) else merge for merge in ends]


def _before(steps: Sequence[Step], outputs: Set[Value]) -> Before:
    made_by = {value: step for step in steps for value in step.outputs}
    readers: Dict[Value, int] = {}
    for step in steps:
        for value in step.inputs:
            if value is not None:
                readers[value] = readers.get(value, 0) + 1

    def before(step: Step) -> Optional[Step]:
        x = step.inputs[0]
        return None if x is None or x in outputs or readers[x] > 1 else made_by.get(x)

    return before


def _fastest(
    steps: Sequence[Step], before: Before, found: Dict[Step, List[Merge]], known: KnownOptions
) -> Dict[Step, Optional[Merge]]:
    """For each step that may be part of a merge the merge that ends with it, None for the step by itself, so that the
    chain of steps up to it takes the least time."""
    concerned = {part for ends in found.values() for merge in ends if not merge.is_certain for part in merge.parts}
    totals: Dict[Optional[Step], float] = {None: 0.0}
    chosen: Dict[Step, Optional[Merge]] = {}
    for step in steps:
        certain = next((merge for merge in found[step] if merge.is_certain), None)
        if certain is not None:
            totals[step], chosen[step] = totals.get(before(certain.parts[0]), 0.0), certain
        elif step in concerned:
            ways: List[Tuple[float, Optional[Merge]]] = [
                (time_alone(step, known) + totals.get(before(step), 0.0), None)
            ]
            for merge in found[step]:
                ways.append((time_together(merge, known) + totals.get(before(merge.parts[0]), 0.0), merge))
            totals[step], chosen[step] = min(ways, key=lambda way: way[0])
    return chosen


def merges(last: Step, before: Before) -> Iterator[Merge]:
    """The merges that end with this step. Their modules are imported only if they may apply."""
    if last.schema.kind is Kind.MAX_POOL:
        from runtime_arm.planning.merges import merge_pool

        yield from merge_pool.merges(last, before)
    if last.schema.kind is not Kind.CONVOLUTION:
        return
    maker = before(last)
    if maker is not None and maker.op.type == "Mul":
        from runtime_arm.planning.merges import merge_gated_convolution

        yield from merge_gated_convolution.merges(last, before)
    if gemm.multiplies_small():
        from runtime_arm.planning.merges import merge_separable_block

        yield from merge_separable_block.merges(last, before)
    elif maker is not None and is_depthwise(maker):
        from runtime_arm.planning.merges import merge_separable_block

        yield from merge_separable_block.merges_of_two(last, before)


def needed(left_out: Sequence[Step], wanted: Set[Value]) -> List[Step]:
    """The steps that are needed to make the wanted values, in order."""
    result: List[Step] = []
    wanted = set(wanted)
    for step in reversed(left_out):
        if not wanted.isdisjoint(step.outputs):
            result.insert(0, step)
            wanted.update(value for value in step.inputs if value is not None)
    return result
