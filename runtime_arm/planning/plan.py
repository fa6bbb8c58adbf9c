"""Compiles a net, for inputs of known shapes, into steps whose buffers are bound.

There are two stages. ``Trace`` walks the operators: it infers shapes, evaluates what is already known, and stops at the
first operator whose output shape depends on data (a *border*). ``Segment`` then places the traced blobs in one arena
and binds every kernel to its views. The operators after a border form a further segment, which is compiled for the
shapes that the border produced and kept for the next run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.planning.arena import Group, Placement, Room, allocate, liveness_peak, place, room_for
from runtime_arm.planning.memory_sharing import Decisions, MemoryPlan, Place, plan_memory, plan_memory_again
from runtime_arm.planning.steps import Environment, Step, Value
from runtime_arm.planning.trace import Memory, Trace, set_lifetimes
from runtime_arm.planning.verify import verify
from runtime_arm.records import NamedTuple
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Run
from runtime_arm.registry.shape_inference import blamed_on
from runtime_arm.registry.specs import QuantizedTensor, TensorSpec

if TYPE_CHECKING:
    from runtime_arm.planning.late_feeds import LateFeed
    from runtime_arm.planning.plan_cache import CachedPlan
    from runtime_arm.planning.spare_memory import Blocks


class MemoryHabits:
    """The decisions of memory plans, by the steps that they were made for.

    A sequence that grows by one position per run is planned again each time. Its blobs hardly differ, so the decisions
    are the same, and blobs have room to grow in their places. New decisions are made when the blobs have grown or
    shrunk by an eighth.
    """

    def __init__(self) -> None:
        self._kept: Dict[Tuple[Any, ...], _Habit] = {}

    def plan(self, steps: Sequence[Step], feeds: Sequence[Value]) -> MemoryPlan:
        """The memory plan of these steps."""
        key = tuple((step.index, step.engine, len(step.outputs), len(step.scratch)) for step in steps)
        nbytes = sum(value.storage.nbytes for value in feeds)
        nbytes += sum(value.storage.nbytes for step in steps for value in step.outputs)
        habit = self._kept.get(key)
        if habit is not None and 8 * abs(nbytes - habit.nbytes) <= habit.nbytes:
            return plan_memory_again(steps, feeds, habit.decisions, habit.place)
        layout = plan_memory(steps, feeds)
        self._kept[key] = _Habit(nbytes, layout.decisions)
        return layout


class _Habit:
    """The decisions for blobs of this many bytes, and the places of the groups in the plans that follow them."""

    def __init__(self, nbytes: int, decisions: Decisions):
        self.nbytes = nbytes
        self.decisions = decisions
        self._groups: Optional[Sequence[Group]] = None
        self._room: Optional[Room] = None

    def place(self, groups: Sequence[Group]) -> Placement:
        """The places of the last plan, as long as they can hold these groups; else new ones, with room to grow."""
        before, self._groups = self._groups, groups
        if self._room is not None and self._room.holds(groups):
            return self._room.placement._replace(least_nbytes=liveness_peak(groups))
        if before is None or len(before) != len(groups):
            return place(groups)
        self._room = room_for(groups, before)
        return self._room.placement


class PackedWeights:
    """What kernels derive from constant inputs, by operator and engine; discarded when the constants change.

    It also holds what earlier plans of the net decided about memory, and which operator reads each blob last. Weights
    stay the same from plan to plan, but constants computed from the shape of an input may differ.
    """

    def __init__(self) -> None:
        self.habits = MemoryHabits()
        self._kept: Dict[Tuple[int, str, bool], Tuple[List[Optional[Array]], Dict[str, Any]]] = {}
        self.traced = Memory()
        self._last_readers: Dict[str, int] = {}

    def read_from(self, place: int, ops: Sequence[OperatorDef], names: Iterable[str]) -> Set[str]:
        """The blobs among ``names`` that ``ops[place:]`` read, where ``ops`` are all operators of the net."""
        if not self._last_readers:
            self._last_readers = {name: at for at, op in enumerate(ops) for name in op.reads()}
        last = self._last_readers
        return {name for name in names if last.get(name, -1) >= place}

    def of(self, step: Step) -> Dict[str, Any]:
        """The dictionary in which the kernel of this step keeps what it derives."""
        constants = [None if spec is None else spec.value for spec in step.in_specs]
        key = (step.index, step.engine, step.tiled)
        kept = self._kept.get(key)
        if kept is None or not all(map(_same, kept[0], constants)):
            kept = self._kept[key] = constants, {}
        return kept[1]


def _has_constant_weights(step: Step) -> bool:
    weights = step.in_specs[1] if len(step.inputs) > 1 else None
    return weights is not None and weights.value is not None


def _same(one: Optional[Array], other: Optional[Array]) -> bool:
    return one is other or (
        one is not None and other is not None and one.dtype == other.dtype and np.array_equal(one, other)
    )


class Draft(NamedTuple):
    """What is decided before memory is allocated: the values by name, those that are fed, the steps, the places of
    values and buffers, and the index of the operator at the border, if there is one."""

    env: Environment
    feeds: List[Value]
    steps: List[Step]
    memory: MemoryPlan
    border_at: Optional[int]


RunBorder = Callable[[OperatorDef, Sequence[Optional[Value]]], Sequence[Any]]  # the outputs of an operator
PlaceSteps = Callable[[Sequence[Step], Set[Value]], List[Step]]  # steps and the values that survive them -> steps


class Border:
    """An operator whose output shapes are known only after it has run. The reference kernel runs it and returns new
    arrays."""

    def __init__(self, op: OperatorDef, inputs: List[Optional[Value]], run: RunBorder):
        self.op = op
        self.inputs = inputs
        self._run = run
        self._blamed = blamed_on(op, [None if value is None else value.spec for value in inputs])

    def run(self) -> Dict[str, Any]:
        """The outputs by name, without those that a sub-net left unchanged."""
        with self._blamed:
            results = self._run(self.op, self.inputs)
        return {name: result for name, result in zip(self.op.output, results) if result is not None}


class Segment:
    """The second stage: the traced steps with their memory, ready to run any number of times.

    ``ops[start:]`` are compiled for the values in ``env``. ``fetched`` names the blobs that must survive to the end,
    ``outputs`` those that the net declares as outputs. ``packed`` keeps derived weights. ``layout`` is the memory plan.
    ``run_border`` makes the function that runs a border operator. ``runs[i]`` runs ``running[i]``; if ``workers`` split
    that step, ``bound[i]`` has one function for each of them, and a pool replaces ``runs[i]`` with one that waits for
    the others (see ``execution/workers.py``). ``place`` may replace steps with those of a device (see
    ``gpu/placement.py``). ``kept`` may hold the plan of an earlier start. ``before`` is the segment that runs before
    this one (see ``spare_memory.py``).
    """

    def __init__(
        self,
        ops: Sequence[OperatorDef],
        start: int,
        env: Environment,
        fetched: Iterable[str],
        outputs: Iterable[str],
        packed: PackedWeights,
        run_border: Callable[[OperatorDef, Segment], RunBorder],
        workers: int = 1,
        place: Optional[PlaceSteps] = None,
        kept: Optional[CachedPlan] = None,
        before: Optional[Segment] = None,
    ):
        draft: Optional[Draft] = None if kept is None else kept.find(packed.traced)
        if draft is None:
            draft = self._draft(ops, start, env, set(fetched), set(outputs), packed, workers, place)
            if kept is not None:
                kept.keep(draft, packed.traced.unpacked)
        self.env, self.feeds, self.steps, layout, self.border_at = draft
        self.survivors = {*fetched, *self._read_later(ops, packed)}
        if packed.traced.passing:
            from runtime_arm.planning.spare_memory import forget

            forget(packed.traced.passing, self.env, self.steps, self._surviving().values())
        self.border: Optional[Border] = None
        self.successors: Dict[Any, Segment] = {}
        self.layout = layout
        self.arena_nbytes, self.liveness_peak_nbytes = layout.nbytes, layout.liveness_peak_nbytes
        scratch = self._bind(layout, workers > 1, before)
        self.running = [step for step in self.steps if not step.schema.view and step not in layout.elided]
        self.bound = self._bound(scratch, packed, place is None)
        self.runs = [parts[0] for parts in self.bound]
        self.is_split = any(len(parts) > 1 for parts in self.bound)
        self._late: Dict[Value, LateFeed] = {}
        if not self.is_split and any(step.schema.joins is not None for step in self.running):
            self._join_late()
        self.verify()
        if self.border_at is not None:
            op = ops[self.border_at]
            self.border = Border(op, [self.env.get(name) if name else None for name in op.input], run_border(op, self))

    def _draft(
        self,
        ops: Sequence[OperatorDef],
        start: int,
        env: Environment,
        fetched: Set[str],
        outputs: Set[str],
        packed: PackedWeights,
        workers: int,
        place: Optional[PlaceSteps],
    ) -> Draft:
        trace = Trace(ops, start, env, packed.traced)
        self.env = trace.env
        self.feeds = trace.feeds
        self.steps = trace.steps
        self.border_at = trace.border_at
        later = self._read_later(ops, packed)
        self.survivors = {*fetched, *later}
        if place is not None:
            self.steps = place(self.steps, set(self._surviving().values()))
        self._lay_out({*outputs, *later})
        set_lifetimes(self.steps, self.feeds, list(self._surviving().values()))
        if workers > 1:
            from runtime_arm.planning.work_splitting import split_work

            split_work(self.steps, workers)
        return Draft(self.env, self.feeds, self.steps, packed.habits.plan(self.steps, self.feeds), self.border_at)

    def _read_later(self, ops: Sequence[OperatorDef], packed: PackedWeights) -> Set[str]:
        """The blobs of this segment that the operator at the border and those after it read."""
        return set() if self.border_at is None else packed.read_from(self.border_at, ops, self.env)

    def _surviving(self) -> Dict[str, Value]:
        return {name: self.env[name] for name in self.survivors if name in self.env}

    def _lay_out(self, outputs: Set[str]) -> None:
        """Give blobs the layouts that suit the steps, and convert those that survive to their own shape at the end.

        The layouts depend on the net's ``outputs``, not on what is fetched, so that fetching changes no result. Without
        a convolution with constant weights there are no layouts. So nets that train all their weights round in the same
        way, whichever blobs they recompute.
        """
        if not any(step.schema.kind is Kind.CONVOLUTION and _has_constant_weights(step) for step in self.steps):
            return  # no layout pays
        from runtime_arm.planning.layout_choice import with_layouts

        survivors = self._surviving()
        self.steps = with_layouts(self.steps, {self.env[name] for name in outputs if name in self.env}, survivors)
        self.env.update(survivors)

    def _bind(self, layout: MemoryPlan, shared: bool, before: Optional[Segment]) -> Dict[Step, List[Array]]:
        """Allocate the arena and give every value its memory. Returns the scratch buffers of each step."""
        if before is None:
            arena = allocate(layout.nbytes, "the net's arena", shared)
            self.blocks: Blocks = ((arena, shared),)
        else:
            from runtime_arm.planning.spare_memory import arena_behind

            arena, self.blocks = arena_behind(before.blocks, before._surviving().values(), layout.nbytes, shared)
        for value, offset in layout.offsets.items():
            value.bind(view(arena, offset, value.storage))
        for value, home in layout.within.items():
            value.bind(_lodging(value, home))
        self._leave_ragged(layout)
        return {
            step: [view(arena, offset, spec) for offset, spec in zip(offsets, step.scratch)]
            for step, offsets in layout.scratch.items()
        }

    def _bound(self, scratch: Mapping[Step, List[Array]], packed: PackedWeights, give_back: bool) -> List[List[Run]]:
        """The functions that run each step. give_back: the memory of weights that no step reads when it runs."""
        unpacked = packed.traced.unpacked if give_back else None
        if unpacked is None:
            return [step.bind(scratch[step], packed.of(step)) for step in self.running]
        unpacked.will_be_bound(self.steps, self.running, self._surviving().values())
        bound = []
        for step in self.running:
            bound.append(step.bind(scratch[step], packed.of(step)))
            unpacked.bound(step)
        unpacked.all_bound()
        return bound

    def _leave_ragged(self, layout: MemoryPlan) -> None:
        """Mark the values in tiles that share no memory, and outside whose images no step reads."""
        read = {
            value
            for step in self.steps
            if step.kernel is None or not step.kernel.skips_outside
            for value in step.inputs
        }
        read.update(self._surviving().values(), layout.within, (place.root for place in layout.within.values()))
        for step in self.steps:
            for value in step.outputs:
                value.ragged = value.layout is not None and value not in read

    def _join_late(self) -> None:
        """Let steps that join feeds copy them, instead of ``feed``.

        Not with workers, which would not see what is fed.
        """
        from runtime_arm.planning.late_feeds import joined, late_feeds  # most nets start without it

        surviving = set(self._surviving().values())
        feeds = [value for value in self.feeds if value not in surviving]
        self._late = late_feeds(self.steps, self.running, feeds)
        if self._late:
            self.runs = [joined(step, self._late) or run for step, run in zip(self.running, self.runs)]

    def verify(self) -> None:
        """BrokenPlan unless every read sees what its writer wrote; nothing runs."""
        verify(self.steps, self.running, self.feeds, self._surviving().values(), self.env.values())

    @property
    def copies_late(self) -> bool:
        """Whether steps copy inputs directly from the caller's arrays, instead of ``feed``."""
        return bool(self._late)

    def feed(self, arrays: Mapping[str, Any]) -> None:
        """Copy the inputs into their memory, except those that are given as that memory itself, and those that a step
        copies."""
        for value in self.feeds:
            given, array, late = arrays[value.name], value.array, self._late.get(value)
            is_plain = type(given) is np.ndarray and given.dtype == array.dtype
            if late is not None:
                late.given = given if is_plain else array
            if not is_plain:
                np.copyto(array, given.values if isinstance(given, QuantizedTensor) else given, casting="no")
            elif late is None and given is not array:
                array[...] = given

    def execute(self) -> None:
        """Run the steps."""
        for run in self.runs:
            run()


def view(memory: Array, offset: int, spec: TensorSpec) -> Array:
    """The bytes of ``memory`` from ``offset`` on, as an array of this spec; an array of strings is a new one."""
    if spec.dtype == object:
        return np.empty(spec.shape, object)
    return memory[offset : offset + spec.nbytes].view(spec.dtype).reshape(spec.shape)


def _lodging(value: Value, place: Place) -> Array:
    """The memory of a value within the memory of another."""
    root, spec = place.root, value.storage
    if root.layout is None or root.layout == value.layout:
        return view(root.array.reshape(-1).view(np.uint8), place.offset, spec)
    first = place.offset // spec.dtype.itemsize
    return root.array[..., first : first + spec.shape[-1]]
