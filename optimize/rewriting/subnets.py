"""Runs passes inside the nets that operators hold: the branches of If, the bodies of Loop and Scan.

A branch is a program like any other and has the weights of the net around it, with three differences: blobs that the
net around it knows by name keep their name and content; new names are new to both nets; and new weights become weights
of the net around it, from which the branch takes them by name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator, List, Sequence, Set, Tuple

from optimize.rewriting.program import Program
from optimize.rewriting.report import Recorder, quiet
from optimize.rewriting.rewrite import MOST_ROUNDS, BrokenPass, Pass, run_passes
from optimize.rewriting.shapes import SpecsByName
from optimize.rewriting.single_assignment import names_in, single_assignment
from optimize.rewriting.weights import Weights
from runtime_arm.netdef import Argument, NetDef, OperatorDef

# Operators whose nets affect nothing but their own outputs. The nets of While keep state by name.
FUNCTIONAL = {"If", "onnx.Loop", "onnx.Scan"}


def all_operators(net: NetDef) -> Iterator[OperatorDef]:
    """The operators of the net and of the nets inside it."""
    for op in net.op:
        yield op
        for inner in op.subnets():
            yield from all_operators(inner)


def run_passes_everywhere(program: Program, passes: Sequence[Pass], recorder: Recorder) -> Program:
    """The program after all passes, in the net and in its sub-nets, repeated until none of them fires."""
    inside = replace(recorder, progress=quiet)
    for _ in range(MOST_ROUNDS):
        program = outside = run_passes(program, passes, recorder)
        for place, op in enumerate(outside.net.op):
            if op.full_type in FUNCTIONAL:
                program = _with_optimised_nets(program, place, passes, inside)
        if program is outside:
            return program
    raise BrokenPass(f"no end after {MOST_ROUNDS} rounds of passes in the net and its sub-nets")


def _with_optimised_nets(program: Program, place: int, passes: Sequence[Pass], recorder: Recorder) -> Program:
    """The program after the passes have run inside the nets of the operator at this place."""
    for index, arg in enumerate(program.net.op[place].arg):
        if arg.n is None:
            continue
        op = program.net.op[place]
        with recorder.report.inside(f"{arg.name} of {op.signature()}"):
            net, weights = _optimised(program, op, arg.n, passes, recorder)
        args: List[Argument] = [*op.arg]
        args[index] = arg.replace(n=net)
        if net is not arg.n:
            program = program.with_operator(place, op.replace(arg=tuple(args)), weights)
    return program


def _optimised(
    program: Program, op: OperatorDef, net: NetDef, passes: Sequence[Pass], recorder: Recorder
) -> Tuple[NetDef, Weights]:
    """A net of the operator after the passes, and the program's weights, with new ones."""
    own = {*net.external_input, *(name for inner in net.op for name in inner.output)} - {"", *net.captures()}
    if not own.isdisjoint(program.weights.names):  # a blob inside has the name of a weight
        return net, program.weights
    inputs = dict.fromkeys((*net.external_input, *net.captures()))
    outputs = dict.fromkeys((*net.external_output, *(name for name in op.output if name in own)))
    whole = single_assignment(net.replace(external_input=tuple(inputs), external_output=tuple(outputs)))
    known: List[SpecsByName] = [
        {name: specs.get(name) for name in inputs if name not in program.weights} for specs in program.known_specs
    ]
    made = recorder.report.steps
    steps = len(made)
    inner = Program(whole, program.weights, known, _names_around(program, op))
    after = run_passes_everywhere(inner, passes, recorder)
    if len(made) == steps:
        return net, program.weights
    return after.net.replace(external_input=net.external_input, external_output=net.external_output), after.weights


def _names_around(program: Program, op: OperatorDef) -> Set[str]:
    """Every name that has a meaning outside the operator's nets."""
    others = program.net.replace(op=tuple(other for other in program.net.op if other is not op))
    return {*names_in(others), *op.input, *op.output, *program.outside, *program.weights.names}
