"""Chooses the layout of every blob: the cheapest combination of kernels and of conversions between layouts.

Each step has a choice of options, and neighbours that disagree about a layout pay for a conversion. Along a chain,
dynamic programming finds the cheapest combination: forward, the least time to reach each option of a step; backward,
the option that is cheapest with the later choices. Where paths fork, the time before the fork is divided among them,
which is an estimate; so finally single steps change their choice, one by one, until no change saves time. Blobs that
are fetched are (N, C, H, W), whatever makes them.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Set, Tuple

from runtime_arm.engines.tiled.options import KnownOptions, Option, conversion
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.fused.layout_change import layout_change
from runtime_arm.planning.merges.find import merged, needed
from runtime_arm.planning.merges.kinds import plain_time
from runtime_arm.planning.steps import Step, Value
from runtime_arm.records import NamedTuple
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.layouts import Layout, Planes

MOST_SWEEPS = 8


def with_layouts(steps: Sequence[Step], outputs: Set[Value], fetched: Dict[str, Value]) -> List[Step]:
    """The steps, with kernels and values in the layouts that suit them, and with steps that convert between layouts.

    ``outputs``: the values that are assumed to be read as (N, C, H, W) after the last step. ``fetched``: those that
    really are, by name; the dictionary is changed to values of that shape.
    """
    known = KnownOptions()
    together = merged(steps, outputs, known)
    choice = _Choice(together.steps, outputs, known)
    choice.descend()
    return choice.applied(fetched, needed(together.left_out, set(fetched.values())))


class _Candidate(NamedTuple):
    """An option of a step, None for the plain kernel, which the step has already; its layouts and its time."""

    option: Optional[Option]
    inputs: Tuple[Layout, ...]
    outputs: Tuple[Layout, ...]
    time: float


class _Choice:
    def __init__(self, steps: Sequence[Step], outputs: Set[Value], known: KnownOptions):
        self._steps = steps
        self._read_at_the_end = outputs
        self._candidates = _without_lonely_planes(steps, [_candidates(step, known) for step in steps])
        self._taken = [candidates[0] for candidates in self._candidates]
        self._readers: Dict[Value, List[Tuple[int, int]]] = {}
        for at, step in enumerate(steps):
            for index, value in enumerate(step.inputs):
                if value is not None:
                    self._readers.setdefault(value, []).append((at, index))
        self._wanted_in_tiles = {
            value
            for step, candidates in zip(steps, self._candidates)
            for one in candidates
            for value, layout in zip(step.inputs, one.inputs)
            if layout is not None
        }
        made = [(value, at, index) for at, step in enumerate(steps) for index, value in enumerate(step.outputs)]
        self._made_by = {value: (at, index) for value, at, index in made}
        self._prices: Dict[Tuple[Value, Layout, Layout], float] = {}

    def descend(self) -> None:
        reached = self._reach()
        movable = [at for at, candidates in enumerate(self._candidates) if len(candidates) > 1]
        for at in reversed(movable):
            totals = [so_far + self._behind(at, one) for so_far, one in zip(reached[at], self._candidates[at])]
            self._taken[at] = self._candidates[at][totals.index(min(totals))]
        for sweep in range(MOST_SWEEPS):
            changed = False
            for at in movable if sweep % 2 else reversed(movable):
                best = min(self._candidates[at], key=lambda one: self._around(at, one))
                if self._around(at, best) < self._around(at, self._taken[at]):
                    self._taken[at], changed = best, True
            if not changed:
                return

    def _layout(self, value: Value) -> Layout:
        if value not in self._made_by:
            return None
        at, index = self._made_by[value]
        return self._taken[at].outputs[index]

    def _reach(self) -> List[List[float]]:
        """For every step and candidate, the least time to reach it."""
        reached: List[List[float]] = []
        for at, step in enumerate(self._steps):
            inputs = [(index, value) for index, value in enumerate(step.inputs) if value is not None]
            reached.append(
                [
                    one.time + sum(self._arrive(value, one.inputs[index], reached) for index, value in inputs)
                    for one in self._candidates[at]
                ]
            )
        return reached

    def _arrive(self, value: Value, layout: Layout, reached: List[List[float]]) -> float:
        """The least time to make a value in a layout, divided by the number of its readers."""
        if value not in self._made_by:
            return self._price(value, None, layout)
        at, index = self._made_by[value]
        readers = max(1, len(self._readers[value]))
        return min(
            before / readers + self._price(value, one.outputs[index], layout)
            for before, one in zip(reached[at], self._candidates[at])
        )

    def _behind(self, at: int, candidate: _Candidate) -> float:
        """The time to convert a step's outputs for the choices that their readers have now."""
        former, self._taken[at] = self._taken[at], candidate
        total = sum(self._conversions(value) for value in self._steps[at].outputs)
        self._taken[at] = former
        return total

    def _around(self, at: int, candidate: _Candidate) -> float:
        """The time that depends on the choice of a step: its own, and that of converting what it reads and writes.

        A conversion for several readers counts once.
        """
        former, self._taken[at] = self._taken[at], candidate
        values = {value for value in (*self._steps[at].inputs, *self._steps[at].outputs) if value is not None}
        total = candidate.time + sum(
            self._conversions(value) for value in values if not value.foreign or value in self._wanted_in_tiles
        )
        self._taken[at] = former
        return total

    def _conversions(self, value: Value) -> float:
        made = self._layout(value)
        wanted = {self._taken[at].inputs[index] for at, index in self._readers.get(value, ())}
        if value in self._read_at_the_end:
            wanted.add(None)
        return sum(self._price(value, made, layout) for layout in wanted)

    def _price(self, value: Value, source: Layout, target: Layout) -> float:
        if source == target:
            return 0.0
        key = value, source, target
        if key not in self._prices:
            self._prices[key] = conversion(value.spec, source, target)[1].time
        return self._prices[key]

    def applied(self, fetched: Dict[str, Value], besides: Sequence[Step]) -> List[Step]:
        """The steps with the chosen options, each conversion right before the first step that needs it, and at the end
        ``besides``."""
        result: List[Step] = []
        converted: Dict[Tuple[Value, Layout], Value] = {}

        def wanted(value: Value, layout: Layout) -> Value:
            if value.layout == layout:
                return value
            if (value, layout) not in converted:
                twin = Value(value.name, value.spec, 0)
                twin.layout = layout
                result.append(_conversion_step(value, twin))
                converted[value, layout] = twin
            return converted[value, layout]

        for step, candidate in zip(self._steps, self._taken):
            for value, layout in zip(step.outputs, candidate.outputs):
                value.layout = layout
            step.inputs = [
                None if value is None else wanted(value, layout) for value, layout in zip(step.inputs, candidate.inputs)
            ]
            if candidate.option is not None:
                step.run_tiled(candidate.option.kernel)
            result.append(step)
        for step in besides:
            step.inputs = [None if value is None else wanted(value, None) for value in step.inputs]
            result.append(step)
        for name, value in fetched.items():
            fetched[name] = wanted(value, None)
        return result


def _candidates(step: Step, known: KnownOptions) -> List[_Candidate]:
    plain = (None,) * len(step.inputs), (None,) * len(step.outputs)
    has_kind = step.schema.kind is not None and not step.schema.view
    options = known.of(step.op, step.in_specs, step.out_specs, step.kernel) if has_kind else ()
    time = _plain_time(step, bool(options))
    tiled = [_Candidate(one, one.inputs, one.outputs, one.work.time) for one in options]
    is_merged = options and not step.schema.kernels
    return tiled if is_merged else [_Candidate(None, *plain, time), *tiled]


def _without_lonely_planes(steps: Sequence[Step], every: Sequence[List[_Candidate]]) -> List[List[_Candidate]]:
    """The candidates without convolutions that would read planes which nobody makes."""
    made = {
        (value, layout)
        for step, candidates in zip(steps, every)
        for one in candidates
        for value, layout in zip(step.outputs, one.outputs)
        if isinstance(layout, Planes)
    }

    def is_met(step: Step, one: _Candidate) -> bool:
        layout = one.inputs[0] if one.inputs else None
        return not isinstance(layout, Planes) or (step.inputs[0], layout) in made

    return [
        [one for one in candidates if step.schema.kind is not Kind.CONVOLUTION or is_met(step, one)]
        for step, candidates in zip(steps, every)
    ]


def _plain_time(step: Step, has_options: bool) -> float:
    return plain_time(step) if has_options and step.kernel is not None else 0.0


def _conversion_step(value: Value, twin: Value) -> Step:
    kernel, _ = conversion(value.spec, value.layout, twin.layout)
    op = OperatorDef(type="ChangeLayout", domain="armnet", input=(value.name,), output=(value.name,))
    step = Step(-1, op, layout_change, [value], [twin])
    step.run_tiled(kernel)
    return step
