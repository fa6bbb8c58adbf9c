"""Which version of a blob every operator reads and writes: a name that is written again stands for a new version."""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

from runtime_arm.netdef import OperatorDef

Version = Tuple[str, int]  # a blob's name, and how often it was overwritten before
OUTSIDE = -1  # the place of the operator that writes what comes from outside


class Step(NamedTuple):
    """An operator, and the versions that it reads and writes, by name."""

    op: OperatorDef
    reads: Mapping[str, int]
    writes: Mapping[str, int]


class Versions:
    """The versions of the blobs of a net.

    ``last``: the version that each blob has at the end. ``first_use``: the place of the first operator that reads a
    version. ``writer``: the place of the operator that writes it.
    """

    def __init__(self, ops: Sequence[OperatorDef]) -> None:
        self.steps: List[Step] = []
        self.last: Dict[str, int] = {}
        self.first_use: Dict[Version, int] = {}
        self._writers: Dict[Version, int] = {}
        for place, op in enumerate(ops):
            self._play(place, op)

    def _play(self, place: int, op: OperatorDef) -> None:
        reads = {name: self.last.setdefault(name, 0) for name in op.input if name}
        for version in reads.items():
            self.first_use.setdefault(version, place)
        writes = {}
        for name in op.output:
            if name:
                self.last[name] = self.last.get(name, -1) + 1
                writes[name] = self.last[name]
                self._writers[name, writes[name]] = place
        self.steps.append(Step(op, reads, writes))

    def writer(self, version: Version) -> int:
        """The place of the operator that writes a version; ``OUTSIDE`` if none does."""
        return self._writers.get(version, OUTSIDE)

    def is_read(self, name: str) -> bool:
        """Whether any operator reads any version of a blob."""
        return any(name in step.reads for step in self.steps)
