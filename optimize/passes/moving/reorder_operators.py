"""Puts the operators into the order that needs the smallest arena; the runtime keeps the net's order.

The order changes only where the arena shrinks. If the inputs leave sizes open, the arena must not grow for any of the
choices that are tried, and must shrink for one.
"""

from __future__ import annotations

from itertools import islice
from typing import Dict, Iterator, List, MutableMapping, Sequence
from weakref import WeakKeyDictionary

from optimize.memory.orders import orders_for_arena
from optimize.memory.plan import arena_nbytes
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Rule
from optimize.rewriting.shapes import USUAL
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.specs import TensorSpec

_ORDERS: MutableMapping[Program, Sequence[OperatorDef]] = WeakKeyDictionary()  # the best; asked for in every sweep


def _disordered(program: Program, start: int) -> Iterator[Match]:
    """The operators from the first to the last that another order moves; captured: that order."""
    if program not in _ORDERS:
        _ORDERS[program] = _best_order(program)
    before, after = program.net.op, _ORDERS[program]
    moved = [place for place, op in enumerate(before) if op is not after[place]]
    if moved and start <= moved[0]:
        places = range(moved[0], moved[-1] + 1)
        yield Match(tuple(places), captured={"order": tuple(after[place] for place in places)})


def _reordered(program: Program, match: Match) -> Rewrite:
    return Rewrite(match.captured["order"], at=match.places[0])


def _best_order(program: Program) -> Sequence[OperatorDef]:
    best, *others = _candidates(program)
    specs = _specs(program) if others else []
    least = [arena_nbytes(best, one) for one in specs]
    for net in others:
        sizes = [arena_nbytes(net, one) for one in specs]
        if _smaller(sizes, least):
            best, least = net, sizes
    return best.op


def _candidates(program: Program) -> List[NetDef]:
    """The net as it is and, where its shapes are known, in orders that may need less memory."""
    found = [program.net]
    for specs in _specs(program):
        nets = orders_for_arena(program.net, {name: spec.nbytes for name, spec in specs.items() if spec.value is None})
        found += [net for net in nets if net not in found]
    return found


def _specs(program: Program) -> List[Dict[str, TensorSpec]]:
    """The specs of the net's inputs and blobs, for the first choices of open sizes; nothing if some are not known, or
    if the net computes strings, which no arena holds.
    """
    names = [*program.net.external_input, *(name for op in program.net.op for name in op.output if name)]
    choices = islice(zip(*(program.specs(name) for name in names)), USUAL)
    found = [{name: spec for name, spec in zip(names, specs) if spec is not None} for specs in choices]
    if any(specs[name].dtype == object for specs in found for name in specs if program.writer(name) is not None):
        return []
    return found if all(len(specs) == len(set(names)) for specs in found) else []


def _smaller(sizes: Sequence[int], others: Sequence[int]) -> bool:
    return sum(sizes) < sum(others) and all(new <= old for new, old in zip(sizes, others))


PASS = Pass("reorder_operators", (Rule(_disordered, _reordered),))
