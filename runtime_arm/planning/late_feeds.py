"""Inputs that are joined with other blobs, such as key/value caches, go straight into the joined blob.

A run begins by copying its inputs into the plan's memory. If a single step reads an input, and joins it with other
blobs, that step copies the given array instead: this saves a copy, and leaves in the cache what is read next. The
memory plan is the same.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.operators.common.copying import are_same
from runtime_arm.planning.steps import Step, Value
from runtime_arm.registry.kernel import Run

LEAST = 1 << 14  # bytes of the smallest input for which this pays


class LateFeed:
    """An input that is copied when a step joins it. given: the array to copy, by default its own memory."""

    __slots__ = ("given", "value")

    def __init__(self, value: Value):
        self.value = value
        self.given: Array = value.array


def late_feeds(steps: Sequence[Step], running: Sequence[Step], feeds: Sequence[Value]) -> Dict[Value, LateFeed]:
    """The inputs among ``feeds`` that one of the ``running`` steps joins, and that none of the other ``steps``
    reads."""
    readers: Dict[Value, List[Step]] = {
        value: [] for value in feeds if value.spec.nbytes >= LEAST and value.spec.quantization is None
    }
    for step in steps:
        for value in step.inputs:
            if value in readers:
                readers[value].append(step)
    joining = {step for step in running if step.schema.joins is not None and _is_plain(step)}
    return {value: LateFeed(value) for value, by in readers.items() if len(by) == 1 and by[0] in joining}


def _is_plain(step: Step) -> bool:
    """Whether it only copies blobs in their own shape, not in other layouts."""
    values = [step.outputs[0], *step.inputs]
    return step.kernel is not None and all(value is not None and value.layout is None for value in values)


def joined(step: Step, late: Dict[Value, LateFeed]) -> Optional[Run]:
    """The function that runs a step which joins some late feeds; None if it does not."""
    if late.keys().isdisjoint(step.inputs) or step.schema.joins is None:
        return None
    whole, places = step.outputs[0].array, step.schema.joins(step.op, step.in_specs, step.out_specs)
    given: List[Tuple[Array, LateFeed]] = []
    copied: List[Tuple[Array, Array]] = []
    for value, place in zip(step.inputs, places):
        assert value is not None
        target = whole[place].reshape(value.array.shape)
        assert not target.size or np.may_share_memory(target, whole)
        if value in late:
            given.append((target, late[value]))
        elif not are_same(target, value.array):
            copied.append((target, value.array))

    def run() -> None:
        for target, feed in given:
            target[...] = feed.given
            feed.given = feed.value.array
        for target, source in copied:
            target[...] = source

    return run
