"""What the kinds of merges have in common; each kind has a file of its own.

A kind is a function ``merge(last, before)``: it returns the merge that ends with a step, if that is faster than the
separate steps. ``find.py`` knows with which operators each kind may end.
"""

from __future__ import annotations

from math import inf
from typing import Callable, Optional, Sequence

from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.engines.tiled.options import options_of
from runtime_arm.planning.steps import Step
from runtime_arm.records import NamedTuple

Before = Callable[[Step], Optional[Step]]  # the step that makes input 0 of this one, for nobody else


class Merge(NamedTuple):
    """The steps that become one, in order, and the merged step, which makes the results of the last of them."""

    parts: Sequence[Step]
    step: Step


def least_time(step: Step) -> float:
    """The time of the step's fastest option for tiles; infinite if it has none."""
    options = options_of(step.op, step.in_specs, step.out_specs, step.kernel)
    return min((option.work.time for option in options), default=inf)


def plain_time(step: Step) -> float:
    """The estimated time of the step's kernel for blobs (N, C, H, W)."""
    if step.kernel is not None and step.kernel.work is not None:
        return step.kernel.work(step.op, step.in_specs, step.out_specs).time
    return PASS * float(sum(spec.size for spec in [*step.in_specs, *step.out_specs] if spec is not None))
