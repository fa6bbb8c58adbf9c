"""The parts of a loop."""

from __future__ import annotations

from typing import Container, Dict, NamedTuple, Optional, Tuple

from optimize.rewriting.inlining import why_apart
from optimize.rewriting.program import Program
from optimize.rewriting.rewrite import Refusal
from optimize.rewriting.subnets import all_operators
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
    def of(op: OperatorDef, nests: bool = False) -> Loop:
        """Refusal if the loop and its body do not fit each other, or the body is more than a list of operators. nests:
        whether it may be; whoever asks has to look at its operators, one by one."""
        body, given = op.get_net("body"), op.input[2:]
        carried, inputs, outputs = len(given), body.external_input, body.external_output
        if len(inputs) < 2 + carried or len(outputs) < 1 + carried or len(op.output) > len(outputs) - 1:
            raise Refusal("its body does not fit it")
        if not all(given):
            raise Refusal("a carried blob is left out")
        reason = None if nests else why_apart(body, repeats=True)
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


class Body:
    """What a loop's body computes, found from what it gives backwards. Refusal where that is not what is looked for."""

    def __init__(self, program: Program, loop: Loop):
        self.program, self.loop = program, loop
        self.made: Dict[str, OperatorDef] = {}
        for op in all_operators(loop.body):
            if not self.made.keys().isdisjoint(op.output):
                raise Refusal("it writes a blob twice")
            self.made.update((name, op) for name in op.output if name)

    def makes(self, name: str, types: Container[str]) -> bool:
        """Whether an operator of these types makes the blob, once more in each trip."""
        return name in self.made and self.made[name].full_type in types

    def source(self, name: str, types: Container[str]) -> OperatorDef:
        """The operator of these types that makes the blob."""
        if not self.makes(name, types):
            raise Refusal(f"{name!r} is not computed by the reduction of a slice")
        return self.made[name]

    def around(self, name: str, ndim: Optional[int] = None) -> str:
        """The name, if it is that of a blob around the loop, with so many dimensions."""
        if name in self.made or name in self.loop.body.external_input:
            raise Refusal(f"{name!r} is another one in each trip")
        if ndim is not None and len(self.program.dims(name) or ()) != ndim:
            raise Refusal(f"{name!r} is not known to have {ndim} dimensions")
        return name
