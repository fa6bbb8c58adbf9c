"""How a net runs, as ``tuning`` finds out where there is a tuning.json; most starts need no more of it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Mapping, Optional

from runtime_arm.records import NamedTuple

if TYPE_CHECKING:
    from runtime_arm.pair.tuning import OnDevice

TUNING = "tuning.json"
PROCESSES, THREADS = "processes", "threads"


class Tuned(NamedTuple):
    """How to run a net: the preferred engine of each operator, by its number, what splits the work, and what runs on a
    device if one is asked for."""

    engines: Mapping[int, str] = MappingProxyType({})
    workers: str = PROCESSES
    device: Optional[OnDevice] = None


UNTUNED = Tuned()
