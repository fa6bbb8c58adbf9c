"""The first stage of compiling a net: traces its operators into values and steps of known shapes.

Each write of a blob is a ``Value`` of its own, so nets that reuse names (in-place operators, nets from a memory
optimiser) need no special treatment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, Optional, Sequence, Set

from runtime_arm.errors import NetError
from runtime_arm.files import drop_pages
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.planning.steps import FEED_STEP, LARGE, Choice, Environment, Step, Value
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import DataDependent, Operator, lookup
from runtime_arm.registry.shape_inference import blamed_on, infer_operator
from runtime_arm.registry.specs import TensorSpec

if TYPE_CHECKING:
    from runtime_arm.planning.unpacked import UnpackedWeights


class Traced(NamedTuple):
    """What is known about an operator: the specs of its inputs and outputs, its schema, and how it runs; None if
    nothing runs."""

    op: OperatorDef
    inputs: List[Optional[TensorSpec]]
    schema: Operator
    outputs: List[TensorSpec]
    choice: Optional[Choice]


class Memory:
    """What earlier plans of a net found out about its operators.

    With it an operator with the same inputs is traced in a tenth of the time; when a sequence grows, these are most
    operators. Weights are not unpacked again.
    """

    def __init__(self) -> None:
        self._known: Dict[int, Traced] = {}
        self._unpacked: Optional[UnpackedWeights] = None
        self.passing: Set[Optional[Value]] = set()  # see ``spare_memory``

    def find(self, op: OperatorDef, inputs: Sequence[Optional[TensorSpec]]) -> Optional[Traced]:
        """What is known about the operator for inputs like these, with the same constants."""
        known = self._known.get(id(op))
        same = known is not None and known.op is op and all(map(_is_same, known.inputs, inputs))
        return known if same else None

    def keep(self, traced: Traced) -> None:
        self._known[id(traced.op)] = traced

    @property
    def unpacked(self) -> Optional[UnpackedWeights]:
        """The weights that operators unpacked; None if there are none."""
        return self._unpacked

    def unpack(self, op: OperatorDef, inputs: Sequence[Optional[TensorSpec]]) -> TensorSpec:
        """The weight that an operator unpacks; the operator itself is not traced."""
        schema, results = infer_operator(op, inputs)
        self.keep(Traced(op, [*inputs], schema, results, None))
        if results[0].value is not None:
            self.has_unpacked(op, inputs, results[0].value)
        return results[0]

    def has_unpacked(self, op: OperatorDef, inputs: Sequence[Optional[TensorSpec]], weight: Array) -> None:
        """Note that an operator unpacked a weight: its packed form need not stay in memory."""
        if self._unpacked is None:
            from runtime_arm.planning.unpacked import UnpackedWeights  # most nets do not need it

            self._unpacked = UnpackedWeights()
        self._unpacked.keep(op, inputs, weight)
        for spec in inputs:
            if spec is not None:
                drop_pages(spec.value)


def _is_same(one: Optional[TensorSpec], other: Optional[TensorSpec]) -> bool:
    if one is other:
        return True
    if one is None or other is None or (one.value is None) != (other.value is None):
        return False
    return one == other and (one.value is other.value or _is_same_memory(one, other))


def _is_same_memory(one: Optional[TensorSpec], other: Optional[TensorSpec]) -> bool:
    if one is None or other is None or one.value is None or other.value is None:
        return one is other
    a, b = one.value, other.value
    same = (a.shape, a.dtype, a.strides) == (b.shape, b.dtype, b.strides)
    return same and a.__array_interface__["data"] == b.__array_interface__["data"]


class Trace:
    """The values and steps of consecutive operators, up to the border or the end of the net."""

    def __init__(self, ops: Sequence[OperatorDef], start: int, env: Environment, memory: Optional[Memory] = None):
        self._memory = Memory() if memory is None else memory
        self.env: Environment = dict(env)
        self.feeds = [value for value in env.values() if not value.foreign]
        self.steps: List[Step] = []
        self.border_at: Optional[int] = None
        for index in range(start, len(ops)):
            if not self._follow(index, ops[index]):
                self.border_at = index
                return

    def _follow(self, index: int, op: OperatorDef) -> bool:
        """Add the operator's step. False if the operator is a border."""
        values = [self._read(op, name) for name in op.input]
        specs = [None if value is None else value.spec for value in values]
        if self._follow_branch(index, op, specs):
            return True
        known = self._memory.find(op, specs)
        if known is None:
            try:
                schema, results = infer_operator(op, specs)
            except DataDependent:
                return False
        else:
            schema, results = known.schema, known.outputs
        if any(spec.dtype == object for spec in results if spec.value is None):
            return False
        choice = self._write(index, op, schema, values, results, None if known is None else known.choice)
        if known is None:
            passing = self._memory.passing
            if not passing or passing.isdisjoint([*values, *map(self.env.get, op.output)]):
                self._memory.keep(Traced(op, specs, schema, results, choice))
            if schema.unpacks and results[0].value is not None:
                self._memory.has_unpacked(op, specs, results[0].value)
        elif schema.unpacks and self._memory.unpacked is not None:
            self._memory.unpacked.fill(results[0].value)
        return True

    def _follow_branch(self, index: int, op: OperatorDef, specs: Sequence[Optional[TensorSpec]]) -> bool:
        """Add the steps of the sub-net that runs in place of the operator.

        False if it is not known which one does, or if it has a border.
        """
        schema = lookup(op)
        if schema.branch is None:
            return False
        with blamed_on(op, specs):
            schema.check_counts(op)
            branch = schema.branch(op, specs)
        if branch is None:
            return False
        outside, count = self.env, len(self.steps)
        self.env = dict(outside)
        complete = all(self._follow(index, inner) for inner in branch.net.op)
        inside, self.env = self.env, outside
        if not complete:
            del self.steps[count:]
            return False
        self.env.update((name, inside[inner]) for name, inner in branch.outputs.items() if name)
        return True

    def _read(self, op: OperatorDef, name: str) -> Optional[Value]:
        if not name:
            return None
        value = self.env.get(name)
        if value is None:
            raise NetError(
                f"{op.signature()}: blob {name!r} has no value: it is neither fed, nor filled, nor computed before"
            )
        return value

    def _write(
        self,
        index: int,
        op: OperatorDef,
        schema: Operator,
        inputs: List[Optional[Value]],
        specs: Sequence[TensorSpec],
        choice: Optional[Choice],
    ) -> Optional[Choice]:
        """Add the operator's values, and its step if anything runs; returns how that runs."""
        at = len(self.steps)
        outputs = [Value(name, spec, at) for name, spec in zip(op.output, specs)]
        if not specs or any(spec.value is None for spec in specs):
            for value in inputs:
                if value is not None:
                    value.last = at
            step = Step(index, op, schema, inputs, outputs, choice)
            self.steps.append(step)
            choice = step.choice()
        for value in outputs:
            if value.spec.value is not None:
                value = Value(value.name, value.spec, at, value.spec.value)
                if value.spec.nbytes >= LARGE:
                    from runtime_arm.planning.spare_memory import note

                    note(value, inputs, self._memory.passing)
            if value.name:
                self.env[value.name] = value
        return choice


def set_lifetimes(steps: Sequence[Step], feeds: Sequence[Value], survivors: Sequence[Value]) -> None:
    """Set each value's lifetime: from the step that writes it to the last step that reads it; survivors live to the
    end."""
    for value in feeds:
        value.first = value.last = FEED_STEP
    for at, step in enumerate(steps):
        for value in step.outputs:
            value.first = value.last = at
        for read in step.inputs:
            if read is not None:
                read.last = at
    for value in survivors:
        value.last = len(steps)
