"""Which operators of a net read, write and mention which blobs, kept up to date when operators are replaced."""

from __future__ import annotations

from functools import cached_property
from typing import Dict, List, Mapping, Sequence, Tuple

from optimize.rewriting.single_assignment import names_held, names_mentioned
from runtime_arm.netdef import NetDef, OperatorDef

Serials = Tuple[int, ...]


class Index:
    """The index of one net. Immutable; ``changed`` gives the index of a changed net and looks only at what changed.

    Internally, operators have serial numbers, which stay the same when their places in the net change.
    """

    def __init__(self, net: NetDef):
        self._serials = list(range(len(net.op)))
        self._writers: Dict[str, Serials] = {}
        self._readers: Dict[str, Serials] = {}
        self._mentions: Dict[str, int] = {}  # how many operators mention a blob
        self._holders: Dict[str, int] = {}  # and how many hold it by name, see ``names_held``
        for serial, op in enumerate(net.op):
            self._count(serial, op, 1)

    def changed(self, before: NetDef, gone: Sequence[int], after: NetDef, new: Sequence[int]) -> Index:
        """The index of ``after``: ``before`` without the operators at the places ``gone``, with those at ``new``."""
        result = object.__new__(Index)
        result._serials = self._serials.copy()
        result._writers, result._readers = self._writers.copy(), self._readers.copy()
        result._mentions, result._holders = self._mentions.copy(), self._holders.copy()
        free = 1 + max(self._serials, default=-1)
        for place in reversed(gone):
            result._count(result._serials.pop(place), before.op[place], -1)
        for serial, place in enumerate(new, free):
            result._serials.insert(place, serial)
            result._count(serial, after.op[place], 1)
        return result

    def _count(self, serial: int, op: OperatorDef, change: int) -> None:
        read, written, held = {*op.reads(), *op.control_input}, set(filter(None, op.output)), names_held(op)
        for users, names in ((self._readers, read), (self._writers, written)):
            for name in names:
                others = tuple(other for other in users.get(name, ()) if other != serial)
                users[name] = (*others, serial) if change > 0 else others
        for counts, mentioned in ((self._mentions, names_mentioned(op)), (self._holders, held)):
            for name in mentioned:
                counts[name] = counts.get(name, 0) + change

    @cached_property
    def _places(self) -> Mapping[int, int]:
        return {serial: place for place, serial in enumerate(self._serials)}

    def writes(self, name: str) -> int:
        """How many operators write the blob."""
        return len(self._writers.get(name, ()))

    def writers(self, name: str) -> List[int]:
        """The places of the operators that write the blob."""
        return self._sorted(self._writers.get(name, ()))

    def readers(self, name: str) -> List[int]:
        """The places of the operators that read the blob, in sub-nets too, or wait for it."""
        return self._sorted(self._readers.get(name, ()))

    def _sorted(self, serials: Serials) -> List[int]:
        places = [self._places[serial] for serial in serials]
        places.sort()
        return places

    def mentions(self, name: str) -> bool:
        """Whether some operator or a net inside it knows the name."""
        return self._mentions.get(name, 0) > 0

    def holds(self, name: str) -> bool:
        """Whether some operator knows the blob by name beyond its inputs (see ``names_held``)."""
        return self._holders.get(name, 0) > 0
