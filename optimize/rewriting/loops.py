"""The parts of a loop."""

from __future__ import annotations

from typing import NamedTuple, Tuple

from optimize.rewriting.inlining import why_apart
from optimize.rewriting.program import Program
from optimize.rewriting.rewrite import Refusal
from runtime_arm.netdef import NetDef, OperatorDef

_COPIES = {"Alias", "Copy"}


class Loop(NamedTuple):
    """``given`` are the initial values of the carried blobs, ``state`` their names in the body, ``returned`` their next
    values, ``scanned`` what the body gives in each trip.
    """

    body: NetDef
    given: Tuple[str, ...]
    trip: str
    condition: str
    state: Tuple[str, ...]
    returned: Tuple[str, ...]
    scanned: Tuple[str, ...]

    @staticmethod
    def of(op: OperatorDef) -> Loop:
        """Refusal if the loop and its body do not fit each other, or the body is more than a list of operators."""
        body, given = op.get_net("body"), op.input[2:]
        carried, inputs, outputs = len(given), body.external_input, body.external_output
        if len(inputs) < 2 + carried or len(outputs) < 1 + carried or len(op.output) > len(outputs) - 1:
            raise Refusal("its body does not fit it")
        if not all(given):
            raise Refusal("a carried blob is left out")
        reason = why_apart(body, repeats=True)
        if reason:
            raise Refusal(reason)
        (trip, condition), state = inputs[:2], inputs[2 : 2 + carried]
        return Loop(body, given, trip, condition, state, outputs[1 : 1 + carried], outputs[1 + carried :])

    def goes_on(self, program: Program) -> bool:
        """Whether the body returns a true condition whenever it is given one."""
        name = self.body.external_output[0]
        for inner in reversed(self.body.op):  # what a name stands for at the end: it may be written more than once
            if name in inner.output:
                if inner.full_type not in _COPIES:
                    return False
                name = inner.input[0]
        return name == self.condition if name in self.body.external_input else bool(program.integer(name))
