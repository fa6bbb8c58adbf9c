"""The first stage of compiling a net: traces its operators into values and steps of known shapes.

Each write of a blob is a ``Value`` of its own, so nets that reuse names (in-place operators, nets from a memory
optimiser) need no special treatment.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from runtime_arm.errors import NetError
from runtime_arm.files import drop_pages
from runtime_arm.netdef import OperatorDef
from runtime_arm.planning.steps import FEED_STEP, Environment, Step, Value
from runtime_arm.registry.schema import DataDependent, Operator, lookup
from runtime_arm.registry.shape_inference import blamed_on, infer_operator
from runtime_arm.registry.specs import TensorSpec


class Unpacked:
    """Weights that operators unpacked for one plan, for further plans of the same net."""

    def __init__(self) -> None:
        self._known: Dict[int, Tuple[OperatorDef, List[Optional[TensorSpec]], List[TensorSpec]]] = {}

    def find(self, op: OperatorDef, inputs: Sequence[Optional[TensorSpec]]) -> Optional[List[TensorSpec]]:
        """What the operator made of the same memory."""
        known = self._known.get(id(op))
        same = known is not None and known[0] is op and all(map(_is_same_memory, known[1], inputs))
        return known[2] if known is not None and same else None

    def keep(self, op: OperatorDef, inputs: Sequence[Optional[TensorSpec]], results: List[TensorSpec]) -> None:
        self._known[id(op)] = op, list(inputs), results


def _is_same_memory(one: Optional[TensorSpec], other: Optional[TensorSpec]) -> bool:
    if one is None or other is None or one.value is None or other.value is None:
        return one is other
    a, b = one.value, other.value
    same = (a.shape, a.dtype, a.strides) == (b.shape, b.dtype, b.strides)
    return same and a.__array_interface__["data"] == b.__array_interface__["data"]


class Trace:
    """The values and steps of consecutive operators, up to the border or the end of the net."""

    def __init__(self, ops: Sequence[OperatorDef], start: int, env: Environment, unpacked: Optional[Unpacked] = None):
        self._unpacked = Unpacked() if unpacked is None else unpacked
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
        try:
            known = self._unpacked.find(op, specs)
            schema, results = infer_operator(op, specs) if known is None else (lookup(op), known)
        except DataDependent:
            return False
        if known is None and schema.unpacks and results[0].value is not None:
            self._unpacked.keep(op, specs, results)
            for spec in specs:
                if spec is not None:
                    drop_pages(spec.value)
        if any(spec.dtype == object for spec in results if spec.value is None):
            return False
        self._write(index, op, schema, values, results)
        return True

    def _follow_branch(self, index: int, op: OperatorDef, specs: Sequence[Optional[TensorSpec]]) -> bool:
        """Add the steps of the sub-net that runs in place of the operator.

        False if it is not known which one does, or if it has a border.
        """
        schema = lookup(op)
        with blamed_on(op, specs):
            schema.check_counts(op)
            branch = schema.branch(op, specs) if schema.branch is not None else None
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
        self, index: int, op: OperatorDef, schema: Operator, inputs: List[Optional[Value]], specs: Sequence[TensorSpec]
    ) -> None:
        at = len(self.steps)
        outputs = [Value(name, spec, at) for name, spec in zip(op.output, specs)]
        if not specs or any(spec.value is None for spec in specs):
            for value in inputs:
                if value is not None:
                    value.last = at
            self.steps.append(Step(index, op, schema, inputs, outputs))
        for value in outputs:
            if value.spec.value is not None:
                value = Value(value.name, value.spec, at, value.spec.value)
            if value.name:
                self.env[value.name] = value


def set_lifetimes(steps: Sequence[Step], feeds: Sequence[Value], survivors: Sequence[Value]) -> None:
    """Let every value live from the step that writes it to the last step that reads it, and survivors to the end."""
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
