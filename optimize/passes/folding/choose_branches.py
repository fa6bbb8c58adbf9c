"""Puts the operators of a branch in the place of an If whose condition is known.

So PyTorch's older exporter writes ``squeeze(dim)``: an If that asks whether the dimension is 1. Behind it shapes are
known only if the branch is.
"""

from __future__ import annotations

from typing import Iterator

from optimize.rewriting.inlining import Inlined, why_apart
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec


def _branches(program: Program, start: int) -> Iterator[Match]:
    for place in range(start, len(program.net.op)):
        if program.net.op[place].full_type == "If":
            yield Match((place,))


def _choose(program: Program, match: Match) -> Rewrite:
    (op,) = program.operators(match)
    condition, choose = program.content(op.input[0]), lookup(op).branch
    branch = None if condition is None or choose is None else choose(op, [TensorSpec.known(condition)])
    if branch is None:
        raise Refusal("its condition is not known")
    if any(name not in branch.outputs for name in op.output if name):
        raise Refusal("the branch leaves outputs as they are")
    reason = why_apart(branch.net)
    if reason:
        raise Refusal(reason)
    inlined = Inlined(program)
    names = inlined.add(branch.net, {}, "")
    results = {name: branch.outputs[name] for name in op.output if name}
    copies = [OperatorDef.of("Copy", [names.get(inner, inner)], [name]) for name, inner in results.items()]
    return Rewrite((*inlined.operators, *copies))


PASS = Pass("choose_branches", (Rule(_branches, _choose),))
