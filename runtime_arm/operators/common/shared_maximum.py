"""Powers for softmax with one maximum for a block of rows, instead of one for each.

A row's probabilities are exp(x - m) / sum of exp(x - m) for any m. Let m be the largest element of the block. Then no
power exceeds 1, so none overflows. If a row's sum is at least n exp(-16), its largest element is at most 16 below m,
for n powers make the sum. So x - m, for elements near the row's largest, is rounded by at most 2^-21 in float32, a
relative error of 2^-21 of the power; elements further below are rounded more, but weigh the less. What underflows is
below exp(-87), which is nothing beside the sum. Where a sum is smaller, or is no number, the rows need maxima of their
own.

A row's own maximum, a subtraction and a sum by NumPy cost five times as much: each is a loop of its own for every row.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from runtime_arm.netdef import Array

DISTANCE = 16.0  # of a row's largest element from the block's, in exponents
SHORT = 16  # elements of a row: up to here sums are made for each element, so that a division needs no loop a row


def ones_for(n: int, dtype: Any) -> Array:
    """The factor whose product with rows of ``n`` elements gives their sums, in one column or, if short, in ``n``."""
    return np.ones((n, n if n <= SHORT else 1), dtype)


def sums_columns(n: int) -> int:
    """The number of columns of these sums."""
    return n if n <= SHORT else 1


def powers_into(x: Array, y: Array, ones: Array, sums: Array) -> bool:
    """y = exp(x - m) for contiguous rows (R, n), and their sums; False if the rows need maxima of their own.

    ``y`` may be ``x``. ones: those of ``ones_for``, or a column of n.
    """
    np.subtract(x, np.maximum.reduce(x.reshape(-1)), y)
    np.exp(y, y)
    np.matmul(y, ones, sums)
    return bool(np.minimum.reduce(sums.reshape(-1)) >= x.shape[1] * math.exp(-DISTANCE))
