"""Removes operators that contribute to no output, and weights that no operator reads."""

from __future__ import annotations

from typing import Iterator, List, Set

from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Rule


def _dead(program: Program, start: int) -> Iterator[Match]:
    """All dead operators at once. Operators without outputs run for their effect; the next run reads state."""
    state = (name for op in program.net.op for name in op.output if name and program.is_rewritten(name))
    wanted: Set[str] = {*program.net.external_output, *state}
    dead: List[int] = []
    for place, op in reversed(list(enumerate(program.net.op))):
        if any(op.output) and wanted.isdisjoint(op.output):
            dead.append(place)
        else:
            wanted.update(op.reads(), op.control_input)
    if dead:
        yield Match(tuple(reversed(dead)))


def _unread(program: Program, start: int) -> Iterator[Match]:
    if any(program.why_kept(name) is None for name in program.weights.names):
        yield Match(())


def _drop(program: Program, match: Match) -> Rewrite:
    return Rewrite(weights={name: None for name in program.weights.names if program.why_kept(name) is None})


PASS = Pass("eliminate_dead_code", (Rule(_dead, lambda program, match: Rewrite()), Rule(_unread, _drop)))
