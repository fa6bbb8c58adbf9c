"""Requantisation in float32, proven exact before it is used.

A rounding rule (``rounding.py``) turns integer sums into at most 256 different outputs, and is monotone. Float32
arithmetic is monotone, too. So a formula in float32 equals the rule for every sum if, for every output k, it gives k or
more for the least sum that the rule maps to k or more, and less than k for the sum before that. Two formulas are tried:

    upward   trunc((sum + add) * scale)                                      counts from the lowest output
    about    trunc((s + copysign(away, s)) * scale), with  s = sum + add     counts from the zero point

The second is for rules that move products away from zero before they round, unless all outputs lie on one side of the
zero point. ``add`` holds the bias. Where the real multiplier lies between the possible sums leaves room for ``add`` or
``away``: the middle of that room is taken, and where rounding still spoils a step, the neighbours of it and of the
multiplier are tried. Filters for which nothing is proven stay with the rule itself.

What is proven holds for all sums from ``Sums.lowest`` to ``Sums.highest``, as float32 rounds them. Nothing depends on
casts of numbers out of range: results are clipped first.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.integers.arithmetic import EXACT
from runtime_arm.engines.integers.exact_steps import STEPS, Steps
from runtime_arm.netdef import Array

LARGEST_PART = 1 / 6  # of the filters that may be left to the rule; more would cost more than is gained
LEAST_SUMS = 100  # a run, of filters with multipliers of their own: for fewer a proof takes as long as hundreds of runs
_ROWS = 64  # filters that are proven at once; their tables stay in the cache
_TINY = np.float32(2.0**-100)  # stands for a multiplier of 0
_NO_FILTERS = np.zeros(0, np.intp)
_PLACES = 0, 1, -1, 2, -2, 3, -3  # by which the multiplier is moved, in units in the last place
_PARTS = 0.0, 0.3, -0.3  # of the room, by which its middle is moved


class Sums(NamedTuple):
    """What sums of products can be, before ``offset`` is added; int64, (M) each."""

    lowest: Array
    highest: Array
    offset: Array

    @classmethod
    def of(cls, weights: Array, dtype: Any, centre: int, offset: Array) -> Sums:
        """Sums of weights (M, terms) times integers of a dtype, less the centre."""
        limits = np.iinfo(dtype)
        low, high = int(limits.min) - centre, int(limits.max) - centre
        above = np.maximum(weights, 0).sum(1, dtype=np.int64)
        below = weights.sum(1, dtype=np.int64) - above
        return cls(above * low + below * high, above * high + below * low, offset)

    @property
    def with_offset(self) -> Sums:
        """The same sums after their offsets are added."""
        return Sums(self.lowest + self.offset, self.highest + self.offset, np.zeros_like(self.offset))

    @property
    def together(self) -> Sums:
        """The sums of all filters after their offsets are added, as those of one filter."""
        low, high, zero = self.with_offset
        return Sums(low.min(keepdims=True), high.max(keepdims=True), zero[:1])

    @property
    def reach(self) -> Array:
        """No sum of a filter has a larger magnitude, without its offset; float64."""
        return np.maximum(np.abs(self.lowest), np.abs(self.highest)).astype(np.float64)


class Rule(NamedTuple):
    """A rounding rule with its parameters, as a Requantizer takes them."""

    name: str
    multiplier: Array  # float64 (1) or (M)
    zero_point: int
    low: int
    high: int


class Float32Rounding(NamedTuple):
    """A formula that is proven. add: float32 (M). away: None, a float32 or (M). scale: a float32 or (M).

    rest: the filters, in order, for which it is not proven; the others' results are exact.
    """

    add: Array
    away: Optional[Any]
    scale: Any
    rest: Array


class _Table:
    """Thresholds of the filters ``rows``, (M, K) each: the sums on both sides of every step, and what they must become.

    k: what the formula gives there, (1, K). scale: float32 (M, 1), the real multiplier. known: whether the rule's steps
    are.
    """

    def __init__(self, rows: Array, steps: Steps, sums: Sums, k: Array, about: bool):
        self.rows, self._about, self._k = rows, about, k
        steps, self.offset = steps.of(rows), sums.offset[rows, None].astype(np.float64)
        low, high = (end[rows, None] + self.offset for end in (sums.lowest, sums.highest))
        self._least = steps.least(low, high)
        before = self._least - 1
        self._met = self._missed = np.ones((len(rows), 1), bool)  # whether the sums on both sides can occur
        if len(rows) and bool((self._least[:, -1:] > high).any() or (self._least[:, :1] <= low).any()):
            self._met, self._missed = self._least <= high, before >= low
        self.known = _all(steps.reaches(self._least), self._met) & _all(steps.stays_below(before), self._missed)
        self.known &= steps.fits
        self.scale = steps.scale.astype(np.float32)
        self._sides = [(of - self.offset).astype(np.float32) for of in (self._least, before)]

    def of(self, rows: Array) -> _Table:
        """The thresholds of some of the filters."""
        part = copy(self)
        for name in ("rows", "offset", "_least", "_met", "_missed", "known", "scale"):
            setattr(part, name, getattr(self, name)[rows])
        part._sides = [side[rows] for side in self._sides]
        return part

    def room(self, scale: Array) -> Tuple[Array, Array]:
        """The middle and the size of the room that the steps would leave for what is added, were arithmetic exact."""
        target, sums, met, missed = self._k, self._least, self._met, self._missed
        if self._about:  # steps below the zero point mirror those above: 1 - k is reached by 1 - sum
            below = target < 1
            target, sums = np.where(below, 1 - target, target), np.where(below, 1 - sums, sums)
            met, missed = np.where(below, missed, met), np.where(below, met, missed) & (sums > 0)
        need = target / np.maximum(scale, _TINY).astype(np.float64)
        need -= sums
        every = met.shape[1] == 1 and bool(met.all())
        low = (need if every else np.where(met, need, -np.inf)).max(1, keepdims=True)
        every = missed.shape[1] == 1 and bool(missed.all())
        high = (need if every else np.where(missed, need, np.inf)).min(1, keepdims=True) + 1
        low = np.where(low > -np.inf, low, np.where(high < np.inf, high - 1, 0.0))
        high = np.where(high < np.inf, high, low + 1)
        return (low + high) / 2, np.abs(high - low)

    def operands(self, room: Tuple[Array, Array], part: float, grid: Optional[float]) -> Tuple[Array, Array]:
        """``add`` and ``away`` in float32 if the middle, moved by a part of the room or to the next float32, is added
        to the sums with their offset."""
        middle, size = room
        if grid is not None:
            term = (np.rint(middle / grid) + np.sign(part)) * grid
        else:
            unit = np.spacing(np.abs(middle if self._about else self.offset + middle).astype(np.float32))
            term = middle + np.copysign(np.maximum(unit, abs(part) * size), part) * (part != 0)
        if self._about:
            return self.offset.astype(np.float32), term.astype(np.float32)
        return (self.offset + term).astype(np.float32), np.zeros_like(term, np.float32)

    def holds(self, add: Array, away: Array, scale: Array) -> Array:
        """For each filter, whether the formula is right on both sides of every step."""
        k, right = self._k.astype(np.float32), np.logical_and(away >= 0, scale >= 0)[:, 0]
        for sums, occurs, compare in zip(self._sides, (self._met, self._missed), (np.greater_equal, np.less)):
            values = sums + add
            if self._about:
                values += np.copysign(away, values)
            values *= scale
            if self._about:
                np.trunc(values, out=values)
            right &= _all(compare(values, k), occurs)
        return right


def _all(right: Array, occurs: Array) -> Array:
    """Whether each row is right wherever it matters."""
    return np.asarray(right.all(1) if occurs.shape[1] == 1 and occurs.all() else (right | ~occurs).all(1))


class _Found:
    """For each filter, whether the rule's steps are known, whether the formula is proven, and its operands."""

    def __init__(self, filters: int):
        self.known, self.proven = np.zeros((2, filters), bool)
        self.add, self.away, self.scale = np.zeros((3, filters), np.float32)

    def search(
        self,
        table: _Table,
        places: Sequence[int] = _PLACES,
        parts: Sequence[float] = _PARTS,
        grid: Optional[float] = None,
    ) -> None:
        """Tries candidates until every filter of the table has one that is proven.

        grid: what is added to the sums must be a multiple of this.
        """
        self.known[table.rows] = table.known
        if not table.known.all():
            table = table.of(table.known)
        for place in places:
            scale = _moved(table.scale, place)
            room = table.room(scale)
            for part in parts:
                add, away = table.operands(room, part, grid)
                proven = table.holds(add, away, scale)
                rows = table.rows[proven]
                self.proven[rows] = True
                self.add[rows], self.away[rows], self.scale[rows] = (of[proven, 0] for of in (add, away, scale))
                if proven.all():
                    return
                if proven.any():
                    table, scale, room = table.of(~proven), scale[~proven], (room[0][~proven], room[1][~proven])


def prove(rule: Rule, sums: Sums, count: int) -> Optional[Float32Rounding]:
    """The fastest proven formula in float32 for ``count`` sums of each filter in a run; None if the rule is faster."""
    if sums.reach.max(initial=0) >= EXACT or rule.name not in STEPS or rule.high <= rule.low:
        return None
    if rule.multiplier.size == 1:
        formula = _of_all_filters(rule, sums)
        if formula is not None:
            return formula
    if count < LEAST_SUMS:
        return None
    about = _is_about(rule)
    filters = len(sums.offset)
    steps, k = _steps(rule, np.broadcast_to(rule.multiplier, filters), sums.with_offset.reach, about)
    found = _Found(filters)
    for first in range(0, filters, _ROWS):
        rows = np.arange(first, min(first + _ROWS, filters))
        found.search(_Table(rows, steps, sums, k, about), _PLACES[:1], _PARTS[:1])
    left = np.flatnonzero(found.known & ~found.proven)
    if len(left):
        found.search(_Table(left, steps, sums, k, about))
    rest = np.flatnonzero(~found.proven)
    if len(rest) > LARGEST_PART * filters:
        return None
    return Float32Rounding(found.add, found.away if about else None, found.scale, rest)


def _of_all_filters(rule: Rule, sums: Sums) -> Optional[Float32Rounding]:
    """One formula for filters that share their multiplier, if float32 adds it to their offsets without rounding.

    Then it depends on the sum with its offset alone.
    """
    together, about = sums.together, _is_about(rule)
    if together.reach[0] >= EXACT:
        return None
    steps, k = _steps(rule, rule.multiplier.reshape(1), together.reach, about)
    found, largest = _Found(1), int(np.abs(sums.offset).max(initial=0))
    grid = None if about else 2.0 ** (largest.bit_length() + 1 - 24)  # float32 holds its multiples up to 2 * largest
    found.search(_Table(np.arange(1), steps, together, k, about), grid=grid)
    add = sums.offset + np.float64(found.add[0])
    if not found.proven[0] or not bool(np.all(add.astype(np.float32) == add)):
        return None
    return Float32Rounding(add.astype(np.float32), found.away[0] if about else None, found.scale[0], _NO_FILTERS)


def _is_about(rule: Rule) -> bool:
    return STEPS[rule.name].moves_away and rule.low < rule.zero_point


def _steps(rule: Rule, multiplier: Array, reach: Array, about: bool) -> Tuple[Steps, Array]:
    """The rule's steps, and the results of the formula at which they are: (1, K)."""
    outputs = np.arange(rule.low + 1, rule.high + 1, dtype=np.float64)[None]
    steps = STEPS[rule.name](rule.name, multiplier[:, None], outputs - rule.zero_point, reach[:, None])
    return steps, outputs - (rule.zero_point if about else rule.low)


def _moved(numbers: Array, places: int) -> Array:
    """The neighbours of float32 numbers that are so many units in the last place larger."""
    bits = numbers.view(np.int32)
    return np.asarray(np.maximum(bits + np.int32(places), 0).view(np.float32))
