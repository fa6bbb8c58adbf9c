"""Kinds of steps that can run as one, a file each, and what they have in common.

A kind is a function ``merge(last, before)`` that knows what may end with a step, and tells it if it is faster.
``find.py`` knows by what operators which kind may end.
"""

from __future__ import annotations

from math import inf
from typing import Callable, NamedTuple, Optional, Sequence

from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.engines.tiled.options import options_of
from runtime_arm.planning.steps import Step

Before = Callable[[Step], Optional[Step]]  # the step that makes input 0 of this one, for nobody else


class Merge(NamedTuple):
    """The steps that become one, in order, and that one, which makes what the last of them does."""

    parts: Sequence[Step]
    step: Step


def least_time(step: Step) -> float:
    """What its fastest option between tiles takes; infinite for what has none."""
    options = options_of(step.op, step.in_specs, step.out_specs, step.kernel)
    return min((option.work.time for option in options), default=inf)


def plain_time(step: Step) -> float:
    """What its kernel for blobs (N, C, H, W) takes, or about that."""
    if step.kernel is not None and step.kernel.work is not None:
        return step.kernel.work(step.op, step.in_specs, step.out_specs).time
    return PASS * float(sum(spec.size for spec in [*step.in_specs, *step.out_specs] if spec is not None))
