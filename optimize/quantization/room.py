"""Room in the ranges that few samples chose.

A blob of a whole picture holds thousands of numbers of each sample, and a few dozen samples show nearly all that it
can be. A blob of a few numbers, a mean of the picture or what classes are told by, is another matter: a new sample may
make one of them half as large again. Its own rounding is a small part of the noise in the outputs, so that the room
costs little.
"""

from __future__ import annotations

from typing import Dict, Mapping

from optimize.quantization.calibration import Range
from optimize.rewriting.program import Program

ROOM = 0.5  # of a range, which is added to it where samples are few
FEW_NUMBERS = 1024  # of a blob in a sample


def with_room(ranges: Mapping[str, Range], program: Program, lacking: float) -> Dict[str, Range]:
    """The ranges of the program's blobs with room for other samples. lacking: see ``recoloured.lacking``."""
    wider = 1 + ROOM * lacking
    return {
        name: Range(one.low * wider, one.high * wider) if _is_small(program, name) else one
        for name, one in ranges.items()
    }


def _is_small(program: Program, name: str) -> bool:
    return all(spec is not None and spec.size <= FEW_NUMBERS for spec in program.specs(name))
