"""Statistics of a blob's numbers: their range, their mean, how many are zero, NaN or infinite."""

from __future__ import annotations

from typing import List, NamedTuple

import numpy as np

from runtime_arm.netdef import Array


class Spread(NamedTuple):
    """Minimum, maximum and mean of the finite numbers; the share of zeros, and how many numbers are NaN or infinite."""

    least: float
    most: float
    mean: float
    zeros: float
    not_finite: int
    size: int


class BlobSpread(NamedTuple):
    """The spreads of one blob in the original and in the pair."""

    blob: str
    producer: str
    original: Spread
    ours: Spread


def spread_of(array: Array) -> Spread:
    """The spread of one array; zeros for one without numbers."""
    if array.dtype.kind not in "fiub" or not array.size:
        return Spread(0.0, 0.0, 0.0, 0.0, 0, 0)
    values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    least, most, mean = (finite.min(), finite.max(), finite.mean()) if finite.size else (0.0, 0.0, 0.0)
    zeros = float(np.count_nonzero(values == 0)) / values.size
    return Spread(float(least), float(most), float(mean), zeros, int(values.size - finite.size), int(values.size))


def together(spreads: List[Spread]) -> Spread:
    """The spread of several arrays."""
    known = [one for one in spreads if one.size]
    if not known:
        return spreads[0]
    size = sum(one.size for one in known)
    return Spread(
        min(one.least for one in known),
        max(one.most for one in known),
        sum(one.mean * one.size for one in known) / size,
        sum(one.zeros * one.size for one in known) / size,
        sum(one.not_finite for one in known),
        size,
    )
