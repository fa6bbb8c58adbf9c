"""Replaces a loop by the operators of its body, once per trip, if the number of trips is known and small.

PyTorch's older exporter makes lists by loops that insert one element per trip into a sequence. Once the loop is
unrolled, the shapes after it are known, and the sequence can be removed, too (see ``remove_sequences``).

Loops inside a body are unrolled first, so each loop of a file becomes at most MOST_OPERATORS operators.
"""

from __future__ import annotations

from typing import Dict, List, Sequence

import numpy as np

from optimize.rewriting.inlining import Inlined
from optimize.rewriting.loops import Loop
from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import OperatorDef

MOST_TRIPS = 64
MOST_OPERATORS = 256  # that one loop becomes


def _trips(program: Program, op: OperatorDef, loop: Loop) -> int:
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
    if trips > 1 and not loop.goes_on(program):
        raise Refusal("the body decides whether it goes on")
    return trips


def _trip(inlined: Inlined, loop: Loop, number: int, state: Sequence[str]) -> Dict[str, str]:
    """Add one trip. Returns the name in the program of each blob of the body."""
    names = dict(zip(loop.state, state))
    read = {*loop.body.external_output}.union(*(inner.input for inner in loop.body.op))
    for name, value in ((loop.trip, np.array(number, np.int64)), (loop.condition, np.array(True))):
        if name in read:
            names[name] = inlined.constant(f"{name}_{number}", value)
    return inlined.add(loop.body, names, f"_{number}")


def _unroll(program: Program, op: OperatorDef) -> Rewrite:
    loop = Loop.of(op)
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
