"""Decides which steps of a plan run on the device, joins them into islands and inserts the islands into the plan.

Every step gets a level: the number of crossings to the device and back before it. The steps of one level that run on
the device are one island, even with other steps between them in the net, so a net that the device can run completely is
one island. Steps of the processor run while an island does.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Optional, Sequence, Set

from runtime_arm.gpu.island import Island, Session
from runtime_arm.gpu.lowering.registry import refusal
from runtime_arm.netdef import OperatorDef
from runtime_arm.pair.tuned import OnDevice
from runtime_arm.planning.steps import Step, Value
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.specs import TensorSpec

Refusal = Callable[[OperatorDef, Specs, Sequence[TensorSpec]], Optional[str]]


class Placement:
    """Places steps for one net. ``refuse`` may say why an operator should stay on the processor.

    ``reasons`` says why each step that stays there does, ``islands`` lists the islands of all plans so far.
    """

    def __init__(self, session: Session, refuse: Optional[Refusal] = None, least_layers: int = 1):
        self.session = session
        self.islands: List[Island] = []
        self.reasons: Dict[Step, str] = {}
        self._refuse = refuse
        self._least_layers = least_layers

    def place(self, steps: Sequence[Step], wanted: Set[Value], measured: Optional[OnDevice] = None) -> List[Step]:
        """The steps with islands instead of those that run on the device.

        wanted: the values read after the last step. measured: the operators for which that pays, if it was measured on
        this device.
        """
        if self.session.failure is not None:
            return list(steps)
        on_device = {step for step in steps if self._fits(step)}
        on_device -= self._slower(on_device, measured)
        while True:
            groups = _islands(steps, on_device)
            poor = [group for group in groups if sum(_is_layer(step) for step in group) < self._least_layers]
            if not poor:
                break
            for step in [step for group in poor for step in group]:
                on_device.discard(step)
                self.reasons[step] = "an island without a layer does not pay"
        islands = [self._island(group, steps, wanted) for group in groups]
        self.islands += islands
        return _scheduled([step for step in steps if step not in on_device], islands, steps)

    def _fits(self, step: Step) -> bool:
        reason = refusal(step.op, step.in_specs, step.out_specs)
        if reason is None and self._refuse is not None:
            reason = self._refuse(step.op, step.in_specs, step.out_specs)
        if reason is not None:
            self.reasons[step] = reason
        return reason is None

    def _slower(self, steps: Set[Step], measured: Optional[OnDevice]) -> Set[Step]:
        """The steps that the processor does faster, as measured."""
        if measured is None:
            return set()
        device = self.session.device
        if (measured.name, measured.driver) != (device.name, device.driver):
            self.session.note(
                f"the device measurements in tuning.json are ignored: they are of {measured.name} ({measured.driver}); "
                f"armnet optimize --engines measure --device {device.spec} renews them"
            )
            return set()
        slower = {step for step in steps if step.index not in measured.operators}
        self.reasons.update((step, "the processor is faster, as measured") for step in slower)
        if not measured.operators:
            self.session.note(f"nothing runs on {device.spec}: the processor is faster, according to tuning.json")
        return slower

    def _island(self, group: Sequence[Step], steps: Sequence[Step], wanted: Set[Value]) -> Island:
        inside = set(group)
        made = {value for step in group for value in step.outputs}
        read_outside = {value for step in steps if step not in inside for value in step.inputs if value is not None}
        inputs = dict.fromkeys(
            value
            for step in group
            for value in step.inputs
            if value is not None and value not in made and value.spec.value is None
        )
        outputs = [
            value
            for step in group
            for value in step.outputs
            if value.spec.value is None and (value in read_outside or value in wanted)
        ]
        return Island(self.session, group, list(inputs), outputs)


def _is_layer(step: Step) -> bool:
    """Whether it multiplies and adds so much that a device may be faster."""
    return step.schema.multiply_adds is not None


def _islands(steps: Sequence[Step], on_device: Set[Step]) -> List[List[Step]]:
    """The steps that run on the device, by level."""
    made_by = {value: step for step in steps for value in step.outputs}
    level: Dict[Step, int] = {}
    islands: Dict[int, List[Step]] = {}
    for step in steps:
        makers = [made_by[value] for value in step.inputs if value is not None and value in made_by]
        here = step in on_device
        level[step] = max((level[maker] + (maker in on_device and not here) for maker in makers), default=0)
        if here:
            islands.setdefault(level[step], []).append(step)
    return [islands[at] for at in sorted(islands)]


def _scheduled(others: Sequence[Step], islands: Sequence[Island], steps: Sequence[Step]) -> List[Step]:
    """Islands start as soon as their inputs are there, and are waited for when nothing else can run."""
    made = {value for step in steps for value in step.outputs}
    done: Set[Value] = set()
    waiting, running = list(others), []  # type: ignore[var-annotated]
    to_start = [(island, *island.as_steps()) for island in islands]
    result: List[Step] = []

    def ready(values: Sequence[Optional[Value]]) -> bool:
        return all(value is None or value in done or value not in made for value in values)

    while waiting or to_start or running:
        begun = next((one for one in to_start if ready(one[0].inputs)), None)
        step = next((step for step in _in_turn(waiting) if ready(step.inputs)), None) if begun is None else None
        if begun is not None:
            to_start.remove(begun)
            running.append(begun)
            result.append(begun[1])
        elif step is not None:
            waiting.remove(step)
            done.update(step.outputs)
            result.append(step)
        else:
            island, _, finish = running.pop(0)
            done.update(value for inner in island.steps for value in inner.outputs)
            result.append(finish)
    return result


def _in_turn(waiting: Sequence[Step]) -> List[Step]:
    """The steps that may run next: all, but random ones only in the order of the net."""
    first = next((step for step in waiting if not step.schema.pure), None)
    return [step for step in waiting if step.schema.pure or step is first]
