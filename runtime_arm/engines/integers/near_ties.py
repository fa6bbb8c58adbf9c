"""Finds the near ties of a rule: the steps whose real sums are so close to an integer that rounding could matter.

Step j of a row is at the real sum first + j * distance, except for a jump at zero. The fractions of these sums are
computed modulo 1 in 32-bit integers, which wrap around by themselves.
"""

from __future__ import annotations

from typing import Tuple

import numpy as np

from runtime_arm.engines.integers.exact_steps import TINY, Steps
from runtime_arm.netdef import Array

_ROUNDINGS = 3  # of the formula's float32 operations, at most; each by 2**-24 of its result
_ONE = 2.0**32  # 1 as a fraction in 32 bits
_FAR = 2.0**10  # from every k
_MOST = 0.49  # distances from an integer are less than 1/2


def near_tie_steps(
    k: Array, target: Array, steps: Steps, ends: Tuple[Array, Array], places: int, leeway: float
) -> Tuple[Array, Array]:
    """The indices of the near ties of each row, (M, columns), and by how much the formula's real sums may differ
    from the rule's at all others, (M, 1).

    k: what the rule gives at its steps, (K), rising by one. target: what the formula gives there. ends: the least and
    the largest sum, (M, 1). places: by how many units in the last place the formula's multiplier may be off. leeway: by
    how much it may be shifted to suit other steps, in sums.

    Always among them are the last steps that sums reach at both ends, which the steps beyond follow from, and those at
    the jump. A row with fewer than others has some twice.
    """
    products = [end * steps.scale.astype(np.float64) for end in ends]
    first = np.clip(np.floor(products[0]) - 1 - k[0], 0, len(k) - 1)
    last = np.clip(np.floor(products[1]) + 2 - k[0], 0, len(k) - 1)
    largest = np.maximum(np.abs(target[0] + first), np.abs(target[0] + last))
    largest = np.maximum(largest, np.maximum(np.abs(k[0] + first), np.abs(k[0] + last))) + 1
    sums = largest / np.maximum(steps.scale, TINY).astype(np.float64)
    error = sums * (_ROUNDINGS * 2.0**-24 * 1.01 + steps.error)
    tolerance = leeway + sums * ((places + 1) * 2.0**-24)
    near = _near_integers(k, steps, error + tolerance + 2.0**-20)
    column = np.arange(len(k), dtype=np.float64)
    if bool((first > 0).any() or (last < len(k) - 1).any()):
        near &= (column >= first) & (column <= last)
    rows = np.arange(len(near))
    near[rows, first[:, 0].astype(np.intp)] = near[rows, last[:, 0].astype(np.intp)] = True
    near[:, (k == 0) | (k == 1)] = True
    return _indices(near), tolerance


def _near_integers(k: Array, steps: Steps, distance: Array) -> Array:
    """Whether the real sums at the steps are within the distance of an integer, (M, K)."""
    jump = int(np.clip(1 - k[0], 0, len(k)))  # the first step above zero
    starts = [steps.at(np.array([[value]])).sums for value in (k[0] - _FAR, k[0] + _FAR)]
    span = _FAR / np.maximum(steps.scale, TINY).astype(np.float64)
    below, above = _fraction(starts[0] + span), _fraction(starts[1] - span)
    column = np.arange(len(k), dtype=np.uint32)
    fractions = column * _fraction(span / _FAR)
    fractions[:, :jump] += below
    fractions[:, jump:] += above
    reach = (np.minimum(distance, _MOST) * _ONE).astype(np.uint32)
    fractions += reach
    return np.asarray((fractions <= 2 * reach) | (distance >= _MOST))


def _fraction(numbers: Array) -> Array:
    """Numbers modulo 1, in units of 2**-32."""
    return ((numbers - np.floor(numbers)) * _ONE).astype(np.uint64).astype(np.uint32)


def _indices(chosen: Array) -> Array:
    """The columns that are chosen in each row, the first one again where a row has fewer than another."""
    rows, columns = np.divmod(np.flatnonzero(chosen), chosen.shape[1])
    counts = np.bincount(rows, minlength=len(chosen))
    begins = np.cumsum(counts) - counts
    found = np.repeat(columns[begins][:, None], counts.max(initial=1), axis=1)
    found[rows, np.arange(len(rows)) - begins[rows]] = columns
    return found
