"""A lock that survives a fork."""

from __future__ import annotations

import os
from threading import Lock


class Turns:
    """A lock that is free in a process forked while it is held: the thread that holds it does not exist there."""

    def __init__(self) -> None:
        self._lock, self._process = Lock(), os.getpid()

    def __enter__(self) -> None:
        if self._process != os.getpid():
            self._lock, self._process = Lock(), os.getpid()
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()
