"""Numbers and tables for people."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Sequence[str] = ()) -> str:
    """Lines with aligned columns; columns named in ``right`` are aligned to the right."""
    cells = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    cells.insert(1, ["-" * width for width in widths])

    def line(texts: List[str]) -> str:
        padded = [text.rjust(w) if name in right else text.ljust(w) for text, w, name in zip(texts, widths, columns)]
        return "  ".join(padded).rstrip()

    return "\n".join(map(line, cells))


def count(number: float) -> str:
    """1234567 as ``1.23 M``."""
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number:.3g} "


def size(nbytes: float) -> str:
    """1234567 as ``1.23 MB`` (powers of ten)."""
    return f"{count(nbytes)}B"


def shape_text(shape: Optional[Sequence[Any]]) -> str:
    """(1, 3, 224, 224) as ``1x3x224x224``; ``?`` for an unknown size or shape."""
    if shape is None:
        return "?"
    return "x".join("?" if n is None else str(n) for n in shape) or "scalar"
