"""How long a task will still take."""

from __future__ import annotations

import time


class Clock:
    """Judges by the pace so far. done: how much was done before it began."""

    def __init__(self, done: int = 0) -> None:
        self._start, self._before = time.monotonic(), done

    def left(self, done: int, total: int) -> str:
        """The time that is left, as people say it: ``12 s left``; nothing before anything is done."""
        if done <= self._before:
            return "beginning"
        seconds = (time.monotonic() - self._start) / (done - self._before) * (total - done)
        if seconds < 100:
            return f"{seconds:.0f} s left"
        return f"{seconds / 60:.0f} min left" if seconds < 6000 else f"{seconds / 3600:.1f} h left"
