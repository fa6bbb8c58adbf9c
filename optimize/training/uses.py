"""Who reads what a net writes, where names may be written several times."""

from __future__ import annotations

from typing import Dict, Iterable, List, Optional, Sequence

from optimize.gradients.versions import Version, Versions
from runtime_arm.netdef import OperatorDef


class Uses:
    """The places of the operators that read each version of a blob. ``keep``: names whose last content is wanted."""

    def __init__(self, ops: Sequence[OperatorDef], keep: Iterable[str]) -> None:
        self._versions = Versions(ops)
        self._keep = set(keep)
        self._readers: Dict[Version, List[int]] = {}
        for place, step in enumerate(self._versions.steps):
            for version in step.reads.items():
                self._readers.setdefault(version, []).append(place)

    def read(self, place: int, index: int) -> Version:
        """The version that an operator reads as this input."""
        step = self._versions.steps[place]
        name = step.op.input[index]
        return name, step.reads[name]

    def made(self, place: int, index: int = 0) -> Version:
        """The version that an operator writes as this output."""
        step = self._versions.steps[place]
        name = step.op.output[index]
        return name, step.writes[name]

    def readers(self, version: Version) -> List[int]:
        """The places of the operators that read a version."""
        return self._readers.get(version, [])

    def is_kept(self, version: Version) -> bool:
        """Whether the version is wanted after the net has run."""
        return version[0] in self._keep and self._versions.last[version[0]] == version[1]

    def only_reader(self, version: Version) -> Optional[int]:
        """The place of the only operator that reads a version, if nobody wants the version afterwards; else None."""
        readers = self.readers(version)
        return readers[0] if len(readers) == 1 and not self.is_kept(version) else None

    def are_current(self, versions: Iterable[Version], since: int, until: int, except_: Iterable[int] = ()) -> bool:
        """Whether no operator between two places, these not included, writes the names of the versions."""
        names, left_out = {name for name, _ in versions}, set(except_)
        between = (step for at, step in enumerate(self._versions.steps) if since < at < until and at not in left_out)
        return not any(names & set(step.writes) for step in between)

    def are_untouched(self, names: Iterable[str], since: int, until: int) -> bool:
        """Whether no operator between two places, these not included, reads or writes the names."""
        wanted = set(names)
        return not any(wanted & {*step.reads, *step.writes} for step in self._versions.steps[since + 1 : until])
