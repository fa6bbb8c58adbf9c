"""``caffe2.python.scope``: what names begin with, in each thread for itself."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Iterator

_present = threading.local()


def CurrentNameScope() -> str:
    """What names begin with; empty outside of all scopes."""
    return str(getattr(_present, "names", ""))


@contextmanager
def NameScope(prefix: str, reset: bool = False) -> Iterator[None]:
    """Inside the block, names begin with ``prefix/``, after what they begin with outside unless ``reset``."""
    if not isinstance(prefix, str):
        raise AssertionError(f"NameScope takes a text, got {prefix!r}")
    before = CurrentNameScope()
    _present.names = f"{'' if reset else before}{prefix}/"
    try:
        yield
    finally:
        _present.names = before
