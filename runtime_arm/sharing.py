"""Which steps workers share.

What a step takes is estimated in multiply-adds of a large matrix product; a workstation does some 30 in a nanosecond,
a Raspberry Pi 4 five. A byte that is read or written takes the time of five.
"""

from __future__ import annotations

from typing import Sequence

from runtime_arm.cost import cost_of
from runtime_arm.trace import Step

BYTE = 5
WORTH_SHARING = 1_000_000  # of a step: 30 us of a workstation, several times what a meeting of the workers takes
WORTH_WORKERS = 30_000_000  # of all these steps: where others want the processor, workers come late to each meeting


def share(steps: Sequence[Step], workers: int) -> None:
    """Let the workers share the steps for which that pays, if it pays to have workers at all."""
    works = {step: work_of(step) for step in steps if workers > 1 and _can_be_shared(step)}
    worth = {step: work for step, work in works.items() if work >= WORTH_SHARING}
    if sum(worth.values()) >= WORTH_WORKERS:
        for step in worth:
            step.share(workers)


def work_of(step: Step) -> int:
    """What the step takes."""
    cost = cost_of(step.op, step.in_specs, step.out_specs)
    return cost.multiply_adds + BYTE * cost.nbytes


def _can_be_shared(step: Step) -> bool:
    """Whether its kernel shares its work and all its operands lie in the arena, where objects do not."""
    specs = (*step.in_specs, *step.out_specs)
    return (
        step.kernel is not None
        and step.kernel.shares
        and not any(spec is not None and spec.dtype == object for spec in specs)
    )
