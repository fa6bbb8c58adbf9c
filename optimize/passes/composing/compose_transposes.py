"""Permutations of dimensions that follow each other become one, or none where they cancel."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator, Optional, Tuple

from optimize.rewriting.patterns import each, follows
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule, merged, source
from runtime_arm.netdef import Argument, OperatorDef

_TYPES = {"Transpose", "NCHW2NHWC", "NHWC2NCHW"}


def permutation(program: Program, op: OperatorDef) -> Optional[Tuple[int, ...]]:
    """The input's dimension that each of the output's comes from; None where their number is not known."""
    if op.type == "Transpose" and op.get_ints("axes"):
        return op.get_ints("axes")
    spec = program.specs(op.input[0])[0]
    if spec is None:
        return None
    axes = tuple(range(spec.ndim))
    if op.type == "Transpose":
        return axes[::-1]
    return (0, *axes[2:], 1) if op.type == "NCHW2NHWC" else (0, axes[-1], *axes[1:-1])


def _composed(program: Program, first: OperatorDef, second: OperatorDef) -> Optional[Tuple[int, ...]]:
    inner, outer = permutation(program, first), permutation(program, second)
    if inner is None or outer is None or len(inner) != len(outer):
        return None
    return tuple(inner[axis] for axis in outer)


def _is_identity(axes: Optional[Tuple[int, ...]]) -> bool:
    return axes is not None and list(axes) == sorted(axes)


def _idle(program: Program, start: int) -> Iterator[Match]:
    for match in each(_TYPES)(program, start):
        if _is_identity(permutation(program, program.net.op[match.places[0]])):
            yield match


def _remove(program: Program, match: Match) -> Rewrite:
    op = program.net.op[match.places[0]]
    return Rewrite(rename=merged(program, op.output[0], op.input[0]))


def _cancelled(program: Program, start: int) -> Iterator[Match]:
    """A permutation that undoes the one before it; others may read what lies between."""
    for match in each(_TYPES)(program, start):
        second = program.net.op[match.places[0]]
        first = source(program, second.input[0])
        if first is not None and first.full_type in _TYPES and _is_identity(_composed(program, first, second)):
            yield match


def _cancel(program: Program, match: Match) -> Rewrite:
    second = program.net.op[match.places[0]]
    first = source(program, second.input[0])
    assert first is not None
    return Rewrite(rename=merged(program, second.output[0], first.input[0]))


def _compose(program: Program, match: Match) -> Rewrite:
    first, second = program.operators(match)
    axes = _composed(program, first, second)
    if axes is None:
        raise Refusal("the number of dimensions is not known")
    if _is_identity(axes):
        return Rewrite((replace(second, type="Copy", input=first.input, arg=()),))
    return Rewrite((replace(second, type="Transpose", input=first.input, arg=(Argument.of("axes", axes),)),))


PASS = Pass(
    "compose_transposes", (Rule(_idle, _remove), Rule(_cancelled, _cancel), Rule(follows(_TYPES, _TYPES), _compose))
)
