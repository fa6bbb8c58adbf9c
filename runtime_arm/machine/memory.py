"""How much memory the machine has."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import Callable, Iterator, List, Mapping, Union

from runtime_arm.errors import ResourceError

SMALL = 1 << 20  # bytes that every machine has


def memory_limit() -> int:
    """The most bytes that one blob may take: the machine's memory, and never more than it can address."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        physical = sys.maxsize
    return min(physical, sys.maxsize)


def require_memory(nbytes: int, what: Union[str, Callable[[], str]]) -> None:
    """ResourceError if ``nbytes`` is more than the machine's memory; ``what`` is, or returns, the name of their
    purpose."""
    if nbytes <= SMALL:
        return
    limit = memory_limit()
    if nbytes > limit:
        what = what if isinstance(what, str) else what()
        raise ResourceError(f"{what} needs {nbytes:,} bytes, more than the {limit:,} of this machine")


def portions(nbytes: Mapping[str, int], most: int) -> Iterator[List[str]]:
    """The names in their order, in groups that take at most this many bytes together, or of a single name."""
    portion: List[str] = []
    taken = 0
    for name, size in nbytes.items():
        if portion and taken + size > most:
            yield portion
            portion, taken = [], 0
        portion.append(name)
        taken += size
    if portion:
        yield portion


@contextmanager
def memory_for(purpose: str) -> Iterator[None]:
    """Turns a MemoryError inside the block into a ResourceError of one line. It decorates functions, too."""
    try:
        yield
    except MemoryError as error:
        raise ResourceError(f"{purpose}: memory ran out: {error}".rstrip(": ")) from error
