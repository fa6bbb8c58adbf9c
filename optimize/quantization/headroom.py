"""Headroom in the ranges that few samples chose.

A channel of a picture holds hundreds of numbers of each sample, and a few dozen samples show nearly all that it can be.
A mean of the picture, or what classes are told by, is one number a sample: a new sample may make it half as large
again. Its own rounding is a small part of the noise in the outputs, so the headroom costs little.
"""

from __future__ import annotations

import math
from typing import Dict, Mapping

from optimize.quantization.calibration import Range
from optimize.rewriting.program import Program

HEADROOM = 0.5  # of a range, which is added to it where samples are few


def with_headroom(ranges: Mapping[str, Range], program: Program, lacking: float) -> Dict[str, Range]:
    """The ranges of the program's blobs with headroom for other samples. lacking: see ``swapped_colours.lacking``."""
    wider = 1 + HEADROOM * lacking
    return {
        name: Range(one.low * wider, one.high * wider) if _has_one_a_channel(program, name) else one
        for name, one in ranges.items()
    }


def _has_one_a_channel(program: Program, name: str) -> bool:
    """Whether a blob holds one number for each channel in a sample: it is a row, or a picture of one pixel."""
    return all(spec is not None and math.prod(spec.shape[2:]) == 1 for spec in program.specs(name))
