"""Replaces an operator whose inputs are all weights by its results, as new weights."""

from __future__ import annotations

from typing import Iterator

from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec

FREE_NBYTES = (
    1 << 16
)  # a result up to this size may be larger than its inputs; a larger one is computed when the net runs


def _constant(program: Program, start: int) -> Iterator[Match]:
    for place in range(start, len(program.net.op)):
        op = program.net.op[place]
        if any(op.output) and all(name in program.weights for name in op.reads()):
            yield Match((place,))


def _fold(program: Program, match: Match) -> Rewrite:
    op = program.net.op[match.places[0]]
    schema = lookup(op)
    if schema.control or not schema.pure:
        raise Refusal("its results are not the same each time")
    for name in op.output:
        reason = program.why_named(name) if name else None
        if reason:
            raise Refusal(reason)
    inputs = [program.value(name) if name else None for name in op.input]
    if any(name and value is None for name, value in zip(op.input, inputs)):
        raise Refusal("a weight is quantised")
    made_of = sum(value.nbytes for value in inputs if value is not None)
    most = max(made_of, FREE_NBYTES)
    specs = infer_operator(op, [None if value is None else TensorSpec.known(value) for value in inputs], most)[1]
    nbytes = sum(spec.nbytes for spec in specs)
    if schema.unpacks and nbytes > made_of:
        raise Refusal(f"it unpacks a weight: {made_of:,} bytes instead of {nbytes:,}")
    if nbytes > most:
        raise Refusal(f"the result takes {nbytes:,} bytes, its inputs {made_of:,}")
    if any(spec.value is None for name, spec in zip(op.output, specs) if name):
        raise Refusal("it is to be computed in each run")
    return Rewrite(weights={name: spec.value for name, spec in zip(op.output, specs) if name})


PASS = Pass("fold_constants", (Rule(_constant, _fold),))
