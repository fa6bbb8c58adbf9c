"""Outputs of one run that are inputs of the next, and stay in the plan's memory: key/value caches."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Tuple

from runtime_arm.errors import FeedError
from runtime_arm.netdef import Array
from runtime_arm.planning.plan import Segment
from runtime_arm.planning.steps import Value


class Carried:
    """What the last run left for the next one: by input, the value of the output and the segment that has it."""

    def __init__(self) -> None:
        self._left: Dict[str, Tuple[Segment, Value]] = {}
        self._in_place: Dict[str, Tuple[Array, Array]] = {}  # by input: its memory, and an output that is there

    def missing(self, carry: Mapping[str, str], feeds: Mapping[str, Any]) -> List[str]:
        """The carried inputs that are not fed. FeedError if the run before left nothing for one of them."""
        names = [name for name in carry if name not in feeds]
        for name in names:
            if name not in self._left:
                raise FeedError(f"input {name!r} was not given, and no earlier run carried it")
        return names

    def arrays(self, names: Iterable[str]) -> Dict[str, Array]:
        """The arrays of these inputs, where the last run left them."""
        return {name: self._left[name][1].array for name in names}

    def placed(
        self, names: Iterable[str], first: Segment, segments: Iterable[Segment], in_place: bool
    ) -> Dict[str, Array]:
        """What to feed to ``first`` for these inputs.

        The input's own memory, if what was left is there: then nothing is copied. A copy, if it is elsewhere in the
        memory of ``segments``, which the next run uses. Otherwise, what was left.
        """
        wanted = {value.name: value for value in first.feeds}
        used = list(segments)
        found = {}
        for name in names:
            segment, value = self._left[name]
            target = wanted[name].array if name in wanted else None
            if in_place and target is not None and self._lies_in(name, target, value.array):
                found[name] = target
            else:
                found[name] = value.array.copy() if segment in used else value.array
        return found

    def _lies_in(self, name: str, target: Array, left: Array) -> bool:
        """Whether both are the same memory. The answer is kept, because asking takes microseconds in each run."""
        known = self._in_place.get(name)
        if known is not None and known[0] is target and known[1] is left:
            return True
        if _same_memory(target, left):
            self._in_place[name] = target, left
            return True
        return False

    def leave(self, carry: Mapping[str, str], segment: Segment, values: Mapping[str, Value]) -> None:
        """Note where the run left the carried outputs."""
        self._left = {name: (segment, values[output]) for name, output in carry.items()}

    def left(self) -> Dict[str, Array]:
        """The carried inputs, where the last run left them; the next run overwrites these arrays."""
        return {name: value.array for name, (_, value) in self._left.items()}

    def forget(self) -> None:
        """Forget the last run."""
        self._left, self._in_place = {}, {}


def _same_memory(one: Array, other: Array) -> bool:
    alike = one.shape == other.shape and one.dtype == other.dtype
    return bool(alike and one.ctypes.data == other.ctypes.data)
