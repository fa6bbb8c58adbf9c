"""Plans are spoiled in every way a planner could spoil them; whenever a result is wrong, the verifier has said so."""

from __future__ import annotations

import random
from typing import Callable, Dict, List, Optional, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime_arm import memory, plan
from runtime_arm.arena import ALIGNMENT, aligned
from runtime_arm.executor import Executor
from runtime_arm.memory import Layout, Place
from runtime_arm.plan import Segment
from runtime_arm.trace import Step, Value
from runtime_arm.verify import BrokenPlan, verify
from tests.support.random_nets import KINDS, PARTS, RandomNet, random_nets

Spoil = Callable[[Layout, Sequence[Step], random.Random], Layout]
HARMFUL = 2  # of the plans spoiled in one way so many must compute something wrong, else the test tests nothing


def move_a_blob(layout: Layout, steps: Sequence[Step], rng: random.Random) -> Layout:
    value = rng.choice(list(layout.offsets))
    last = (layout.nbytes - value.storage.nbytes) // ALIGNMENT
    return layout._replace(offsets={**layout.offsets, value: rng.randint(0, last) * ALIGNMENT})


def put_a_blob_where_another_lies(layout: Layout, steps: Sequence[Step], rng: random.Random) -> Layout:
    value, other = rng.choice(list(layout.offsets)), rng.choice(list(layout.offsets))
    offset = min(layout.offsets[other], layout.nbytes - aligned(value.storage.nbytes))
    return layout._replace(offsets={**layout.offsets, value: offset})


def let_a_result_overwrite_any_operand(layout: Layout, steps: Sequence[Step], rng: random.Random) -> Layout:
    step = rng.choice(steps)
    operands = [value for value in step.inputs if value is not None and value in layout.offsets]
    results = [value for value in step.outputs if value in layout.offsets and value not in operands]
    if not operands or not results:
        return layout
    offset = min(layout.offsets[operands[0]], layout.nbytes - aligned(results[0].storage.nbytes))
    return layout._replace(offsets={**layout.offsets, results[0]: offset})


def shift_a_part(layout: Layout, steps: Sequence[Step], rng: random.Random) -> Layout:
    parts = [value for value, place in layout.within.items() if place.root.storage.nbytes > value.storage.nbytes]
    if not parts:
        return layout
    part = rng.choice(parts)
    root, offset = layout.within[part]
    size = part.storage.nbytes
    moved = offset - size if offset >= size else root.storage.nbytes - size
    return layout._replace(within={**layout.within, part: Place(root, moved)})


def drop_a_step(layout: Layout, steps: Sequence[Step], rng: random.Random) -> Layout:
    return layout._replace(elided={*layout.elided, rng.choice(steps)})


def move_scratch(layout: Layout, steps: Sequence[Step], rng: random.Random) -> Layout:
    users = [step for step in steps if step.scratch]
    if not users:
        return layout
    step = rng.choice(users)
    moved = [rng.randint(0, (layout.nbytes - spec.nbytes) // ALIGNMENT) * ALIGNMENT for spec in step.scratch]
    return layout._replace(scratch={**layout.scratch, step: moved})


SPOILS: List[Spoil] = [move_a_blob, put_a_blob_where_another_lies, let_a_result_overwrite_any_operand, shift_a_part,
                       drop_a_step, move_scratch]


def forget_a_reader(steps: Sequence[Step], feeds: Sequence[Value], rng: random.Random) -> None:
    """One blob's lifetime ends too early, before the layout is planned."""
    values = [*feeds, *(value for step in steps for value in step.outputs)]
    read_later = [value for value in values if value.last > max(value.first, 0) + 1]
    if read_later:
        value = rng.choice(read_later)
        value.last = max(value.first, 0) + 1


class Trial:
    """Runs a net with a spoiled plan, whatever the verifier says of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, spoil: Optional[Spoil], rng: random.Random):
        self.accused = False
        monkeypatch.setattr(plan, "verify", self._verify)
        monkeypatch.setattr(plan, "plan_memory", lambda steps, feeds: self._planned(steps, feeds, spoil, rng))

    def _planned(
        self, steps: Sequence[Step], feeds: Sequence[Value], spoil: Optional[Spoil], rng: random.Random
    ) -> Layout:
        if spoil is None:
            forget_a_reader(steps, feeds, rng)
            return memory.plan_memory(steps, feeds)
        return spoil(memory.plan_memory(steps, feeds), steps, rng)

    def _verify(self, segment: Segment) -> None:
        try:
            verify(segment)
        except BrokenPlan:
            self.accused = True


def results(drawn: RandomNet) -> Dict[str, np.ndarray]:
    """Of the second run, whose arena is not fresh any more."""
    executor = Executor(drawn.net, drawn.weights)
    executor.run(drawn.feed(1), drawn.net.external_output)
    return executor.run(drawn.feed(), drawn.net.external_output)


@pytest.mark.parametrize("spoil", [*SPOILS, None], ids=lambda spoil: spoil.__name__ if spoil else "forget_a_reader")
def test_no_spoiled_plan_that_computes_something_wrong_goes_unnoticed(spoil: Optional[Spoil]) -> None:
    harmful = 0

    @settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(random_nets(kinds=PARTS if spoil is shift_a_part else KINDS), st.integers(0, 1 << 30))
    def check(drawn: RandomNet, seed: int) -> None:
        nonlocal harmful
        right = results(drawn)
        with pytest.MonkeyPatch.context() as monkeypatch:
            trial = Trial(monkeypatch, spoil, random.Random(seed))
            computed = results(drawn)
        wrong = any(computed[name].tobytes() != right[name].tobytes() for name in right)
        harmful += wrong
        assert trial.accused or not wrong, drawn.net.to_text()

    check()
    assert harmful >= HARMFUL, f"only {harmful} plans spoiled in this way did any harm"
