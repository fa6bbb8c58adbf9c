"""The order of equal numbers after a sort by GCC's C++ library, with which Caffe2 is built.

``std::sort`` is quicksort with the median of three as pivot, heap sort for parts that take too long, and finally
insertion sort. ``std::partial_sort`` is heap sort. Source: GCC's bits/stl_algo.h and bits/stl_heap.h. If all numbers
differ, NumPy sorts.
"""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array

_SMALL = 16  # parts of that length or less are left to the insertion sort, which keeps the order of equal numbers


def best_first(scores: Array, limit: int = 0) -> Array:
    """Indices that sort the scores in descending order, the first ``limit`` alone if that is positive and less."""
    count = len(scores)
    whole = not 0 < limit < count
    order = np.argsort(-scores, kind="stable")
    descending = scores[order]
    if (whole and count <= _SMALL) or np.isnan(descending).any() or not (descending[1:] == descending[:-1]).any():
        return order if whole else order[:limit]
    sort = _Sort(scores)
    if not whole:
        sort.heap_sort(0, limit, count)
        return np.array(sort.places[:limit])
    sort.quicksort(0, count, 2 * (count.bit_length() - 1))
    nearly = np.array(sort.places)
    return nearly[np.argsort(-scores[nearly], kind="stable")]


class _Sort:
    """Places in the order in which the sorting leaves them; ``values[place]`` are sorted in descending order."""

    def __init__(self, scores: Array) -> None:
        self.values: List[Any] = scores.tolist()
        self.places = list(range(len(scores)))

    def quicksort(self, first: int, last: int, depth: int) -> None:
        """Sorts all but parts of few places, which hold the right numbers in any order."""
        while last - first > _SMALL:
            if not depth:
                return self.heap_sort(first, last, last)
            depth -= 1
            cut = self._partition(first, last)
            self.quicksort(cut, last, depth)
            last = cut

    def _partition(self, first: int, last: int) -> int:
        """Moves the items before the pivot to the front; the first place after them."""
        values, places = self.values, self.places
        candidates = (first + 1, first + (last - first) // 2, last - 1)
        pivot_at = sorted(candidates, key=lambda at: values[places[at]])[1]
        places[first], places[pivot_at] = places[pivot_at], places[first]
        pivot, low, high = values[places[first]], first + 1, last
        while True:
            while values[places[low]] > pivot:
                low += 1
            high -= 1
            while pivot > values[places[high]]:
                high -= 1
            if low >= high:
                return low
            places[low], places[high] = places[high], places[low]
            low += 1

    def heap_sort(self, first: int, middle: int, last: int) -> None:
        """Brings the best of all to the places before ``middle``, sorted."""
        values, places = self.values, self.places
        for at in reversed(range((middle - first) // 2)):
            self._sink(first, at, middle - first, places[first + at])
        for at in range(middle, last):
            if values[places[at]] > values[places[first]]:
                self._pop(first, middle, at)
        for end in range(middle - 1, first, -1):
            self._pop(first, end, end)

    def _pop(self, first: int, middle: int, at: int) -> None:
        """Swaps the worst of the heap with the item at a place after it."""
        place, self.places[at] = self.places[at], self.places[first]
        self._sink(first, 0, middle - first, place)

    def _sink(self, first: int, top: int, count: int, place: int) -> None:
        """Fills the hole ``top`` of a heap with a place: the hole goes all the way down, and then up as far as due."""
        values, places = self.values, self.places
        hole = top
        while 2 * hole + 2 < count:
            child = 2 * hole + 2
            child -= values[places[first + child]] > values[places[first + child - 1]]
            places[first + hole] = places[first + child]
            hole = child
        if 2 * hole + 2 == count:
            places[first + hole] = places[first + 2 * hole + 1]
            hole = 2 * hole + 1
        while hole > top and values[places[first + (hole - 1) // 2]] > values[place]:
            places[first + hole] = places[first + (hole - 1) // 2]
            hole = (hole - 1) // 2
        places[first + hole] = place
