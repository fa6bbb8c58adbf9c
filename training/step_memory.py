"""The memory that a training step takes."""

from __future__ import annotations

from typing import Container, NamedTuple

from optimize.training import first_backward
from runtime_arm.app.display import size
from runtime_arm.netdef import NetDef
from runtime_arm.planning.plan import Segment


class StepMemory(NamedTuple):
    """The memory of a training step, in bytes.

    arena: everything that a step needs: parameters, the solver's state, activations, gradients and scratch memory.
    state: the part of it that stays from step to step. kept: the part that the forward pass leaves for the backward
    pass: activations, statistics, masks and the batch itself. repeated: the number of operators that run a second time
    instead.
    """

    arena: int
    state: int
    kept: int
    repeated: int

    def __str__(self) -> str:
        again = f"; {self.repeated} operators run twice" if self.repeated else ""
        return (
            f"a step takes {size(self.arena)}, {size(self.state)} of them parameters and the solver's state, "
            f"{size(self.kept)} kept for the backward pass{again}"
        )


def measured(segment: Segment, net: NetDef, state: Container[str], repeated: int) -> StepMemory:
    """The memory of a plan of a train net."""
    border = first_backward(net.op)
    at = next((place for place, step in enumerate(segment.steps) if step.index >= border), len(segment.steps))
    kept = nbytes = 0
    for root, group in segment.layout.groups.items():
        live = sum(one.nbytes for one in group if one.first < at <= one.last)
        if root.name in state:
            nbytes += live
        else:
            kept += live
    return StepMemory(segment.arena_nbytes, nbytes, kept if border < len(net.op) else 0, repeated)
