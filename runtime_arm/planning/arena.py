"""Offsets of blobs in one block of memory, from their lifetimes.

A lifetime is the closed range of steps [first, last] in which a blob must keep its content. Blobs whose lifetimes
intersect must not overlap in memory. Some blobs must be at given distances from each other, as the parts of a whole:
they form a group. Bytes of a group that none of its blobs needs at some step are free for others then. Finding the
smallest arena is NP-hard (dynamic storage allocation). The bytes that are live at the worst step are a lower bound,
which is nearly always reached: groups are placed one by one at the lowest free offset, in several orders, and the
groups at the top of the arena are placed first in the next attempt. If the bound is missed by a few blobs without
groups, a search (``arena_search.py``) finds a better placement or proves that there is none.
"""

from __future__ import annotations

import mmap
from collections import defaultdict
from itertools import chain
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ResourceError
from runtime_arm.machine.memory import require_memory
from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple

MOST_ATTEMPTS = 6  # per order
ATTEMPTS_OF_MANY, MANY = 4, 600  # per order, for more groups than MANY: more attempts gain next to nothing
LASTING = 64  # steps; blobs that live longer are stored separately
FEW = 150  # long-lived blobs; more of them are searched faster in arrays
MOST_SEARCHED = 64  # the most blobs for which the search is tried
ALIGNMENT = 64  # bytes: a cache line, and the widest vector of any CPU that NumPy supports


class Lifetime(NamedTuple):
    """Steps first..last (both included) during which ``nbytes`` are occupied, from byte ``offset`` of the group on."""

    first: int
    last: int
    nbytes: int
    offset: int = 0

    @property
    def end(self) -> int:
        return self.offset + self.nbytes


Group = Sequence[Lifetime]  # at fixed distances from each other; those that live at the same time do not overlap


class Placement(NamedTuple):
    """A byte offset for each group, the size of the arena, and a proven lower bound of that size."""

    offsets: List[int]
    nbytes: int
    least_nbytes: int


class Room(NamedTuple):
    """A placement of groups with room for some of them to grow."""

    groups: Sequence[Group]
    placement: Placement

    def holds(self, groups: Sequence[Group]) -> bool:
        """Whether these groups have the same lifetimes, and none needs more bytes."""
        return len(groups) == len(self.groups) and all(map(_is_within, groups, self.groups))


def room_for(groups: Sequence[Group], before: Sequence[Group]) -> Room:
    """A placement in which the groups that have grown since ``before`` have room to grow by another sixteenth."""
    grown = [
        [one[0]._replace(nbytes=aligned(one[0].nbytes * 17 // 16))] if len(one) == 1 and one != former else one
        for one, former in zip(groups, before)
    ]
    return Room(grown, place(grown))


def _is_within(one: Group, other: Group) -> bool:
    return len(one) == len(other) and all(
        (a.first, a.last, a.offset) == (b.first, b.last, b.offset) and (a.nbytes <= b.nbytes)
        for a, b in zip(one, other)
    )


def aligned(nbytes: int) -> int:
    """``nbytes`` rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def group(lifetimes: Sequence[Lifetime]) -> Group:
    """The bytes that these occupy together, aligned; bytes that several of them share count once."""
    spans = [_aligned(one) for one in lifetimes if one.nbytes]
    if len(spans) < 2:
        return spans
    cuts = sorted({cut for one in spans for cut in (one.offset, one.end)})
    found: Dict[Tuple[int, int, int], Lifetime] = {}  # by the steps and the end
    for begin, end in zip(cuts, cuts[1:]):
        for first, last in _united([one[:2] for one in spans if one.offset <= begin < one.end]):
            below = found.pop((first, last, begin), None)
            offset = begin if below is None else below.offset
            found[first, last, end] = Lifetime(first, last, end - offset, offset)
    return list(found.values())


def _aligned(one: Lifetime) -> Lifetime:
    begin = one.offset // ALIGNMENT * ALIGNMENT
    return one._replace(nbytes=aligned(one.end) - begin, offset=begin)


def _united(ranges: List[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """The ranges of steps, with adjacent ones joined."""
    united: List[Tuple[int, int]] = []
    for first, last in sorted(ranges):
        if united and first <= united[-1][1] + 1:
            united[-1] = united[-1][0], max(united[-1][1], last)
        else:
            united.append((first, last))
    return united


class _Extent(NamedTuple):
    """The steps and bytes that a whole group occupies."""

    first: int
    last: int
    nbytes: int
    area: int  # bytes times steps


def _extent(group: Group) -> _Extent:
    return _Extent(
        min((one.first for one in group), default=0),
        max((one.last for one in group), default=0),
        max((one.end for one in group), default=0),
        sum((one.last - one.first + 1) * one.nbytes for one in group),
    )


_RANKS: Sequence[Callable[[_Extent], Tuple[int, int]]] = (
    lambda one: (-one.nbytes, one.first),
    lambda one: (one.first - one.last, -one.nbytes),
    lambda one: (-one.area, one.first),
    lambda one: (-one.last, -one.nbytes),
)


def place(groups: Sequence[Group]) -> Placement:
    """A placement of the groups, each made by ``group``, in the smallest arena that is found."""
    lasting = _lasting(groups)
    if lasting:
        return _above(groups, lasting)
    best = _best_fit(groups, liveness_peak(groups))
    single = all([one.offset for one in group] in ([], [0]) for group in groups)
    if best.nbytes > best.least_nbytes and len(groups) <= MOST_SEARCHED and single:
        best = _searched(groups, best)
    return best


def _lasting(groups: Sequence[Group]) -> List[int]:
    """The groups that occupy the same bytes at all steps, such as the weights of a train net."""
    first = min((one.first for group in groups for one in group), default=0)
    last = max((one.last for group in groups for one in group), default=0)
    wholes = ((i, group[0]) for i, group in enumerate(groups) if len(group) == 1)
    return [i for i, one in wholes if one[:2] == (first, last) and not one.offset]


def _above(groups: Sequence[Group], lasting: Sequence[int]) -> Placement:
    """A placement with the lasting groups side by side at the bottom: no other place for them is better."""
    offsets, floor = [0] * len(groups), 0
    for i in lasting:
        offsets[i] = floor
        floor += groups[i][0].nbytes
    known = set(lasting)
    others = [i for i in range(len(groups)) if i not in known]
    rest = place([groups[i] for i in others])
    for i, offset in zip(others, rest.offsets):
        offsets[i] = floor + offset
    return Placement(offsets, floor + rest.nbytes, floor + rest.least_nbytes)


def _best_fit(groups: Sequence[Group], least: int) -> Placement:
    extents = [_extent(group) for group in groups]
    best = Placement([], sum(one.nbytes for one in extents) + 1, least)
    attempts = MOST_ATTEMPTS if len(groups) <= MANY else ATTEMPTS_OF_MANY
    for rank in _RANKS:
        order = sorted(range(len(groups)), key=lambda i: rank(extents[i]))
        for _ in range(attempts):
            offsets = _first_fit(groups, order)
            total = max((at + one.nbytes for at, one in zip(offsets, extents)), default=0)
            if total < best.nbytes:
                best = Placement(offsets, total, least)
            if total == least:
                return best
            highest = [i for i in order if offsets[i] + extents[i].nbytes == total]
            order = highest + [i for i in order if i not in highest]
    return best


def _searched(groups: Sequence[Group], best: Placement) -> Placement:
    """A better placement, or the same one; marked as the best possible if the search was complete."""
    from runtime_arm.planning.arena_search import search

    blobs = [(one.first, one.last, one.nbytes) for group in groups for one in group or [Lifetime(0, 0, 0)]]
    offsets, complete = search(blobs, best.nbytes, best.least_nbytes)
    if offsets is not None:
        best = Placement(offsets, max(at + nbytes for at, (_, _, nbytes) in zip(offsets, blobs)), best.least_nbytes)
    return best._replace(least_nbytes=best.nbytes) if complete else best


def _first_fit(groups: Sequence[Group], order: Sequence[int]) -> List[int]:
    """Place the groups in this order, each at the lowest offset where all its bytes are free during their lifetimes."""
    offsets, space = [0] * len(groups), _Space()
    for index in order:
        offsets[index] = space.lowest(groups[index])
        space.take(groups[index], offsets[index])
    return offsets


class _Space:
    """The bytes that are in use, and when.

    Long-lived blobs are stored separately: if a net keeps all its blobs, lists by step would grow with the square of
    the number of steps.
    """

    def __init__(self) -> None:
        # by step: first byte and end of the blobs in use, and of those in use from this step on
        self._live: Dict[int, List[Tuple[int, int]]] = defaultdict(list)
        self._begun: Dict[int, List[Tuple[int, int]]] = defaultdict(list)
        self._long: List[Tuple[int, int, int, int]] = []  # first and last steps, first bytes and ends
        self._lasting: Optional[Array] = None  # the same as rows of at least that length, once there are more than FEW

    def take(self, group: Group, offset: int) -> None:
        for first, last, nbytes, shift in group:
            begin = offset + shift
            if last - first >= LASTING:
                self._take_long(first, last, begin, begin + nbytes)
                continue
            place = begin, begin + nbytes
            self._begun[first].append(place)
            for step in range(first, last + 1):
                self._live[step].append(place)

    def lowest(self, group: Group) -> int:
        """The lowest offset where a group fits."""
        if self._lasting is None and len(group) == 1 and not group[0].offset:
            return self._lowest_of_one(*group[0][:3])
        taken: List[Tuple[int, int]] = []
        for first, last, nbytes, shift in group:
            top = shift + nbytes
            taken += [(begin - top, end - shift) for begin, end in self._met(first, last)]
        return self._lowest(taken) if self._lasting is None else self._lowest_among(group, taken, self._lasting)

    def _met(self, first: int, last: int) -> List[Tuple[int, int]]:
        """The bytes in use during these steps, without long-lived blobs if these are in arrays."""
        places = list(self._live.get(first, ()))
        for step in range(first + 1, last + 1):
            if step in self._begun:
                places += self._begun[step]
        if self._lasting is None:
            places += [(begin, end) for since, till, begin, end in self._long if since <= last and till >= first]
        return places

    def _lowest_of_one(self, first: int, last: int, nbytes: int) -> int:
        """The same for a group of one blob, as most are."""
        offset = 0
        for begin, end in sorted(self._met(first, last)):
            if offset + nbytes <= begin:
                break
            if end > offset:
                offset = end
        return offset

    def _lowest(self, taken: List[Tuple[int, int]]) -> int:
        offset = 0
        for begin, end in sorted(taken):
            if offset <= begin:
                break
            if end > offset:
                offset = end
        return offset

    def _lowest_among(self, group: Group, taken: List[Tuple[int, int]], lasting: Array) -> int:
        """The same, with long-lived blobs in arrays."""
        first, last, begin, end = lasting[:, : len(self._long)]
        parts = [np.array(taken, np.int64).reshape(-1, 2)]
        for one in group:
            met = np.flatnonzero((first <= one.last) & (last >= one.first))
            parts.append(np.stack([begin[met] - one.end, end[met] - one.offset], 1))
        spans = np.concatenate(parts)
        spans = spans[np.argsort(spans[:, 0], kind="stable")]
        reached = np.maximum.accumulate(np.append(0, spans[:, 1]))  # before each of them, and after the last one
        free = np.flatnonzero(reached[:-1] <= spans[:, 0])
        return int(reached[free[0] if free.size else -1])

    def _take_long(self, first: int, last: int, begin: int, end: int) -> None:
        self._long.append((first, last, begin, end))
        count, held = len(self._long), self._lasting
        if count <= FEW:
            return
        if held is None or count > held.shape[1]:
            self._lasting = held = np.empty((4, 2 * count), np.int64)
            held[:, :count] = np.array(self._long).T
        held[:, count - 1] = self._long[-1]


def liveness_peak(groups: Sequence[Group]) -> int:
    """The bytes that are live at the worst step: no placement for this order of operators can need fewer."""
    changes: Dict[int, int] = {}
    for one in chain.from_iterable(groups):
        changes[one.first] = changes.get(one.first, 0) + one.nbytes
        changes[one.last + 1] = changes.get(one.last + 1, 0) - one.nbytes
    live = peak = 0
    for step in sorted(changes):
        live += changes[step]
        peak = max(peak, live)
    return peak


def allocate(nbytes: int, what: str, shared: bool = False) -> Array:
    """An aligned block of bytes. The system provides its pages when they are first written.

    shared: with processes that are forked later. The block has no name; it is freed with the last array in it.
    ResourceError if the system has no block of that size left, for example in a 32-bit address space.
    """
    require_memory(nbytes, what)
    try:
        if shared:
            block = np.frombuffer(mmap.mmap(-1, nbytes + ALIGNMENT), np.uint8)
        else:
            block = np.empty(nbytes + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError, OSError) as error:
        raise ResourceError(f"{what} needs {nbytes:,} bytes: {error}") from None
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + nbytes]
