"""How much memory the machine has."""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Union

from runtime_arm.errors import ResourceError

SMALL = 1 << 20  # bytes that every machine has
MOST_IN_A_TRIAL = 1 << 28  # bytes that a trip of a loop may hand on, while a net is tried on drawn inputs

_trying: Dict[int, int] = {}  # how many trials a thread is in


def memory_limit() -> int:
    """The most bytes that one blob may take: the machine's memory, and never more than it can address."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        physical = sys.maxsize
    return min(physical, sys.maxsize)


def require_memory(nbytes: int, what: Union[str, Callable[[], str]]) -> None:
    """ResourceError if ``nbytes`` is more than the machine's memory; ``what`` names, or is asked for, what needs
    them."""
    if nbytes <= SMALL:
        return
    limit = memory_limit()
    if nbytes > limit:
        what = what if isinstance(what, str) else what()
        raise ResourceError(f"{what} needs {nbytes:,} bytes, more than the {limit:,} of this machine")


def portions(nbytes: Mapping[str, int], most: int) -> Iterator[List[str]]:
    """The names in their order, at a time as many as take at most so many bytes together, and at least one."""
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


@contextmanager
def trying() -> Iterator[None]:
    """Inside the block this thread tries nets on drawn inputs. How often a loop runs means nothing there, so that what
    grows with each trip must not take the machine's memory: see ``require_small_trip``. It decorates functions, too."""
    thread = get_ident()
    _trying[thread] = _trying.get(thread, 0) + 1
    try:
        yield
    finally:
        _trying[thread] -= 1
        if not _trying[thread]:
            del _trying[thread]


def require_small_trip(what: Callable[[], str], blobs: Sequence[Any]) -> None:
    """ResourceError if this thread tries a net, and what one trip of a loop hands on is more than a trial may take."""
    if not _trying or get_ident() not in _trying:
        return
    nbytes = sum(blob.nbytes for blob in blobs if hasattr(blob, "nbytes"))
    if nbytes > MOST_IN_A_TRIAL:
        most = f"{MOST_IN_A_TRIAL:,} of a trial on drawn inputs"
        raise ResourceError(f"a trip of {what()} hands on {nbytes:,} bytes, more than the {most}")
