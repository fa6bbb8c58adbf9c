"""Signal-to-noise ratio: how close numbers are to those they stand for."""

from __future__ import annotations

import math
from typing import Iterable, Tuple

import numpy as np

from runtime_arm.netdef import Array

MOST_DB = 200.0  # what equal numbers count as


def noise(wanted: Array, actual: Array) -> Tuple[float, float]:
    """The sum of squares of ``wanted``, and of the difference."""
    wanted, actual = np.asarray(wanted, np.float64), np.asarray(actual, np.float64)
    return float(np.square(wanted).sum()), float(np.square(wanted - actual).sum())


def decibels(sums: Iterable[Tuple[float, float]]) -> float:
    """10 log10(signal / noise) of several pairs of such sums together; at most 200, and -200 if a number is NaN."""
    pairs = list(sums)
    signal, error = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    if not (math.isfinite(signal) and math.isfinite(error)):
        return -MOST_DB
    if error == 0:
        return MOST_DB
    return max(-MOST_DB, min(MOST_DB, 10 * math.log10(signal / error))) if signal > 0 else -MOST_DB
