"""Offsets of blobs in one block of memory, from their lifetimes.

A lifetime is the closed range of steps [first, last] in which a blob must keep its content. Blobs whose lifetimes meet
must not overlap in memory. Finding the smallest arena is NP-hard (dynamic storage allocation). The bytes that are live
at the worst step are a lower bound, and nearly always reached: blobs are placed one by one at the lowest free offset,
in several orders, and those that stick out on top are tried first the next time. Where few blobs miss it, a search
(``runtime_arm.placement_search``) finds a better placement or proves that there is none.
"""

from __future__ import annotations

import mmap
from typing import Callable, List, NamedTuple, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ResourceError
from runtime_arm.netdef import Array
from runtime_arm.tensor import require_memory

MOST_ATTEMPTS = 6  # with each of the orders
MOST_SEARCHED = 64  # blobs among which a better placement is searched for
ALIGNMENT = 64  # bytes: a cache line, and the widest vector of any CPU NumPy knows


class Lifetime(NamedTuple):
    """Steps first..last (both included) during which ``nbytes`` are occupied."""

    first: int
    last: int
    nbytes: int


class Placement(NamedTuple):
    """Byte offsets, one a lifetime, the size of the arena, and a proved lower bound of it."""

    offsets: List[int]
    nbytes: int
    least_nbytes: int


_RANKS: Sequence[Callable[[Lifetime], Tuple[int, int]]] = (
    lambda one: (-one.nbytes, one.first),
    lambda one: (one.first - one.last, -one.nbytes),
    lambda one: ((one.first - one.last - 1) * one.nbytes, one.first),
    lambda one: (-one.last, -one.nbytes),
)


def aligned(nbytes: int) -> int:
    """``nbytes`` rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def place(lifetimes: Sequence[Lifetime]) -> Placement:
    """Where the blobs lie in an arena that is as small as can be had."""
    least = liveness_peak(lifetimes)
    best = _best_fit(lifetimes, least)
    if best.nbytes > least and len(lifetimes) <= MOST_SEARCHED:
        best = _searched(lifetimes, best)
    return best


def _best_fit(lifetimes: Sequence[Lifetime], least: int) -> Placement:
    best = Placement([], sum(aligned(one.nbytes) for one in lifetimes) + 1, least)
    for rank in _RANKS:
        order = sorted(range(len(lifetimes)), key=lambda i: rank(lifetimes[i]))
        for _ in range(MOST_ATTEMPTS):
            offsets, total = _first_fit(lifetimes, order)
            if total < best.nbytes:
                best = Placement(offsets, total, least)
            if total == least:
                return best
            highest = [i for i in order if offsets[i] + aligned(lifetimes[i].nbytes) == total]
            order = highest + [i for i in order if i not in highest]
    return best


def _searched(lifetimes: Sequence[Lifetime], best: Placement) -> Placement:
    """A better placement; or the same, with the proof that it is the best if the search came to its end."""
    from runtime_arm.placement_search import search

    blobs = [(first, last, aligned(nbytes)) for first, last, nbytes in lifetimes]
    offsets, complete = search(blobs, best.nbytes, best.least_nbytes)
    if offsets is not None:
        best = Placement(offsets, max(at + nbytes for at, (_, _, nbytes) in zip(offsets, blobs)), best.least_nbytes)
    return best._replace(least_nbytes=best.nbytes) if complete else best


def _first_fit(lifetimes: Sequence[Lifetime], order: Sequence[int]) -> Tuple[List[int], int]:
    """Place the blobs in this order, each at the lowest offset that is free during its lifetime."""
    offsets = [0] * len(lifetimes)
    placed: List[int] = []
    total = 0
    for index in order:
        one = lifetimes[index]
        size = aligned(one.nbytes)
        taken = sorted(
            (offsets[i], offsets[i] + aligned(lifetimes[i].nbytes))
            for i in placed
            if lifetimes[i].first <= one.last and one.first <= lifetimes[i].last
        )
        offset = 0
        for begin, end in taken:
            if offset + size <= begin:
                break
            offset = max(offset, end)
        offsets[index] = offset
        placed.append(index)
        total = max(total, offset + size)
    return offsets, total


def liveness_peak(lifetimes: Sequence[Lifetime]) -> int:
    """Bytes that are live at the worst step: no placement in this operator order can need fewer."""
    changes: dict[int, int] = {}
    for first, last, nbytes in lifetimes:
        changes[first] = changes.get(first, 0) + aligned(nbytes)
        changes[last + 1] = changes.get(last + 1, 0) - aligned(nbytes)
    live = peak = 0
    for step in sorted(changes):
        live += changes[step]
        peak = max(peak, live)
    return peak


def allocate(nbytes: int, what: str, shared: bool = False) -> Array:
    """An aligned block of bytes. Pages are taken from the system when they are first written.

    shared: with processes that are forked later. It has no name: it goes with the last array that lies in it.
    ResourceError where the system has no such block left, as where 32 bits address everything.
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
