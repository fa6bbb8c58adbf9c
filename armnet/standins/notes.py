"""What stand-ins log: once, what they cannot honour; and what they do, for those who ask for details."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any, Callable, Optional, Set

VERBOSE, WARNING = 0, 2  # onnxruntime's numbers
_said: Set[str] = set()
_severity = WARNING
_callback: Optional[Callable[..., Any]] = None


def note(text: str, severity: int = -1) -> None:
    """Log a warning, once for each text, unless the severity that the program set, if any, is above warnings."""
    if text not in _said and (severity if severity >= 0 else _severity) <= WARNING:
        _said.add(text)
        _log(WARNING, text)


def detail(text: str, severity: int = -1) -> None:
    """Log what was done, if the program asked for everything."""
    if (severity if severity >= 0 else _severity) == VERBOSE:
        _log(VERBOSE, text)


def say(text: str) -> None:
    """Tell those who listen to the log what goes on."""
    logging.getLogger("armnet.standins").info("%s", text)


def set_severity(severity: int) -> None:
    """The least severity that is logged where a call names none."""
    global _severity
    _severity = severity


def set_callback(callback: Optional[Callable[..., Any]]) -> None:
    """Whom to tell instead of Python's logging: ``callback(severity, category, logid, code_location, message)``."""
    global _callback
    _callback = callback


def _log(severity: int, text: str) -> None:
    if _callback is None:
        level = logging.WARNING if severity == WARNING else logging.DEBUG
        logging.getLogger("armnet.standins").log(level, "armnet's stand-in: %s", text)
        return
    with suppress(Exception):  # a callback may not stop the program that it listens to
        _callback(severity, "armnet", "", "", text)


class Standin:
    """A class of a stand-in: an attribute that is missing names itself and the package."""

    __slots__ = ()
    _package = ""

    def __getattr__(self, name: str) -> object:
        raise AttributeError(
            f"{type(self).__name__!r} object of armnet's stand-in for {self._package} has no attribute {name!r}"
        )
