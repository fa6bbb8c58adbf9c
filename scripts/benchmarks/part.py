"""A part of the benchmarks: it measures rows, and defines how they are shown."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

Row = Dict[str, Any]  # as in the JSON
Cell = Callable[[Row], str]


class Options(NamedTuple):
    """The options of the command. other_python: a Python with an older NumPy, "" for none; torch_python: one with
    PyTorch, "" for this one."""

    threads: Sequence[int]
    runs: int
    networks: Sequence[str]
    other_python: str
    torch_python: str = ""


class Part(NamedTuple):
    """One table. columns: headings and functions for the cells below; all after the first ``names`` hold numbers."""

    title: str
    measure: Callable[[Options], List[Row]]
    columns: Mapping[str, Cell]
    names: int = 1
    remark: str = ""

    def cells(self, rows: Sequence[Row]) -> Tuple[List[str], List[List[str]]]:
        """The headings, and the texts of the cells."""
        return list(self.columns), [[text(row) for text in self.columns.values()] for row in rows]


def number(key: str, form: str = "{:.2f}", factor: float = 1.0) -> Cell:
    """A cell with a number, which may be missing."""
    return lambda row: form.format(row[key] * factor) if row.get(key) is not None else ""


def word(key: str) -> Cell:
    return lambda row: str(row.get(key, ""))


def nbytes(key: str) -> Cell:
    from runtime_arm.app.display import size

    return lambda row: size(row[key]) if row.get(key) is not None else ""
