"""Puts the operators of a loop's body in the loop's place, once a trip, where the number of trips is known and small.

So PyTorch's older exporter makes lists: a loop inserts one element a trip into a sequence. Unrolled, the shapes behind
it are known, and the sequence goes, too (see ``remove_sequences``).

Loops inside a body are unrolled first. Each loop of a file therefore becomes at most MOST_OPERATORS operators.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from optimize.rewriting.inlining import Inlined, why_apart
from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import NetDef, OperatorDef

MOST_TRIPS = 64
MOST_OPERATORS = 256  # that one loop becomes
_COPIES = {"Alias", "Copy"}


class _Loop(NamedTuple):
    """A loop by its parts: ``given`` are the carried blobs at first, ``state`` what the body calls them, ``returned``
    what it gives back, ``scanned`` what it gives each trip."""

    body: NetDef
    given: Tuple[str, ...]
    trip: str
    condition: str
    state: Tuple[str, ...]
    returned: Tuple[str, ...]
    scanned: Tuple[str, ...]


def _parts(op: OperatorDef) -> _Loop:
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
    return _Loop(body, given, trip, condition, state, outputs[1 : 1 + carried], outputs[1 + carried :])


def _trips(program: Program, op: OperatorDef, loop: _Loop) -> int:
    """How often the body runs. Refusal if that is not known."""
    count = program.integer(op.input[0]) if op.input[0] else None
    if count is None:
        raise Refusal("the number of trips is not known")
    trips = max(0, count)
    if len(op.input) < 2 or not op.input[1]:
        return trips
    begins = program.integer(op.input[1])
    if begins is None:
        raise Refusal("whether it begins is not known")
    if not begins:
        return 0
    if trips > 1 and not _goes_on(program, loop):
        raise Refusal("the body decides whether it goes on")
    return trips


def _goes_on(program: Program, loop: _Loop) -> bool:
    """Whether the body returns a true condition whenever it is given one."""
    name = loop.body.external_output[0]
    for inner in reversed(loop.body.op):  # what a name stands for at the end: it may be written more than once
        if name in inner.output:
            if inner.full_type not in _COPIES:
                return False
            name = inner.input[0]
    return name == loop.condition if name in loop.body.external_input else bool(program.integer(name))


def _trip(inlined: Inlined, loop: _Loop, number: int, state: Sequence[str]) -> Dict[str, str]:
    """Add one trip; the names in the program of what the body names."""
    names = dict(zip(loop.state, state))
    read = {*loop.body.external_output}.union(*(inner.input for inner in loop.body.op))
    for name, value in ((loop.trip, np.array(number, np.int64)), (loop.condition, np.array(True))):
        if name in read:
            names[name] = inlined.constant(f"{name}_{number}", value)
    return inlined.add(loop.body, names, f"_{number}")


def _unroll(program: Program, op: OperatorDef) -> Rewrite:
    loop = _parts(op)
    trips = _trips(program, op, loop)
    if trips > MOST_TRIPS or trips * len(loop.body.op) > MOST_OPERATORS:
        raise Refusal(f"{trips} trips of {len(loop.body.op)} operators are too many")
    scanned = [(result, name) for result, name in zip(op.output[len(loop.given) :], loop.scanned) if result]
    if scanned and not trips:
        raise Refusal("what it scans is empty")
    inlined, state = Inlined(program), loop.given
    slices: List[List[str]] = [[] for _ in scanned]
    for number in range(trips):
        names = _trip(inlined, loop, number, state)
        state = tuple(names.get(name, name) for name in loop.returned)
        for found, (_, name) in zip(slices, scanned):
            found.append(names.get(name, name))
    inlined.operators += [OperatorDef.of("Copy", [name], [result]) for name, result in zip(state, op.output) if result]
    for found, (result, _) in zip(slices, scanned):
        lengths = inlined.fresh(f"{result}_lengths")
        inlined.operators.append(OperatorDef.of("Concat", found, [result, lengths], axis=0, add_axis=1))
    return Rewrite(tuple(inlined.operators), inlined.weights)


PASS = Pass("unroll_loops", (rule(operator({"onnx.Loop"}, "op"), to=_unroll),))
