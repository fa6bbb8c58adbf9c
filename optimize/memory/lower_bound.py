"""How much memory a net needs at least, in whatever order its operators run and wherever its blobs lie.

While an operator runs, what it reads and writes is there, and so is every blob that is computed from what comes before
it, for somebody who comes behind it. "Before" and "behind" are what the flow of data alone demands. Of that, bytes that
may be the same are counted once: a view and its source, a result and the operand that it may overwrite, parts and their
whole.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Set

from runtime_arm.planning.arena import aligned
from runtime_arm.planning.trace import Step, Value


def least_nbytes(steps: Sequence[Step], feeds: Sequence[Value]) -> int:
    """Of the arena, without scratch; values with a ``last`` behind all steps are kept."""
    flow = _Flow(steps, feeds)
    return max(flow.together(flow.at_start), flow.together(flow.kept), *map(flow.needed_at, range(len(steps))), 0)


class _Flow:
    """Which step needs which value. A view stands for its source; constants take no part. Sets of steps are masks."""

    def __init__(self, steps: Sequence[Step], feeds: Sequence[Value]):
        self._steps = steps
        self._source: Dict[Value, Value] = {}
        self._wholes: Dict[Value, Dict[int, Value]] = defaultdict(dict)  # of a part, by the step that joins or splits
        self._overwriting: Dict[Value, Set[Value]] = defaultdict(set)  # who overwrites whom, both ways
        self._writer: Dict[Value, int] = dict.fromkeys(feeds, -1)
        self._readers: Dict[Value, int] = defaultdict(int)
        for place, step in enumerate(steps):
            self._add(place, step)
        self._above = {part: set(wholes.values()) for part, wholes in self._wholes.items()}
        self._unaligned = _connected(self._wholes, self._overwriting)
        values = [*feeds, *(value for step in steps for value in step.outputs)]
        self.kept = self._memory(value for value in values if value.last >= len(steps))
        self.at_start = {value for value in feeds if self._readers[value] or value in self.kept}
        self._before = self._steps_before()
        self._behind = self._steps_behind()

    def _memory(self, values: Iterable[Optional[Value]]) -> Set[Value]:
        """Whose memory these values need."""
        return {self._source.get(value, value) for value in values if value is not None and not value.foreign}

    def _add(self, place: int, step: Step) -> None:
        given = self._memory(step.inputs)
        if step.schema.view:
            for source in given:
                self._source[step.outputs[0]] = source
        for value in self._memory(step.outputs):
            self._writer.setdefault(value, place)
        for value in given:
            self._readers[value] |= 1 << place
        for index in step.schema.inplace:
            for result, operand in product(self._memory(step.outputs[index : index + 1]), self._operands(step, index)):
                self._overwriting[result].add(operand)
                self._overwriting[operand].add(result)
        if step.schema.joins is not None:
            for part in given:
                self._wholes[part][place] = step.outputs[0]
        if step.schema.splits is not None:
            for part in step.outputs:
                self._wholes[part].update((place, whole) for whole in given)

    def _steps_before(self) -> List[int]:
        """For each step, those that it cannot do without."""
        before: List[int] = []
        for step in self._steps:
            writers = [self._writer[value] for value in self._memory(step.inputs)]
            before.append(_union(before[writer] | 1 << writer for writer in writers if writer >= 0))
        return before

    def _steps_behind(self) -> List[int]:
        """For each step, those that cannot do without it."""
        behind = [0] * len(self._steps)
        for place in reversed(range(len(self._steps))):
            for value in self._memory(self._steps[place].outputs):
                for reader in range(place + 1, len(self._steps)):
                    if self._readers[value] >> reader & 1:
                        behind[place] |= behind[reader] | 1 << reader
        return behind

    def needed_at(self, place: int) -> int:
        """Bytes that are there while this step runs."""
        before, behind, step = self._before[place], self._behind[place], self._steps[place]
        read, written = self._memory(step.inputs), self._memory(step.outputs)
        passing = {
            value
            for value, writer in self._writer.items()
            if (writer < 0 or before >> writer & 1) and (self._readers[value] & behind or value in self.kept)
        }
        dying, overwritten = read - passing, 0
        for index in step.schema.inplace:
            taken = next(iter(self._operands(step, index) & dying), None)
            if taken is not None:
                overwritten += aligned(taken.spec.nbytes)
                dying.remove(taken)
        return self.together(passing | read | written) - overwritten

    def _operands(self, step: Step, index: int) -> Set[Value]:
        """Those that the output of this index may overwrite."""
        if index >= len(step.outputs):
            return set()
        candidates = [step.inputs[i] for i in step.schema.inplace[index] if i < len(step.inputs)]
        nbytes = step.outputs[index].spec.nbytes
        return {value for value in self._memory(candidates) if value.spec.nbytes == nbytes}

    def together(self, values: Set[Value]) -> int:
        """Bytes of values that are there at one time; of parts that could lie in one whole, and of it, the larger."""
        return sum(map(self._shared, self._related(values)))

    def _related(self, values: Set[Value]) -> List[Set[Value]]:
        """The values in groups: parts and wholes that have to do with each other, and parts of those."""
        groups: List[Set[Value]] = []
        for value in values:
            near = self._around(value)
            touched = [group for group in groups if not near.isdisjoint(group)]
            groups = [group for group in groups if near.isdisjoint(group)] + [near.union(*touched)]
        return [group & values for group in groups]

    def _around(self, value: Value) -> Set[Value]:
        """The value, its wholes, and theirs."""
        return _connected([value], self._above)

    def _shared(self, group: Set[Value]) -> int:
        """Bytes of one group: of its largest member, or of those members that one step joins or makes by splitting."""
        if len(group) == 1:
            (value,) = group
            return value.spec.nbytes if value in self._unaligned else aligned(value.spec.nbytes)
        together: Dict[int, int] = defaultdict(int)
        for value in group:
            for place in self._wholes.get(value, {}):
                together[place] += value.spec.nbytes
        return max(*together.values(), *(value.spec.nbytes for value in group))


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
