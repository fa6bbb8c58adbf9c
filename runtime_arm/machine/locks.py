"""A lock that survives a fork."""

from __future__ import annotations

import os
from threading import Lock
from weakref import WeakSet


class Turns:
    """``lock`` is free in a process forked while it is held: the thread that holds it does not exist there.

    A lock as an attribute is entered in a fifth of the time that a class with methods of its own takes.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        _all.add(self)


_all: WeakSet[Turns] = WeakSet()


def _renew() -> None:
    """In a newly forked process."""
    for turns in list(_all):
        turns.lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
