"""A lower bound of the memory of a net, for every order of its operators and every placement of its blobs.

While an operator runs, memory holds what it reads and writes, and every blob that an operator before it wrote and an
operator after it reads. "Before" and "after" mean what the data flow alone demands. Bytes that blobs may share are
counted once: a view and its source, a result and the operand that it may overwrite, parts and their whole.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set

from runtime_arm.planning.arena import aligned
from runtime_arm.planning.memory_sharing import parts_of
from runtime_arm.planning.steps import Step, Value


def least_nbytes(steps: Sequence[Step], feeds: Sequence[Value]) -> int:
    """The bound for the arena, without scratch; values with a ``last`` after all steps are kept."""
    flow = _Flow(steps, feeds)
    return max(flow.together(flow.at_start), flow.together(flow.kept), *map(flow.needed_at, range(len(steps))), 0)


class _Piece(NamedTuple):
    """Content that ``origin`` holds from ``begin`` to ``end``: in bytes; for a blob in tiles, in bytes of channels."""

    origin: Value
    begin: int
    end: int

    def overlaps(self, other: _Piece) -> bool:
        return self.origin is other.origin and self.begin < other.end and other.begin < self.end


class _Flow:
    """Which step needs which value. A view stands for its source; constants take no part. Sets of steps are masks."""

    def __init__(self, steps: Sequence[Step], feeds: Sequence[Value]):
        self._steps = steps
        self._source: Dict[Value, Value] = {}
        self._contents: Dict[Value, List[_Piece]] = {}  # of parts and wholes, in the order in which they lie there
        self._neighbours: Dict[Value, Set[Value]] = defaultdict(set)  # part and whole, result and overwritten operand
        self._writer: Dict[Value, int] = dict.fromkeys(feeds, -1)
        self._readers: Dict[Value, int] = defaultdict(int)
        for place, step in enumerate(steps):
            self._add(place, step)
        self._cluster: Dict[
            Value, int
        ] = {}  # of values that may share memory with a part; all others have memory of their own
        for number, value in enumerate(self._contents):
            if value not in self._cluster:
                self._cluster.update(dict.fromkeys(_connected([value], self._neighbours), number))
        values = [*feeds, *(value for step in steps for value in step.outputs)]
        self.kept = self._memory(value for value in values if value.last >= len(steps))
        self.at_start = {value for value in feeds if self._readers[value] or value in self.kept}
        self._before = self._steps_before()
        self._behind = self._steps_behind()

    def _memory(self, values: Iterable[Optional[Value]]) -> Set[Value]:
        """The values that hold these values' memory in the arena."""
        sources = {self._source.get(value, value) for value in values if value is not None}
        return {source for source in sources if not source.foreign}

    def _add(self, place: int, step: Step) -> None:
        if step.schema.view and step.inputs[0] is not None:
            self._source[step.outputs[0]] = self._source.get(step.inputs[0], step.inputs[0])
        elif step.schema.splits is not None:
            self._split(step)
        elif step.schema.joins is not None:
            self._join(step)
        for value in self._memory(step.outputs):
            self._writer.setdefault(value, place)
        for value in self._memory(step.inputs):
            self._readers[value] |= 1 << place
        for index in step.schema.inplace:
            for result, operand in product(self._memory(step.outputs[index : index + 1]), self._operands(step, index)):
                self._relate(result, operand)

    def _relate(self, one: Value, other: Value) -> None:
        self._neighbours[one].add(other)
        self._neighbours[other].add(one)

    def _content(self, value: Value) -> List[_Piece]:
        return self._contents.setdefault(value, [_Piece(value, 0, _length(value))])

    def _split(self, step: Step) -> None:
        """Each part has its piece of what the whole holds."""
        for part, whole, offset in parts_of(step):
            source = self._source.get(whole, whole)
            if offset is not None and source.foreign:
                self._source[part] = source
            elif offset is not None:
                self._contents[part] = _cut(self._content(source), offset, offset + _length(part))
                self._relate(part, source)

    def _join(self, step: Step) -> None:
        """The whole holds what its parts hold, except those that cannot lie in it."""
        result = step.outputs[0]
        content: List[_Piece] = []
        end = 0
        for part, _, offset in parts_of(step):  # from the first byte on
            source = self._source.get(part, part)
            if offset is not None and not source.foreign:
                assert offset >= end
                content += [_Piece(result, end, offset), *self._content(source)]
                end = offset + _length(part)
                self._relate(source, result)
        self._contents[result] = [*content, _Piece(result, end, _length(result))]

    def _steps_before(self) -> List[int]:
        """For each step, the steps that must run before it."""
        before: List[int] = []
        for step in self._steps:
            writers = [self._writer[value] for value in self._memory(step.inputs)]
            before.append(_union(before[writer] | 1 << writer for writer in writers if writer >= 0))
        return before

    def _steps_behind(self) -> List[int]:
        """For each step, the steps that must run after it."""
        behind = [0] * len(self._steps)
        for place in reversed(range(len(self._steps))):
            for value in self._memory(self._steps[place].outputs):
                for reader in range(place + 1, len(self._steps)):
                    if self._readers[value] >> reader & 1:
                        behind[place] |= behind[reader] | 1 << reader
        return behind

    def needed_at(self, place: int) -> int:
        """Bytes that must be in memory while this step runs."""
        before, behind, step = self._before[place], self._behind[place], self._steps[place]
        read, written = self._memory(step.inputs), self._memory(step.outputs)
        passing = {
            value
            for value, writer in self._writer.items()
            if (writer < 0 or before >> writer & 1) and (self._readers[value] & behind or value in self.kept)
        }
        dying = read - passing
        for index in step.schema.inplace:
            dying.discard(next(iter(self._operands(step, index) & dying), None))
        return self.together(passing | dying | written)

    def _operands(self, step: Step, index: int) -> Set[Value]:
        """The operands that the output with this index may overwrite."""
        if index >= len(step.outputs):
            return set()
        candidates = [step.inputs[i] for i in step.schema.inplace[index] if i < len(step.inputs)]
        nbytes = step.outputs[index].spec.nbytes
        return {value for value in self._memory(candidates) if value.spec.nbytes == nbytes}

    def together(self, values: Set[Value]) -> int:
        """Bytes of values that are in memory at one time; of two that may share bytes, only the larger counts."""
        counted: List[Value] = []
        nbytes: Dict[object, int] = defaultdict(int)  # of what may lie side by side without being aligned
        for value in sorted(values, key=lambda value: (-value.spec.nbytes, value.first)):
            if value in self._contents:
                if any(self._may_overlap(value, other) for other in counted):
                    continue
                counted.append(value)
            nbytes[self._cluster.get(value, value)] += value.spec.nbytes
        return sum(map(aligned, nbytes.values()))

    def _may_overlap(self, one: Value, other: Value) -> bool:
        """Whether both hold the same content somewhere: values with different content share no bytes."""
        return any(mine.overlaps(piece) for mine in self._contents[one] for piece in self._contents[other])


def _length(value: Value) -> int:
    """The length of all pieces of a value."""
    return value.spec.nbytes if value.layout is None else value.spec.shape[1] * value.spec.dtype.itemsize


def _cut(content: Sequence[_Piece], begin: int, end: int) -> List[_Piece]:
    """The pieces in this range of a value with that content."""
    found: List[_Piece] = []
    at = 0
    for origin, first, last in content:
        low, high = max(begin - at, 0), min(end - at, last - first)
        if low < high:
            found.append(_Piece(origin, first + low, first + high))
        at += last - first
    return found


def _connected(values: Iterable[Value], neighbours: Mapping[Value, Set[Value]]) -> Set[Value]:
    """The values, their neighbours, and theirs."""
    found = set(values)
    waiting = list(found)
    while waiting:
        new = neighbours.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def _union(masks: Iterable[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result
