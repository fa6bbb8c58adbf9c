"""Decides which steps the workers split.

The work of a step is estimated in multiply-adds of a large matrix product: a workstation does some 30 of them per
nanosecond, a Raspberry Pi 4 does five. Reading or writing a byte counts as five.
"""

from __future__ import annotations

from typing import Sequence

from runtime_arm.engines.conv import gemm
from runtime_arm.planning.cost import cost_of
from runtime_arm.planning.steps import Step
from runtime_arm.records import NamedTuple

BYTE = 5


class Least(NamedTuple):
    """The least work that is worth splitting.

    step: of one step; several times what synchronising the workers costs. all: of all such steps together; if the
    processor is busy or runs are rare, workers arrive late at each synchronisation.
    """

    step: int
    all: int


LEAST, LEAST_FAST = Least(1_000_000, 30_000_000), Least(2_000_000, 100_000_000)  # a fast machine synchronises no faster


def least() -> Least:
    """The thresholds for this machine.

    Measured on a workstation: splitting just pays for a step of 70 us in a net of 3 ms.
    """
    return LEAST_FAST if gemm.multiplies_small() else LEAST


def split_work(steps: Sequence[Step], workers: int) -> None:
    """Split among the workers the steps for which that pays, if it pays to have workers at all."""
    works = {step: work_of(step) for step in steps if _can_be_split(step)}
    worth = {step: work for step, work in works.items() if work >= least().step}
    if sum(worth.values()) >= least().all:
        for step in worth:
            step.split(workers)


def work_of(step: Step) -> int:
    """The estimated work of the step, in multiply-adds."""
    cost = cost_of(step.op, step.in_specs, step.out_specs)
    work = cost.multiply_adds + BYTE * cost.nbytes
    if step.schema.kind is None and step.kernel is not None and step.kernel.work is not None:
        return max(work, int(step.kernel.work(step.op, step.in_specs, step.out_specs).time))
    return work


def _can_be_split(step: Step) -> bool:
    """Whether its kernel can split its work and all its operands lie in the arena; arrays of objects do not."""
    specs = (*step.in_specs, *step.out_specs)
    return (
        step.kernel is not None
        and step.kernel.splits_work
        and not any(spec is not None and spec.dtype == object for spec in specs)
    )
