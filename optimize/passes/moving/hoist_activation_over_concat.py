"""If all parts of a concatenation go through the same activation, applies it once to the whole instead."""

from __future__ import annotations

from typing import Iterator

from optimize.rewriting.operator_types import TypesWhose
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule, source
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.facts import Kind

ELEMENTWISE = TypesWhose(lambda schema: schema.kind is Kind.ELEMENTWISE and schema.inputs == (1, 1))


def _concats(program: Program, start: int) -> Iterator[Match]:
    """Concatenations all of whose parts, two or more, come from activations."""
    for place in range(start, len(program.net.op)):
        concat = program.net.op[place]
        if concat.full_type != "Concat" or len(concat.input) < 2:
            continue
        writers = {writer for writer in map(program.writer, concat.input) if writer is not None}
        parts = [source(program, name) for name in concat.input]
        if all(part is not None and part.full_type in ELEMENTWISE for part in parts):
            yield Match((*sorted(writers), place), tuple(dict.fromkeys(concat.input)))


def _function(op: OperatorDef) -> OperatorDef:
    """The operator without its blobs: equal for operators that compute the same function."""
    return op.replace(input=(), output=(), name="", engine="", debug_info="")


def _hoist(program: Program, match: Match) -> Rewrite:
    concat = program.operators(match)[-1]
    parts = {name: source(program, name) for name in concat.input}
    functions = {_function(part) for part in parts.values() if part is not None}
    if len(functions) > 1:
        raise Refusal("the parts go through different activations")
    inputs = tuple(part.input[0] for part in map(parts.__getitem__, concat.input) if part is not None)
    if not parts.keys().isdisjoint(inputs):
        raise Refusal("one part is computed from another")
    joined = program.fresh(f"{concat.output[0]}_joined")
    activation = functions.pop().replace(input=(joined,), output=concat.output[:1])
    return Rewrite((concat.replace(input=inputs, output=(joined, *concat.output[1:])), activation))


PASS = Pass("hoist_activation_over_concat", (Rule(_concats, _hoist),))
