"""Of operators that compute the same from the same inputs, keeps only the first."""

from __future__ import annotations

from typing import Dict, Iterator, Sequence, Tuple

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
    for place in range(start, len(ops)):
        op = ops[place]
        readers = [program.readers(name) for name in op.input if name]
        alike = [
            at for at in min(readers, key=len, default=range(place)) if at < place and _shallow(ops[at]) == _shallow(op)
        ]
        expression = _expression(op) if alike else op  # it takes long to compare
        earlier = next((at for at in alike if _expression(ops[at]) == expression), None)
        if earlier is not None:
            yield Match((earlier, place))


def _shallow(op: OperatorDef) -> Tuple[str, str, Sequence[str]]:
    return op.type, op.domain, op.input


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
