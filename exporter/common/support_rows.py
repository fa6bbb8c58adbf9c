"""What ``armnet support`` reports: one row per operator type, found by a trial export of the model."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import Dict, Iterable, Iterator, List, NamedTuple

from exporter.common.rules import LISTED
from runtime_arm.errors import ArmnetError


class Support(NamedTuple):
    """An operator type, how many nodes have it, and why one of them cannot be translated; "" if all can."""

    type: str
    count: int  # type: ignore[assignment]  # hides tuple.count
    problem: str


class Findings:
    """The operator types of a model and the first problem of each, collected during a trial export."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._problems: Dict[str, str] = {}

    def count(self, types: Iterable[str]) -> None:
        """Count the nodes of the model, given the type of each."""
        self._counts.update(types)

    def note(self, type: str, problem: str) -> None:
        """Record why a node of this type cannot be translated; only the first reason for each type is kept,
        without the words that lead to this list."""
        self._problems.setdefault(type, problem.replace(LISTED, ""))
        self._counts.setdefault(type, 1)  # such as an input, which is not counted otherwise

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Run the export inside the block. It may fail once a problem is noted; any other failure is passed on. So a
        model without problems was exported completely.
        """
        try:
            yield
        except ArmnetError:
            if not self._problems:
                raise

    def rows(self) -> List[Support]:
        """One row per type: those with a problem first, then by name."""
        rows = [Support(type, count, self._problems.get(type, "")) for type, count in self._counts.items()]
        return sorted(rows, key=lambda row: (not row.problem, row.type))
