"""Whether a bias may be left out of a layer and be added by the layer that reads the results instead.

The stored results then lack the bias, and rounding errors are proportional to the bias, too. So the bias must not
outweigh the results, and no single weight of the reader may make more of one channel's bias than all others make of the
results.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.netdef import Array

MOST = 4.0  # times the norm of a filter, which is the size of the products if the input is about 1
MOST_OUTLYING = 2.0**12  # times the mean of the other weights: half of the digits of a float32


def outweighs(bias: Array, filters: Array) -> bool:
    """Whether a bias is too large compared with the products of filters (M, ...)."""
    rows = filters.reshape(len(filters), -1)
    return bool(np.abs(bias).max() > MOST * np.sqrt(np.einsum("mk,mk->m", rows, rows).max()))


def bias_behind(shift: Array, weights: Array, bias: Optional[Array]) -> Array:
    """The bias of a convolution of 1x1 that makes up for a shift of what it reads, one number for each channel."""
    total: Array = weights.reshape(len(weights), -1) @ shift
    return total if bias is None else total + bias


def has_outlier(weights: Array) -> bool:
    """Whether one weight is too large compared with the others; zeros do not count, and a single weight never is.
    Weights whose squares overflow count as such: several of them may hide each other.

    Mostly a quick look is enough: since no weight is larger than the largest one, the sum of sizes is at least the sum
    of squares divided by that.
    """
    flat = weights.reshape(-1)
    largest = float(max(flat.max(), -flat.min()))
    with np.errstate(over="ignore"):
        squares = float(np.dot(flat, flat))
    if flat.size == 1 or largest**2 * (flat.size - 1) <= MOST_OUTLYING * (squares - largest**2) < np.inf:
        return False
    if squares == np.inf:
        return True
    others = np.abs(flat).sum(dtype=np.float64) - largest
    return bool(largest * (np.count_nonzero(flat) - 1) > MOST_OUTLYING * others or others <= 0)
