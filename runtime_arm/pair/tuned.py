"""How a net runs, as ``tuning`` reads it from a tuning.json; most starts need only this part."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Dict, Mapping, Optional, Tuple

from runtime_arm.records import NamedTuple

TUNING = "tuning.json"
PROCESSES, THREADS = "processes", "threads"


class OnDevice(NamedTuple):
    """The operators that run on a device, by number, as measured; ``islands`` has the seconds of each candidate."""

    spec: str
    name: str
    driver: str
    operators: Tuple[int, ...]
    islands: Tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> Dict[str, Any]:
        """The object in tuning.json."""
        return {**self._asdict(), "operators": list(self.operators), "islands": [dict(one) for one in self.islands]}


class Tuned(NamedTuple):
    """How to run a net: the preferred engine of each operator, by its number; what splits the work; and which operators
    run on a device if one is used."""

    engines: Mapping[int, str] = MappingProxyType({})
    workers: str = PROCESSES
    device: Optional[OnDevice] = None


UNTUNED = Tuned()
