"""A cache of limited size, in memory, for values that were read or computed."""

from __future__ import annotations

from typing import Callable, Dict, Generic, TypeVar

T = TypeVar("T")
MOST = 256 << 20  # bytes


class MemoryCache(Generic[T]):
    """Values by number, at most MOST bytes in all; the others are made again each time.

    ``nbytes``: the size of a value.
    """

    def __init__(self, nbytes: Callable[[T], int]):
        self._size, self._nbytes = nbytes, 0
        self._values: Dict[int, T] = {}

    def get(self, number: int, make: Callable[[], T]) -> T:
        """The value of this number; it is made if it is not kept."""
        if number in self._values:
            return self._values[number]
        value = make()
        nbytes = self._size(value)
        if self._nbytes + nbytes <= MOST:
            self._values[number] = value
            self._nbytes += nbytes
        return value
