"""Replaces operators that compute with sizes by their results if these follow from sizes that are not open.

The exporter already does so for all shapes that it knows. Shapes after branches and loops are known only once these are
replaced by their operators. What PyTorch computes from such shapes, ranges and positions, may then be most of the net.
"""

from __future__ import annotations

from typing import Iterator, List, Optional, Set

from optimize.passes.folding.fold_constants import FREE_NBYTES
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Rule
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import find


def _known(program: Program, start: int) -> Iterator[Match]:
    """All such operators at once: only what others read of their results becomes a weight."""
    places = [place for place, op in enumerate(program.net.op) if _is_known(program, op)]
    kept = _read_by_others(program, places)
    if kept:
        yield Match(tuple(places), captured={"kept": kept})


def _is_known(program: Program, op: OperatorDef) -> bool:
    schema, outputs = find(op), [name for name in op.output if name]
    if schema is None or schema.control or not schema.pure or schema.unpacks or not outputs:
        return False
    return all(_small(program, name) is not None and program.why_named(name) is None for name in outputs)


def _small(program: Program, name: str) -> Optional[Array]:
    """The content of a blob, if it is known and small."""
    spec = program.specs(name)[0]
    if spec is None or spec.value is None or spec.quantization is not None or spec.nbytes > FREE_NBYTES:
        return None
    return program.content(name)


def _read_by_others(program: Program, places: List[int]) -> List[str]:
    """Those outputs of the operators at these places that other operators read."""
    among: Set[int] = {*places}
    outputs = [name for place in places for name in program.net.op[place].output if name]
    return [name for name in outputs if not among.issuperset(program.readers(name))]


def _fold(program: Program, match: Match) -> Rewrite:
    return Rewrite(weights={name: program.content(name) for name in match.captured["kept"]})


PASS = Pass("fold_sizes", (Rule(_known, _fold),))
