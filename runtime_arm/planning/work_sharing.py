"""Which steps workers share.

What a step takes is estimated in multiply-adds of a large matrix product; a workstation does some 30 in a nanosecond,
a Raspberry Pi 4 five. A byte that is read or written takes the time of five.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from runtime_arm.engines.conv import gemm
from runtime_arm.planning.cost import cost_of
from runtime_arm.planning.trace import Step

BYTE = 5


class Least(NamedTuple):
    """What is worth sharing.

    step: what it must take, several times as long as a meeting of the workers. all: what such steps must take
    together; where others want the processor, and where runs are rare, workers come late to each meeting.
    """

    step: int
    all: int


LEAST, LEAST_FAST = Least(1_000_000, 30_000_000), Least(2_000_000, 100_000_000)  # a meeting is no faster for who is


def least() -> Least:
    """For this machine: measured on a workstation, where 70 us of a step and 3 ms of a net are just worth it."""
    return LEAST_FAST if gemm.multiplies_small() else LEAST


def share(steps: Sequence[Step], workers: int) -> None:
    """Let the workers share the steps for which that pays, if it pays to have workers at all."""
    if workers == 1:
        return
    works = {step: work_of(step) for step in steps if _can_be_shared(step)}
    worth = {step: work for step, work in works.items() if work >= least().step}
    if sum(worth.values()) >= least().all:
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
