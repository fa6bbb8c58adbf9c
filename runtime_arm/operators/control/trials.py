"""Limits for nets while they are tried on random inputs."""

from __future__ import annotations

from _thread import get_ident
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Sequence

from runtime_arm.errors import ResourceError

MOST_IN_A_TRIAL = 1 << 28  # bytes that a trip of a loop may hand on

_trying: Dict[int, int] = {}  # how many trials a thread is in


@contextmanager
def trying() -> Iterator[None]:
    """Inside the block this thread tries nets on random inputs.

    The number of trips of a loop is arbitrary there, so blobs that grow with each trip must not fill the machine's
    memory: see ``require_small_trip``. It also decorates functions.
    """
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
