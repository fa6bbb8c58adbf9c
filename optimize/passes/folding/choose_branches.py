"""Replaces an If whose condition is known by the operators of the branch that runs.

PyTorch's older exporter writes ``squeeze(dim)`` as an If that asks whether the dimension is 1. Shapes after it are
known only if the branch is.
"""

from __future__ import annotations

from optimize.rewriting.inlining import Inlined, why_apart
from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec


def _choose(program: Program, op: OperatorDef) -> Rewrite:
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


PASS = Pass("choose_branches", (rule(operator({"If"}, "op"), to=_choose),))
