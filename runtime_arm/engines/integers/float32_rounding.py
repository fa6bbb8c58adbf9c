"""Requantisation in float32, proven exact before it is used.

A rounding rule (``rounding.py``) turns integer sums into at most 256 different outputs, and is monotone. Float32
arithmetic is monotone, too. So a formula in float32 equals the rule for every sum if, for every output k, it gives k or
more for the least sum that the rule maps to k or more, and less than k for the sum before that. Two formulas are tried:

    upward   trunc((sum + add) * scale)                                      counts from the lowest output
    about    trunc((s + copysign(away, s)) * scale), with  s = sum + add     counts from the zero point

The second is for rules that move products away from zero before they round, unless all outputs are on one side of the
zero point. ``add`` holds the bias. The gaps between possible sums leave a range for ``add`` or ``away``: its middle is
taken, and if rounding still spoils a step, its neighbours and those of the multiplier are tried. Filters for which no
formula is proven use the rule itself.

What is proven holds for all sums from ``Sums.lowest`` to ``Sums.highest``, as float32 rounds them. Nothing depends on
casts of numbers out of range: results are clipped first.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np

from runtime_arm.engines.integers.arithmetic import EXACT
from runtime_arm.engines.integers.exact_steps import STEPS, TINY, Steps
from runtime_arm.engines.integers.near_ties import near_tie_steps
from runtime_arm.netdef import Array
from runtime_arm.operators.quantised.rounding import Requantizer

LARGEST_PART = 1 / 6  # of the filters that may be left to the rule; more would cost more than is gained
LEAST_SUMS = 100  # a run, of filters with multipliers of their own: for fewer a proof takes as long as hundreds of runs
_ROWS = 256  # filters that are proven at once; their tables stay in the cache


class Tries(NamedTuple):
    """Candidates. places: units in the last place by which the multiplier is moved. parts: of the room, by which its
    middle is moved. leeway: in sums, how far from the rule's steps the formula's may lie, where that does not matter.
    """

    places: Tuple[int, ...]
    parts: Tuple[float, ...]
    leeway: float


_PARTS = 0.0, 0.3, -0.3
_TRIES = (
    Tries((0,), _PARTS[:1], 1 / 128),
    Tries((0, 1, -1, 2, -2, 3, -3), _PARTS, 1 / 64),
)
_ALONE = _TRIES[1]._replace(leeway=0.5)  # for one filter: all steps matter


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


class _Task(NamedTuple):
    """What is to be proven. k: the rule's results at its steps, target: the formula's; float64 (K), rising by one.

    about: which formula.
    """

    steps: Steps
    sums: Sums
    k: Array
    target: Array
    about: bool

    @classmethod
    def of(cls, rule: Rule, multiplier: Array, sums: Sums) -> _Task:
        about = _is_about(rule)
        outputs = np.arange(rule.low + 1, rule.high + 1, dtype=np.float64)
        steps = STEPS[rule.name](rule.name, multiplier[:, None], sums.with_offset.reach[:, None])
        return cls(steps, sums, outputs - rule.zero_point, outputs - (rule.zero_point if about else rule.low), about)


class _Room(NamedTuple):
    """What may be added to the sums, (M, 1) each: where to try, and the numbers that nearly all steps allow."""

    middle: Array
    size: Array
    low: Array
    high: Array

    def of(self, rows: Array) -> _Room:
        return _Room(*(column[rows] for column in self))


class _Table:
    """The near ties of the filters ``rows``, (M, K) each: the sums on both sides, and what they must become.

    Steps to consecutive integers lie at equal distances, and the formula's steps nearly do. Where a step's real sum is
    farther from every integer than the two can be apart, both have it between the same integers. Only the other steps
    are compared one by one (see ``near_ties.py``).
    scale: float32 (M, 1), the real multiplier. known: whether the rule's steps are.
    """

    def __init__(self, task: _Task, rows: Array, tries: Tries):
        self.rows, self._about = rows, task.about
        steps, self.offset = task.steps.of(rows), task.sums.offset[rows, None].astype(np.float64)
        low, high = (end[rows, None] + self.offset for end in (task.sums.lowest, task.sums.highest))
        columns, self._tolerance = near_tie_steps(
            task.k, task.target, steps, (low, high), max(tries.places), tries.leeway
        )
        steps, self._k = steps.at(task.k[columns]), task.target[columns]
        self._least = steps.least(low, high)
        before = self._least - 1
        self._met, self._missed = self._least <= high, before >= low  # whether the sums on both sides can occur
        known = (steps.reaches(self._least) | ~self._met) & (steps.stays_below(before) | ~self._missed)
        self.known = known.all(1) & steps.fits & (not task.about or (np.abs(self.offset) < EXACT)[:, 0])
        self.scale, self._real = steps.scale.astype(np.float32), steps.sums
        self._above, self._below = ((of - self.offset).astype(np.float32) for of in (self._least, before))

    def of(self, rows: Array) -> _Table:
        """The steps of some of the filters."""
        part = copy(self)
        for name, values in vars(self).items():
            if isinstance(values, np.ndarray):
                setattr(part, name, values[rows])
        return part

    def room(self, scale: Array) -> _Room:
        """What the steps would allow, were arithmetic exact."""
        target, sums, real, met, missed = self._k, self._least, self._real, self._met, self._missed
        if self._about:  # steps below the zero point mirror those above: 1 - k is reached by 1 - sum
            below = target < 1
            target, real = np.where(below, 1 - target, target), np.abs(real)
            sums = np.where(below, 1 - sums, sums)
            met, missed = np.where(below, missed, met), np.where(below, met, missed) & (sums > 0)
        reached = target / np.maximum(scale, TINY).astype(np.float64)
        need, apart = reached - sums, reached - real
        low = np.where(met, need, -np.inf).max(1, keepdims=True)
        high = np.where(missed, need, np.inf).min(1, keepdims=True) + 1
        least, most = apart.max(1, keepdims=True) - self._tolerance, apart.min(1, keepdims=True) + self._tolerance
        low, high = np.maximum(low, least), np.minimum(high, most)
        return _Room((low + high) / 2, np.abs(high - low), least, most)

    def operands(self, room: _Room, part: float, grid: Optional[float]) -> Tuple[Array, Array]:
        """``add`` and ``away`` in float32 if the middle, moved by a part of the room or to the next float32, is added
        to the sums with their offset."""
        middle = room.middle
        if grid is not None:
            term = (np.rint(middle / grid) + np.sign(part)) * grid
        else:
            unit = np.spacing(np.abs(middle if self._about else self.offset + middle).astype(np.float32))
            term = middle + np.copysign(np.maximum(unit, abs(part) * room.size), part) * (part != 0)
        if self._about:
            return self.offset.astype(np.float32), term.astype(np.float32)
        return (self.offset + term).astype(np.float32), np.zeros_like(term, np.float32)

    def holds(self, room: _Room, add: Array, away: Array, scale: Array) -> Array:
        """For each filter, whether the formula is right on both sides of every step."""
        term = away if self._about else add - self.offset
        right = ((term >= room.low) & (term <= room.high) & (away >= 0) & (scale >= 0))[:, 0]
        sides = (self._above, self._met, np.greater_equal), (self._below, self._missed, np.less)
        for sums, occurs, compare in sides:
            values = sums + add
            if self._about:
                values += np.copysign(away, values)
            values *= scale
            if self._about:
                np.trunc(values, out=values)
            right &= (compare(values, self._k) | ~occurs).all(1)
        return np.asarray(right)


class _Found:
    """For each filter, whether the rule's steps are known, whether the formula is proven, and its operands."""

    def __init__(self, filters: int):
        self.known, self.proven = np.zeros((2, filters), bool)
        self.add, self.away, self.scale = np.zeros((3, filters), np.float32)

    def settle(self, rule: Rule, sums: Sums, about: bool) -> None:
        """Filters of zeros, as training leaves some: their result is the rule applied to their offset."""
        dead = np.flatnonzero((sums.lowest == 0) & (sums.highest == 0))
        if len(dead):
            multiplier = np.broadcast_to(rule.multiplier, len(sums.offset))[dead]
            exact = Requantizer(rule.name, multiplier, rule.zero_point, rule.low, rule.high)
            outputs, work = np.empty(len(dead), np.int64), [np.empty(len(dead), name) for name in exact.work_dtypes]
            exact(sums.offset[dead], outputs, work)
            self.proven[dead], self.scale[dead] = True, 1
            self.add[dead] = outputs - (rule.zero_point if about else rule.low)

    def search(self, task: _Task, rows: Array, tries: Tries, grid: Optional[float] = None) -> None:
        """Tries candidates until every filter of the rows has one that is proven.

        grid: what is added to the sums must be a multiple of this.
        """
        table = _Table(task, rows, tries)
        self.known[rows] = table.known
        table = table.of(table.known)
        for place in tries.places:
            scale = _moved(table.scale, place)
            room = table.room(scale)
            for part in tries.parts:
                add, away = table.operands(room, part, grid)
                proven = table.holds(room, add, away, scale)
                found = table.rows[proven]
                self.proven[found] = True
                self.add[found], self.away[found], self.scale[found] = (of[proven, 0] for of in (add, away, scale))
                if proven.all():
                    return
                if proven.any():
                    table, scale, room = table.of(~proven), scale[~proven], room.of(~proven)


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
    filters = len(sums.offset)
    task, found = _Task.of(rule, np.broadcast_to(rule.multiplier, filters), sums), _Found(filters)
    found.settle(rule, sums, task.about)
    left = np.argsort(task.steps.scale[:, 0], kind="stable")  # alike ones have as many near ties
    left = left[~found.proven[left]]
    for tries in _TRIES:
        for first in range(0, len(left), _ROWS):
            found.search(task, left[first : first + _ROWS], tries)
        left = left[found.known[left] & ~found.proven[left]]
    rest = np.flatnonzero(~found.proven)
    if len(rest) > LARGEST_PART * filters:
        return None
    return Float32Rounding(found.add, found.away if task.about else None, found.scale, rest)


def _of_all_filters(rule: Rule, sums: Sums) -> Optional[Float32Rounding]:
    """One formula for filters that share their multiplier, if float32 adds it to their offsets without rounding.

    Then it depends on the sum with its offset alone.
    """
    task = _Task.of(rule, rule.multiplier.reshape(1), sums.together)
    if task.sums.reach[0] >= EXACT:
        return None
    found, largest = _Found(1), int(np.abs(sums.offset).max(initial=0))
    grid = None if task.about else 2.0 ** (largest.bit_length() + 1 - 24)  # float32 holds its multiples to 2 * largest
    found.search(task, np.arange(1), _ALONE, grid)
    add = sums.offset + np.float64(found.add[0])
    if not found.proven[0] or not bool(np.all(add.astype(np.float32) == add)):
        return None
    away = found.away[0] if task.about else None
    return Float32Rounding(add.astype(np.float32), away, found.scale[0], np.zeros(0, np.intp))


def _is_about(rule: Rule) -> bool:
    return STEPS[rule.name].moves_away and rule.low < rule.zero_point


def _moved(numbers: Array, places: int) -> Array:
    """The float32 numbers that are this many units in the last place larger."""
    bits = numbers.view(np.int32)
    return np.asarray(np.maximum(bits + np.int32(places), 0).view(np.float32))
