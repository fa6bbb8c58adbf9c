"""Says once what a stand-in cannot honour."""

from __future__ import annotations

import logging
from typing import Set

WARNING = 2  # onnxruntime's number for this severity
_said: Set[str] = set()
_severity = WARNING


def note(text: str, severity: int = -1) -> None:
    """Log a warning, once for each text, unless the severity that the program set, if any, is above warnings."""
    if text in _said or (severity if severity >= 0 else _severity) > WARNING:
        return
    _said.add(text)
    logging.getLogger("armnet.standins").warning("armnet's stand-in: %s", text)


def set_severity(severity: int) -> None:
    """The least severity that is logged where a call names none."""
    global _severity
    _severity = severity


class Standin:
    """A class of a stand-in: an attribute that is missing names itself and the package."""

    __slots__ = ()
    _package = ""

    def __getattr__(self, name: str) -> object:
        raise AttributeError(
            f"{type(self).__name__!r} object of armnet's stand-in for {self._package} has no attribute {name!r}"
        )
