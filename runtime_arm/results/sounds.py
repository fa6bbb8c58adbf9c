"""SoundEvents: what is heard, and when."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.results.result import Result, called


@dataclass(frozen=True)
class SoundEvent:
    """One event: its label (None without labels), its number, its start and end in seconds, its highest score."""

    label: Optional[str]
    index: int
    start: float
    end: float
    score: float


class SoundEvents(Result):
    """What is heard in a sound, a sequence of ``SoundEvent`` in time.

    scores: (windows, classes), the net's scores for each window; step: seconds from one window to the next.
    """

    kind = "sound events"

    def __init__(self, events: Sequence[SoundEvent], scores: Array, step: float):
        self.events = tuple(events)
        self.scores = scores
        self.step = step

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[SoundEvent]:
        return iter(self.events)

    def __getitem__(self, place: int) -> SoundEvent:
        return self.events[place]

    def to_dict(self) -> Dict[str, Any]:
        return {"kind": self.kind, "seconds": len(self.scores) * self.step, "events": [asdict(e) for e in self]}

    def lines(self) -> List[str]:
        told = [f"{e.score:10.6g}  {called(e.label, e.index)} from {e.start:.2f} s to {e.end:.2f} s" for e in self]
        return told or [f"nothing heard in {len(self.scores) * self.step:.2f} s"]


def runs_of(active: Array) -> List[range]:
    """The runs of consecutive windows in which a flag (windows,) is set."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], active.astype(np.int8), [0]])))
    return [range(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2])]
