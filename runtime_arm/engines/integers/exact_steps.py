"""Where a rounding rule's results step up: compares integer sums exactly with the rules of ``rounding.py``.

Every rule rounds sum * scale to an integer and is monotone in the sum. So the rule is known if for every integer k the
least sum with a result of k or more is known. A ``Steps`` answers that for rows of k, one row per multiplier:
``boundary`` is the real product at which results reach k, ``reaches`` says of sums whether the rule gives k or more,
``stays_below`` whether it gives less. Both answer False where float64 cannot tell.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Dict, Type

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.operators.quantised.rounding import RULES

_SLACK = 2.0**-42  # more than float64 rounds products below 1024 by
_WHOLE = 1 << 22  # products of smaller sums and mantissas of 31 bits are exact in float64
_INT32 = 2.0**31
TINY = 2.0**-100  # stands for a multiplier of 0


class Steps:
    """The steps of the rule tflite_real, and what the other rules do differently.

    multiplier: (M, 1). reach: no sum of a row has a larger magnitude, (M, 1). moves_away: whether products are moved
    away from zero before they are rounded. error: the relative error of products, as the rule computes them.
    """

    moves_away = False
    error = 2.0**-52

    def __init__(self, rule: str, multiplier: Array, reach: Array):
        self.scale = np.asarray(multiplier, np.float64)
        self.fits = (self.scale >= 0).reshape(-1)  # of a row of multipliers: whether the steps are known
        self.k = self.boundary = np.zeros((1, 1))

    def of(self, rows: Any) -> Steps:
        """The steps of some rows of multipliers."""
        part = copy(self)
        part.scale, part.fits = self.scale[rows], self.fits[rows]
        return part

    def at(self, k: Array) -> Steps:
        """The steps to these integers, float64 (1 or M, K)."""
        part = copy(self)
        part.k, part.boundary = k, k - 0.5
        return part

    @property
    def sums(self) -> Array:
        """The real sums at the boundaries."""
        return np.asarray(self.boundary / np.maximum(self.scale, TINY))

    def least(self, lowest: Array, highest: Array) -> Array:
        """The least sums from ``lowest`` to ``highest`` whose results are k or more, else highest + 1; float64.

        A guess: only ``reaches`` and ``stays_below`` prove it.
        """
        return np.clip(np.ceil(self.sums), lowest, highest + 1)

    def reaches(self, sums: Array) -> Array:
        products = sums * self.scale
        return np.asarray(np.where(self.k > 0, products >= self.boundary, products > self.boundary))

    def stays_below(self, sums: Array) -> Array:
        return np.logical_not(self.reaches(sums))


class FixedPointSteps(Steps):
    """tflite_ref and gemmlowp: half up of  sum * scale  after a move away from zero by ``nudge``, where the mantissa
    of the scale is shifted right (see ``FixedPointRequantizer``)."""

    moves_away = True

    def __init__(self, rule: str, multiplier: Array, reach: Array):
        super().__init__(rule, multiplier, reach)
        fixed = RULES[rule].prepare(multiplier)
        left = np.maximum(fixed.exponent, 0)
        self.scale = np.ldexp(fixed.mantissa.astype(np.float64), (fixed.exponent - 31).astype(np.intc))
        self._nudge = np.where(fixed.exponent < 0, np.ldexp(0.5, fixed.exponent.astype(np.intc)), 0.0)
        self.fits = ((fixed.mantissa >= 0) & (np.ldexp(reach, left.astype(np.intc)) < _INT32)).reshape(-1)
        self._slack = np.where(reach < _WHOLE, 0.0, _SLACK)

    def of(self, rows: Any) -> Steps:
        part = super().of(rows)
        assert isinstance(part, FixedPointSteps)
        part._nudge, part._slack = self._nudge[rows], self._slack[rows]
        return part

    def at(self, k: Array) -> Steps:
        part = super().at(k)
        part.boundary = part.boundary - np.where(k > 0, self._nudge, -self._nudge)
        return part

    def reaches(self, sums: Array) -> Array:
        return np.asarray(sums * self.scale - self._slack >= self.boundary)

    def stays_below(self, sums: Array) -> Array:
        return np.asarray(sums * self.scale + self._slack < self.boundary)


class EvenSteps(Steps):
    """onnx_even: products in float32, halves to even."""

    error = 2.0**-23

    def __init__(self, rule: str, multiplier: Array, reach: Array):
        super().__init__(rule, multiplier, reach)
        self.scale = np.asarray(multiplier, np.float32)

    def least(self, lowest: Array, highest: Array) -> Array:
        """float32 rounds products, so the guess may be one off."""
        sums = super().least(lowest, highest)
        sums -= self.reaches(sums - 1) & (sums > lowest)
        sums += self.stays_below(sums) & (sums <= highest)
        return sums

    def reaches(self, sums: Array) -> Array:
        products = sums.astype(np.float32) * self.scale
        return np.asarray(np.where(self.k % 2 == 0, products >= self.boundary, products > self.boundary))


STEPS: Dict[str, Type[Steps]] = {
    "tflite_ref": FixedPointSteps,
    "gemmlowp": FixedPointSteps,
    "tflite_real": Steps,
    "onnx_even": EvenSteps,
}
