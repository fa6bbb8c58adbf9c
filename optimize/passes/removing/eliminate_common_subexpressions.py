"""Of operators that compute the same from the same inputs, keeps only the first."""

from __future__ import annotations

from collections import Counter
from typing import Dict, Iterator

from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule, merged
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import find


def _expression(op: OperatorDef) -> OperatorDef:
    """The operator without the names of its results: equal for operators that compute the same."""
    return op.replace(
        output=(str(len(op.output)),),
        name="",
        debug_info="",
        engine="",
        arg=tuple(sorted(op.arg, key=lambda arg: arg.name)),
    )


def _repeated(program: Program, start: int) -> Iterator[Match]:
    ops = program.net.op
    alike = Counter((op.type, op.domain, op.input) for op in ops)  # an expression takes long to hash
    first: Dict[OperatorDef, int] = {}
    for place, op in enumerate(ops):
        if alike[op.type, op.domain, op.input] > 1:
            earlier = first.setdefault(_expression(op), place)
            if earlier < place and start <= place:
                yield Match((earlier, place))


def _share(program: Program, match: Match) -> Rewrite:
    kept, gone = program.operators(match)
    schema = find(kept)
    if schema is None or not schema.pure or schema.control:
        raise Refusal("its results are not the same each time")
    rename: Dict[str, str] = {}
    for old, new in zip(gone.output, kept.output):
        if bool(old) != bool(new):
            raise Refusal("they have different outputs")
        if old:
            rename.update(merged(program, old, new))
    return Rewrite((kept,), rename=rename, at=match.places[0])


PASS = Pass("eliminate_common_subexpressions", (Rule(_repeated, _share),))
