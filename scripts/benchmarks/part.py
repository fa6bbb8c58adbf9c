"""What a part of the benchmarks is: it measures rows, and knows how they are shown."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

Row = Dict[str, Any]  # as it goes into the JSON
Cell = Callable[[Row], str]


class Options(NamedTuple):
    """What the person at the terminal wants. other_python: one whose NumPy is an older one, "" for none."""

    threads: Sequence[int]
    runs: int
    networks: Sequence[str]
    other_python: str


class Part(NamedTuple):
    """One table. columns: heads and what stands below them; those after the first ``names`` are numbers."""

    title: str
    measure: Callable[[Options], List[Row]]
    columns: Mapping[str, Cell]
    names: int = 1
    remark: str = ""

    def cells(self, rows: Sequence[Row]) -> Tuple[List[str], List[List[str]]]:
        """Heads and texts."""
        return list(self.columns), [[text(row) for text in self.columns.values()] for row in rows]


def number(key: str, form: str = "{:.2f}", factor: float = 1.0) -> Cell:
    """Shows a number that may be missing."""
    return lambda row: form.format(row[key] * factor) if row.get(key) is not None else ""


def word(key: str) -> Cell:
    return lambda row: str(row.get(key, ""))


def nbytes(key: str) -> Cell:
    from runtime_arm.app.display import size

    return lambda row: size(row[key]) if row.get(key) is not None else ""
