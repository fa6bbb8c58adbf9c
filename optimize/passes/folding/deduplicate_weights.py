"""Of equal weights, only the first is kept."""

from __future__ import annotations

from typing import Dict, Iterator, Mapping

from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Rule


def _twins(program: Program) -> Mapping[str, str]:
    """Weights that can be replaced by an equal one, by name, and the name of that one."""
    first: Dict[bytes, str] = {}
    twins: Dict[str, str] = {}
    for name in program.weights.names:
        digest = program.weights.digest(name)
        if digest is None or not program.readers(name):
            continue
        kept = first.setdefault(digest, name)
        if kept != name and program.why_named(name) is None:
            twins[name] = kept
    return twins


def _equal(program: Program, start: int) -> Iterator[Match]:
    if _twins(program):
        yield Match(())


def _share(program: Program, match: Match) -> Rewrite:
    twins = _twins(program)
    return Rewrite(weights=dict.fromkeys(twins), rename=twins)


PASS = Pass("deduplicate_weights", (Rule(_equal, _share),))
