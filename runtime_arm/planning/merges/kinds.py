"""What the kinds of merges have in common; each kind has a file of its own.

A kind is a function ``merges(last, before)``: it yields the merges that end with a step. ``find.py`` knows with which
operators each kind may end, and which merges make a chain of steps fastest.
"""

from __future__ import annotations

from math import inf
from typing import Callable, Optional, Sequence

from runtime_arm.engines.conv.epilogue import activation_passes
from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.engines.conv.small_columns import SmallColumns
from runtime_arm.engines.tiled.options import KnownOptions, Option
from runtime_arm.machine.caches import usual_block_nbytes
from runtime_arm.operators.conv.convolution import convolution_of
from runtime_arm.planning.steps import Step
from runtime_arm.records import NamedTuple
from runtime_arm.registry.facts import Kind

Before = Callable[[Step], Optional[Step]]  # the step that makes input 0 of this one, for nobody else
FAR = 1  # an element of a blob that does not stay in the cache; merged steps take less memory, too


class Merge(NamedTuple):
    """The steps that become one, in order, and the merged step, which makes the results of the last of them. saves: the
    estimated time that its layouts save whoever reads these. is_certain: whether something runs it, always faster than
    its parts, so that no times need to be estimated."""

    parts: Sequence[Step]
    step: Step
    saves: float = 0.0
    is_certain: bool = False


def time_alone(step: Step, known: KnownOptions) -> float:
    """The estimated time of a step: by its fastest kernel, and for a convolution the passes behind its products."""
    return min(least_time(step, known), plain_time(step)) + _passes(step)


def time_together(merge: Merge, known: KnownOptions) -> float:
    """The estimated time of a merged step; infinite if nothing runs it. What follows its last convolution is left to
    passes, unless that is depthwise."""
    convolutions = [part for part in merge.parts if part.schema.kind is Kind.CONVOLUTION]
    behind = 0.0 if is_depthwise(convolutions[-1]) else _passes(convolutions[-1])
    return least_time(merge.step, known) + behind - merge.saves


def is_depthwise(step: Step) -> bool:
    """Whether the step is a convolution of every channel for itself."""
    x, w = step.in_specs[:2] if len(step.inputs) > 1 else (None, None)
    if x is None or w is None or step.schema.kind is not Kind.CONVOLUTION:
        return False
    convolution = convolution_of(step.op, x, w)
    return 1 < convolution.group == convolution.channels


def _passes(step: Step) -> float:
    """The time of bias, addend and activation. The estimate of a depthwise convolution counts two passes."""
    if step.schema.kind is not Kind.CONVOLUTION:
        return 0.0
    count = sum(value is not None for value in step.inputs[2:4]) + activation_passes(step.op)
    y = step.out_specs[0]
    far = FAR if y.nbytes > usual_block_nbytes() else 0
    return y.size * (PASS * max(0, count - 2 * is_depthwise(step)) + far)


def least_time(step: Step, known: KnownOptions) -> float:
    """The time of the step's fastest option for tiles; infinite if it has none."""
    return min((option.work.time for option in options(step, known)), default=inf)


def options(step: Step, known: KnownOptions) -> Sequence[Option]:
    """The step's options for tiles."""
    return known.of(step.op, step.in_specs, step.out_specs, step.kernel)


def plain_time(step: Step) -> float:
    """The estimated time of the step's kernel for blobs (N, C, H, W); none where it needs so few calls that nothing can
    be faster."""
    if step.kernel is not None and step.kernel.engine == "IM2COL":
        small = SmallColumns.of(step.op, step.in_specs)
        if small is not None and small.is_tiny:
            return 0.0
    if step.kernel is not None and step.kernel.work is not None:
        return step.kernel.work(step.op, step.in_specs, step.out_specs).time
    return PASS * float(sum(spec.size for spec in [*step.in_specs, *step.out_specs] if spec is not None))
