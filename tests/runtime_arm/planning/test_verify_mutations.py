"""Plans are spoiled in every way in which a planner could fail; the verifier finds all that compute wrong results."""

from __future__ import annotations

import random
from contextlib import nullcontext
from itertools import permutations
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.planning import memory_sharing as memory
from runtime_arm.planning import plan
from runtime_arm.planning.arena import ALIGNMENT, aligned
from runtime_arm.planning.memory_sharing import MemoryPlan, Place
from runtime_arm.planning.steps import Step, Value
from runtime_arm.planning.verify import BrokenPlan, verify
from tests.support.random_nets import KINDS, PARTS, TILED, Kind, RandomNet, random_nets
from tests.support.tiles import tiles_everywhere

Spoil = Callable[[MemoryPlan, Sequence[Step], random.Random], MemoryPlan]
Planner = Callable[[Sequence[Step], Sequence[Value], random.Random], MemoryPlan]
HARMFUL = 1  # of the plans spoiled in one way so many must compute something wrong, else the test tests nothing


def move_a_blob(layout: MemoryPlan, steps: Sequence[Step], rng: random.Random) -> MemoryPlan:
    value = rng.choice(list(layout.offsets))
    last = (layout.nbytes - value.storage.nbytes) // ALIGNMENT
    return layout._replace(offsets={**layout.offsets, value: rng.randint(0, last) * ALIGNMENT})


def put_a_blob_where_another_lies(layout: MemoryPlan, steps: Sequence[Step], rng: random.Random) -> MemoryPlan:
    value, other = rng.choice(list(layout.offsets)), rng.choice(list(layout.offsets))
    offset = min(layout.offsets[other], layout.nbytes - aligned(value.storage.nbytes))
    return layout._replace(offsets={**layout.offsets, value: offset})


def let_a_result_overwrite_any_operand(layout: MemoryPlan, steps: Sequence[Step], rng: random.Random) -> MemoryPlan:
    step = rng.choice(steps)
    operands = [value for value in step.inputs if value is not None and value in layout.offsets]
    results = [value for value in step.outputs if value in layout.offsets and value not in operands]
    if not operands or not results:
        return layout
    offset = min(layout.offsets[operands[0]], layout.nbytes - aligned(results[0].storage.nbytes))
    return layout._replace(offsets={**layout.offsets, results[0]: offset})


def shift_a_part(layout: MemoryPlan, steps: Sequence[Step], rng: random.Random) -> MemoryPlan:
    parts = [value for value, place in layout.within.items() if place.root.storage.nbytes > value.storage.nbytes]
    if not parts:
        return layout
    part = rng.choice(parts)
    root, offset = layout.within[part]
    size = part.storage.nbytes
    moved = offset - size if offset >= size else root.storage.nbytes - size
    return layout._replace(within={**layout.within, part: Place(root, moved)})


def drop_a_step(layout: MemoryPlan, steps: Sequence[Step], rng: random.Random) -> MemoryPlan:
    return layout._replace(elided={*layout.elided, rng.choice(steps)})


def move_scratch(layout: MemoryPlan, steps: Sequence[Step], rng: random.Random) -> MemoryPlan:
    users = [step for step in steps if step.scratch]
    if not users:
        return layout
    step = rng.choice(users)
    moved = [rng.randint(0, (layout.nbytes - spec.nbytes) // ALIGNMENT) * ALIGNMENT for spec in step.scratch]
    return layout._replace(scratch={**layout.scratch, step: moved})


def slices(layout: MemoryPlan) -> List[Value]:
    """The values in tiles that share the positions of wider ones."""
    return [value for value, place in layout.within.items() if value.layout != place.root.layout]


def moved_to_channel(layout: MemoryPlan, part: Value, channel: int) -> MemoryPlan:
    root, itemsize = layout.within[part].root, part.spec.dtype.itemsize
    most = root.storage.shape[-1] - part.storage.shape[-1]
    place = Place(root, min(max(channel, 0), most) * itemsize)
    return layout._replace(within={**layout.within, part: place})


def shift_a_slice_by_a_channel(layout: MemoryPlan, steps: Sequence[Step], rng: random.Random) -> MemoryPlan:
    if not slices(layout):
        return layout
    part = rng.choice(slices(layout))
    channel = layout.within[part].offset // part.spec.dtype.itemsize
    return moved_to_channel(layout, part, channel + rng.choice([-1, 1]))


def put_a_slice_where_another_lies(layout: MemoryPlan, steps: Sequence[Step], rng: random.Random) -> MemoryPlan:
    pairs = [
        (one, other)
        for one, other in permutations(slices(layout), 2)
        if layout.within[one].offset != layout.within[other].offset
    ]
    if not pairs:
        return layout
    part, other = rng.choice(pairs)
    return moved_to_channel(layout, part, layout.within[other].offset // part.spec.dtype.itemsize)


def forget_a_reader(steps: Sequence[Step], feeds: Sequence[Value], rng: random.Random) -> MemoryPlan:
    """Ends the lifetime of a blob too early, before the memory is planned."""
    values = [*feeds, *(value for step in steps for value in step.outputs)]
    read_later = [value for value in values if value.last > max(value.first, 0) + 1]
    if read_later:
        value = rng.choice(read_later)
        value.last = max(value.first, 0) + 1
    return memory.plan_memory(steps, feeds)


def hand_slices_to_whoever_comes(steps: Sequence[Step], feeds: Sequence[Value], rng: random.Random) -> MemoryPlan:
    """Gives slices to kernels that do not support them."""
    tiled = {value for step in steps for value in step.outputs if value.layout is not None}
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(memory, "_sliceable", lambda steps: tiled)
        return memory.plan_memory(steps, feeds)


def planning(spoil: Spoil) -> Planner:
    def planned(steps: Sequence[Step], feeds: Sequence[Value], rng: random.Random) -> MemoryPlan:
        return spoil(memory.plan_memory(steps, feeds), steps, rng)

    planned.__name__ = spoil.__name__
    return planned


WAYS: List[Tuple[Planner, Sequence[Kind]]] = [
    (planning(move_a_blob), KINDS),
    (planning(put_a_blob_where_another_lies), KINDS),
    (planning(let_a_result_overwrite_any_operand), KINDS),
    (planning(shift_a_part), PARTS),
    (planning(drop_a_step), KINDS),
    (planning(move_scratch), KINDS),
    (forget_a_reader, KINDS),
    (forget_a_reader, TILED),
    (planning(drop_a_step), TILED),
    (planning(shift_a_slice_by_a_channel), TILED),
    (planning(put_a_slice_where_another_lies), TILED),
    (hand_slices_to_whoever_comes, TILED),
]


class Trial:
    """Runs a net with a spoiled plan, whatever the verifier says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, planner: Planner, rng: random.Random):
        self.accused = False
        monkeypatch.setattr(plan, "verify", self._verify)
        monkeypatch.setattr(plan, "plan_memory", lambda steps, feeds: planner(steps, feeds, rng))

    def _verify(self, *operands: Any) -> None:
        try:
            verify(*operands)
        except BrokenPlan:
            self.accused = True


def parts_in_tiles() -> RandomNet:
    """Parts that may be slices of tiles, and one whose kernel cannot write slices: rare among nets drawn at random."""
    ops = (
        OperatorDef.of("Conv", ["x", "w0"], ["first"], kernel=3, pad=1),
        OperatorDef.of("Conv", ["x", "w1"], ["second"], kernel=3, pad=1),
        OperatorDef.of("Concat", ["first", "second"], ["whole", "sizes"], axis=1),
        OperatorDef.of("Conv", ["x", "depthwise"], ["part"], kernel=3, pad=1, group=2),
        OperatorDef.of("Concat", ["part", "part"], ["twice", "twice_sizes"], axis=1),
    )
    rng = np.random.default_rng(0)
    shapes = {"w0": (4, 2, 3, 3), "w1": (4, 2, 3, 3), "depthwise": (2, 1, 3, 3)}
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return RandomNet(NetDef("parts", ops, ("x", *weights), ("whole", "twice")), weights, (1, 2, 8, 8))


def results(drawn: RandomNet) -> Dict[str, np.ndarray]:
    """The outputs of the second run, whose arena holds the blobs of the first."""
    executor = Executor(drawn.net, drawn.weights)
    executor.run(drawn.feed(1), drawn.net.external_output)
    return executor.run(drawn.feed(), drawn.net.external_output)


@pytest.fixture(name="kinds")
def laid_out(request: pytest.FixtureRequest) -> Iterator[Sequence[Kind]]:
    """These kinds of operators; in tiles if they are meant for tiles."""
    with tiles_everywhere() if request.param is TILED else nullcontext():
        yield request.param


@pytest.mark.parametrize(
    ("planner", "kinds"),
    WAYS,
    indirect=["kinds"],
    ids=[planner.__name__ + (" in tiles" if kinds is TILED else "") for planner, kinds in WAYS],
)
def test_every_spoiled_plan_that_computes_wrong_results_is_found(planner: Planner, kinds: Sequence[Kind]) -> None:
    harmful = 0
    examples, operators = (200, 20) if kinds is TILED else (100, 12)

    @settings(max_examples=examples, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(random_nets(operators, kinds), st.integers(0, 1 << 30))
    @example(parts_in_tiles(), 0)
    def check(drawn: RandomNet, seed: int) -> None:
        nonlocal harmful
        right = results(drawn)
        with pytest.MonkeyPatch.context() as monkeypatch:
            trial = Trial(monkeypatch, planner, random.Random(seed))
            computed = results(drawn)
        wrong = any(computed[name].tobytes() != right[name].tobytes() for name in right)
        harmful += wrong
        assert trial.accused or not wrong, drawn.net.to_text()

    check()
    assert harmful >= HARMFUL, f"only {harmful} plans spoiled in this way did any harm"
