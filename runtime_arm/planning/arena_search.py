"""The smallest arena for a few blobs, by branch and bound.

If every blob of a placement is pushed down as far as possible, each is at 0 or on top of a blob whose lifetime
intersects its own. So it is enough to place the blobs in the order of their offsets, each on top of those already
placed. A branch ends when the remaining blobs cannot fit below the size of the best arena known.
"""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

MOST_NODES = 1000  # placements of single blobs that are tried; they take some 0.2 ms


def search(
    blobs: Sequence[Tuple[int, int, int]], below: int, least: int, most_nodes: int = MOST_NODES
) -> Tuple[Optional[List[int]], bool]:
    """Offsets of blobs (first step, last step, bytes) in an arena smaller than ``below``, or None if none was found.

    The second result says whether this is the best possible: ``least`` is reached, or everything was tried.
    """
    run = _Search(blobs, below, least, most_nodes)
    complete = run.place(0, -1)
    return run.best, complete


class _Search:
    def __init__(self, blobs: Sequence[Tuple[int, int, int]], below: int, least: int, nodes: int):
        times = sorted({time for first, last, _ in blobs for time in (first, last + 1)})
        slot = {time: number for number, time in enumerate(times)}
        self._spans = [(slot[first], slot[last + 1], nbytes) for first, last, nbytes in blobs]
        self._heights = [0] * len(times)  # of the placed blobs, in each slot of time
        self._missing = [0] * len(times)  # bytes that are not placed yet
        for begin, end, nbytes in self._spans:
            for time in range(begin, end):
                self._missing[time] += nbytes
        self._offsets = [0] * len(blobs)
        self._left = {i for i, span in enumerate(self._spans) if span[2]}
        self._below, self._least, self._nodes = below, least, nodes
        self.best: Optional[List[int]] = None

    def place(self, floor: int, last: int) -> bool:
        """Place the remaining blobs at ``floor`` or above; at ``floor`` itself only blobs with a number above ``last``.

        False if the search was stopped before everything was tried.
        """
        if not self._left:
            self.best, self._below = list(self._offsets), max(self._heights)
            return True
        places = sorted((max(self._heights[begin:end]), i) for i, (begin, end, _) in self._choices())
        for offset, i in places:
            if (offset, i) > (floor, last) and self._fits(offset):
                self._nodes -= 1
                if self._nodes < 0 or not self._descend(i, offset):
                    return False
                if self._below <= self._least:
                    return True
        return True

    def _choices(self) -> List[Tuple[int, Tuple[int, int, int]]]:
        return [(i, self._spans[i]) for i in self._left]

    def _fits(self, floor: int) -> bool:
        """Whether the remaining blobs could still be at ``floor`` or above and end below the best arena known."""
        return all(
            not missing or max(height, floor) + missing < self._below
            for height, missing in zip(self._heights, self._missing)
        )

    def _descend(self, i: int, offset: int) -> bool:
        begin, end, nbytes = self._spans[i]
        before = self._heights[begin:end]
        self._left.remove(i)
        self._offsets[i] = offset
        self._heights[begin:end] = [offset + nbytes] * (end - begin)
        self._missing[begin:end] = [missing - nbytes for missing in self._missing[begin:end]]
        try:
            return max(self._heights) >= self._below or self.place(offset, i)
        finally:
            self._left.add(i)
            self._heights[begin:end] = before
            self._missing[begin:end] = [missing + nbytes for missing in self._missing[begin:end]]
