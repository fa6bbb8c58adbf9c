"""Plans a segment's arena: which values share memory, and where every value is.

Values share memory in four ways. A view uses its source's memory. A result overwrites an operand that is not read
later, if the schema allows it. The parts of a blob that is split stay in the whole. The parts of a blob that is joined
are written directly into the whole. The last two save copies. They are used if the parts are contiguous in the whole,
or are channel slices of its tiles that the kernels can write and read; if nothing is overwritten that is still read;
and if the peak of live bytes does not grow. If this does not hold for all parts of a joined blob, the others are
copied. Bytes of a whole that none of its parts needs at some step are free for other values then, but not the bytes
between slices.
"""

from __future__ import annotations

from functools import partial
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from runtime_arm.planning.arena import ALIGNMENT, Group, Lifetime, Placement, group, liveness_peak, place
from runtime_arm.planning.steps import Step, Value
from runtime_arm.records import NamedTuple
from runtime_arm.registry.layouts import Tiles

PRICE_OF_COPIES = 1.01


class Place(NamedTuple):
    """The place of a value without memory of its own: in the memory of ``root``, from byte ``offset`` on.

    It is contiguous, with one exception: a value in tiles is a channel slice if the root's tiles have more channels.
    """

    root: Value
    offset: int


class Decisions(NamedTuple):
    """The order in which ways to share memory were tried, and which changes that may raise the peak were kept."""

    ways: Sequence[str]
    kept: Sequence[bool]


class MemoryPlan(NamedTuple):
    """Where every value and every buffer lies.

    within: the place of each value without memory of its own. offsets: where the memory of each other value begins in
    the arena. groups: which bytes of that memory are in use, and when. scratch: where the buffers of each step begin.
    elided: the steps with nothing left to do. liveness_peak_nbytes: the bytes that are live at the worst step.
    least_nbytes: a lower bound of any arena for this order of steps and this sharing, at least liveness_peak_nbytes.
    decisions: those that led to it.
    """

    within: Dict[Value, Place]
    groups: Dict[Value, Group]
    offsets: Dict[Value, int]
    scratch: Dict[Step, List[int]]
    elided: Set[Step]
    nbytes: int
    liveness_peak_nbytes: int
    least_nbytes: int
    decisions: Decisions


def plan_memory(steps: Sequence[Step], feeds: Sequence[Value]) -> MemoryPlan:
    """The best of three plans for the values that are fed before the first step and those that the steps write.

    If no step joins or splits, there is only one plan. The smallest plan is the best; the size of a plan that copies
    more than necessary is multiplied by ``PRICE_OF_COPIES``.
    """
    if not any(step.schema.joins is not None or step.schema.splits is not None for step in steps):
        return _placed(_shared(steps, feeds, ("in_place",)), steps)
    tries = (("in_place", "parts"), ("parts", "in_place"), ("in_place",))
    sharings = sorted((_shared(steps, feeds, ways) for ways in tries), key=Sharing.cost)
    least_copied = min(sharing.copied_nbytes() for sharing in sharings)
    best, size = None, float("inf")
    for at, sharing in enumerate(sharings):
        if any(sharing.within == other.within for other in sharings[:at]):
            continue
        price = 1.0 if sharing.copied_nbytes() == least_copied else PRICE_OF_COPIES
        if sharing.peak() * price < size:
            layout = _placed(sharing, steps)
            best, size = min((best, size), (layout, layout.nbytes * price), key=lambda one: one[1])
    assert best is not None
    return best


def plan_memory_again(
    steps: Sequence[Step], feeds: Sequence[Value], decisions: Decisions, place: Callable[..., Placement] = place
) -> MemoryPlan:
    """The plan by decisions that were made for the same steps and blobs of other sizes; it takes a fifth of the time.

    Memory that cannot be shared with these sizes is not shared. place: makes the placement of the groups.
    """
    return _placed(_shared(steps, feeds, decisions.ways, decisions.kept), steps, place)


def _shared(
    steps: Sequence[Step], feeds: Sequence[Value], ways: Sequence[str], known: Optional[Sequence[bool]] = None
) -> Sharing:
    """Let results overwrite operands, and put parts into their wholes, in the order of ``ways``."""
    sharing = Sharing(steps, feeds, ways, known)
    sharing.share_views()
    for way in ways:
        if way == "in_place":
            sharing.share_in_place()
        else:
            sharing.elide_copies()
    return sharing


def _placed(sharing: Sharing, steps: Sequence[Step], place: Callable[..., Placement] = place) -> MemoryPlan:
    roots, groups = sharing.roots(), sharing.groups()
    offsets, nbytes, least = place(groups)
    rest = iter(offsets[len(roots) :])
    scratch = {step: [next(rest) for _ in step.scratch] for step in steps}
    taken, begins = dict(zip(roots, groups)), dict(zip(roots, offsets))
    decisions = Decisions(sharing.ways, sharing.kept)
    return MemoryPlan(
        sharing.within, taken, begins, scratch, sharing.elided, nbytes, liveness_peak(groups), least, decisions
    )


class _Memory(NamedTuple):
    """The memory of one value: in use up to step ``last``, written at the steps ``writes``."""

    last: int
    writes: frozenset[int]

    def joined(self, other: _Memory) -> _Memory:
        return _Memory(max(self.last, other.last), self.writes | other.writes)

    def written_after(self, at: int) -> List[int]:
        return sorted(step for step in self.writes if step > at)


class Part(NamedTuple):
    """A part of a whole, and the byte of the whole at which it begins; None if it cannot be there."""

    value: Value
    whole: Value
    offset: Optional[int]


class Sharing:
    """Which values use the memory of another one; initially each has its own.

    kept: for each change that may raise the peak, whether it was kept. known: the same from an earlier plan, to be
    repeated.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        feeds: Sequence[Value],
        ways: Sequence[str] = (),
        known: Optional[Sequence[bool]] = None,
    ):
        self._steps, self.ways = steps, ways
        self.kept: List[bool] = []
        self._known = None if known is None else iter(known)
        self._values = [*feeds, *(value for step in steps for value in step.outputs)]
        self.within: Dict[Value, Place] = {}
        self._sliceable = _sliceable(steps)
        self._parts = {step: parts_of(step) for step in steps}
        self._peak = 0  # no elision may raise it
        self._owners: Set[Value] = set()  # values whose memory others use, or once used
        self.elided: Set[Step] = set()
        scratch = [Lifetime(at, at, spec.nbytes) for at, step in enumerate(steps) for spec in step.scratch]
        self._scratch = [group([one]) for one in scratch]
        self._groups: Dict[Value, Group] = {}  # of roots; discarded when a slice moves in
        self._live = np.zeros(len(steps) + 3, np.int64)  # by step, from the feeds' on: how many bytes more are live
        self._counted: Dict[Value, Group] = {}  # the groups that are counted in ``_live``
        self._moved = set(self._values)  # values whose group may have changed since they were counted
        for one in self._scratch:
            self._count(one, 1)
        read = (value for step in steps for value in step.inputs if value is not None)
        self._memory = {value: _Memory(value.last, frozenset()) for value in read}
        for value in self._values:
            self._memory[value] = _Memory(value.last, frozenset([value.first]))

    def place(self, value: Value) -> Place:
        """The place of this value, possibly in its own memory."""
        return self.within.get(value, Place(value, 0))

    def root(self, value: Value) -> Value:
        """The value whose memory this one uses."""
        return self.place(value).root

    def roots(self) -> List[Value]:
        """The values that need memory in the arena."""
        return [value for value in self._values if value not in self.within]

    def groups(self) -> List[Group]:
        """The bytes that each of the ``roots`` occupies and when, followed by those of the scratch memory."""
        roots = self.roots()
        changed = [root for root in roots if root not in self._groups]
        others: Dict[Value, List[Value]] = {root: [] for root in changed if root in self._owners}
        if others:
            for value, home in self.within.items():
                if home.root in others:
                    others[home.root].append(value)
        for root in changed:
            self._groups[root] = group([self._lifetime(one) for one in (root, *others.get(root, ()))])
        return [*(self._groups[root] for root in roots), *self._scratch]

    def _group(self, root: Value) -> Group:
        if root not in self._groups:
            self._groups[root] = group([self._lifetime(tenant) for tenant in self._tenants(root)])
        return self._groups[root]

    def _lifetime(self, value: Value) -> Lifetime:
        """A value needs its own bytes; a channel slice is scattered over all bytes of its root."""
        root, offset = self.place(value)
        if value.layout != root.layout:
            return Lifetime(value.first, value.last, root.storage.nbytes)
        return Lifetime(value.first, value.last, value.storage.nbytes, offset)

    def peak(self) -> int:
        """The bytes that are live at the worst step.

        Only values that have moved since the last call are counted again.
        """
        for value in self._moved:
            former = self._counted.pop(value, None)
            if former is not None:
                self._count(former, -1)
            if value not in self.within and not value.foreign:
                self._counted[value] = self._group(value)
                self._count(self._counted[value], 1)
        self._moved.clear()
        return int(self._live.cumsum().max(initial=0))

    def _count(self, group: Group, sign: int) -> None:
        for one in group:
            self._live[one.first + 1] += sign * one.nbytes
            self._live[one.last + 2] -= sign * one.nbytes

    def cost(self) -> Tuple[int, int]:
        """The peak, and the bytes that are copied."""
        return self.peak(), self.copied_nbytes()

    def copied_nbytes(self) -> int:
        """The bytes that are copied between parts and wholes."""
        return sum(part.spec.nbytes for step in self._steps for part in self._copied(step))

    def _copied(self, step: Step) -> List[Value]:
        """The parts that a step has to copy if it joins or splits; none for any other step."""
        return [part.value for part in self._parts[step] if not self._lies(part)]

    def _lies(self, part: Part) -> bool:
        root, base = self.place(part.whole)
        return part.offset is not None and self.place(part.value) == Place(root, base + part.offset)

    def _put(self, value: Value, whole: Value, offset: int) -> None:
        """Move a value with memory of its own, and all its tenants, into ``whole`` from this byte on."""
        root, base = self.place(whole)
        tenants, begin = self._tenants(value), base + offset
        moved = [one._replace(offset=begin + one.offset) for one in self._group(value)]
        known = self._group(root)
        for tenant in tenants:
            self.within[tenant] = Place(root, begin + self.place(tenant).offset)
        self._owners.add(root)
        self._moved.update((value, root))
        if begin % ALIGNMENT or any(tenant.layout != root.layout for tenant in tenants):
            self._groups.pop(root, None)
        else:
            self._groups[root] = group([*known, *moved])
        self._memory[root] = self._memory[root].joined(self._memory.pop(value))

    def _tenants(self, root: Value) -> List[Value]:
        """The values in the memory of this one, including itself."""
        others = (value for value, place in self.within.items() if place.root is root) if root in self._owners else ()
        return [root, *others]

    def _fits(self, value: Value, whole: Value) -> bool:
        """Whether all values in the memory of this one may move into that of ``whole``; as slices, if its tiles are
        wider."""
        layout = self.root(whole).layout
        return all(one.layout == layout or one in self._sliceable for one in self._tenants(value))

    def _forget_write(self, value: Value, at: int) -> None:
        root = self.root(value)
        self._memory[root] = self._memory[root]._replace(writes=self._memory[root].writes - {at})

    def share_views(self) -> None:
        """Put views into their sources; nothing is written for them."""
        for at, step in enumerate(self._steps):
            if step.schema.view:
                source = step.inputs[0]
                assert source is not None
                self._forget_write(step.outputs[0], at)
                self._put(step.outputs[0], source, 0)

    def share_in_place(self) -> None:
        """Let results overwrite an operand that is not read later, if the schema allows it."""
        for at, step in enumerate(self._steps):
            for index, candidates in step.schema.inplace.items():
                operands = [step.inputs[i] for i in candidates if i < len(step.inputs)]
                if index < len(step.outputs):
                    self._overwrite(step.outputs[index], operands, at)

    def _overwrite(self, result: Value, operands: Sequence[Optional[Value]], at: int) -> None:
        given = [self.root(value) for value in self._steps[at].inputs if value is not None]
        for source in operands:
            if source is None or result in self.within:
                continue
            if (source.storage.nbytes, source.layout) != (result.storage.nbytes, result.layout):
                continue
            root = self.root(source)
            dies = self._memory[root].last == at and given.count(root) == 1
            if dies and not root.foreign and self._fits(result, source):
                self._put(result, source, 0)

    def elide_copies(self) -> None:
        """Put parts into their wholes. A step with no part left to copy has nothing to do."""
        self._peak = self.peak() if self._known is None else 0
        for at, step in enumerate(self._steps):
            if step.schema.joins is not None:
                self._join(at, step)
            elif step.schema.splits is not None:
                self._unless_the_peak_grows(partial(self._split, at, step))
            else:
                continue
            if not self._copied(step):
                self.elided.add(step)

    def _unless_the_peak_grows(self, change: Callable[[], bool]) -> bool:
        """Make a change, and say whether it was kept: it is undone if it fails (returns False) or if the peak grows.

        If an earlier plan already decided it, the peak is not computed.
        """
        before = dict(self.within), dict(self._memory), dict(self._groups)
        wanted = self._known is None or next(self._known, False)
        peak = None if not wanted or not change() else self.peak() if self._known is None else 0
        self.kept.append(peak is not None and peak <= self._peak)
        if peak is None or peak > self._peak:
            here = self.within
            self.within, self._memory, self._groups = before
            for value in here.keys() - self.within.keys():
                self._moved.update((value, here[value].root))
            return False
        self._peak = peak
        return True

    def _join(self, at: int, step: Step) -> None:
        """Put the inputs into output 0: all that can be there, or else as many as the peak allows.

        The memory of the whole is in use from its first slice on, so the last slices are tried first.
        """
        whole = step.outputs[0]
        moves = self._moves(at, step)
        if not self._unless_the_peak_grows(partial(self._put_all, moves, whole)):
            for root, offset in reversed(list(moves.items())):
                self._unless_the_peak_grows(partial(self._put_all, {root: offset}, whole))
        if not self._copied(step):
            self._forget_write(whole, at)

    def _put_all(self, moves: Dict[Value, int], whole: Value) -> bool:
        for root, offset in moves.items():
            self._put(root, whole, offset)
        return True

    def _moves(self, at: int, step: Step) -> Dict[Value, int]:
        """For each memory that holds inputs, where in output 0 it must begin; without memory that cannot be there.

        Memory that holds several parts, for example parts that are already joined, must hold them as the whole does,
        and nothing else.
        """
        moves: Dict[Value, int] = {}
        used: Dict[Value, int] = {}
        for part, _, offset in self._parts[step]:
            if offset is None:
                continue
            root, base = self.place(part)
            if moves.setdefault(root, offset - base) == offset - base:
                used[root] = used.get(root, 0) + part.spec.nbytes
        return {
            root: offset
            for root, offset in moves.items()
            if root.spec.nbytes == used[root] and self._may_move(root, step.outputs[0], at)
        }

    def _may_move(self, root: Value, whole: Value, at: int) -> bool:
        """Whether memory that is joined at a step may become part of the whole's memory."""
        if root.foreign or root is whole or self._memory[root].written_after(at):
            return False
        overwritten = self._memory[whole].written_after(at)
        return not (overwritten and self._memory[root].last >= overwritten[0]) and self._fits(root, whole)

    def _split(self, at: int, step: Step) -> bool:
        """Put the outputs into input 0. False if they cannot be there; some may have moved by then."""
        before = dict(self._memory)
        for part, whole, offset in self._parts[step]:
            root = self.root(whole)
            if offset is None or part in self.within or not self._fits(part, whole):
                return False
            written, overwritten = before[part].written_after(at), before[root].written_after(at)
            if written and (root.foreign or written[0] <= before[root].last):
                return False
            if overwritten and self._memory[part].last >= overwritten[0]:
                return False
            self._forget_write(part, at)
            self._put(part, whole, offset)
        return True


def _sliceable(steps: Sequence[Step]) -> Set[Value]:
    """The values that may be channel slices of wider tiles, because every kernel that writes or reads them can."""
    made = {value for step in steps if step.kernel is not None and step.kernel.writes_slices for value in step.outputs}
    for step in steps:
        if step.kernel is None or not step.kernel.reads_slices:
            made.difference_update(value for value in step.inputs if value is not None)
    return {value for value in made if value.layout is not None}


def parts_of(step: Step) -> List[Part]:
    """The parts that a step joins, or into which it splits a blob; none for any other step."""
    places = step.schema.joins or step.schema.splits
    if places is None:
        return []
    wholes, parts = (step.outputs, step.inputs) if step.schema.joins else (step.inputs, step.outputs)
    whole = wholes[0]
    assert whole is not None
    indices = zip(parts, places(step.op, step.in_specs, step.out_specs))
    return [Part(part, whole, _offset_within(whole, part, index)) for part, index in indices if part is not None]


def _offset_within(whole: Value, part: Value, index: Tuple[slice, ...]) -> Optional[int]:
    """The byte of ``whole`` at which its part begins, or None if the part cannot be there in its layout.

    A part must be contiguous in the whole; a part of tiles consists of channels of the same tiles.
    """
    spec, layout = whole.spec, whole.layout
    if part.spec.dtype != spec.dtype or part.spec.quantization != spec.quantization or spec.dtype == object:
        return None
    if layout is not None:
        if not isinstance(layout, Tiles) or part.layout != layout._replace(channels=part.spec.shape[1]):
            return None
        return ((index[1].start or 0) if len(index) > 1 else 0) * spec.dtype.itemsize
    if part.layout is not None:
        return None
    offset, stride, run = 0, spec.dtype.itemsize, spec.dtype.itemsize
    for axis in reversed(range(len(spec.shape))):
        places = range(spec.shape[axis])[index[axis] if axis < len(index) else slice(None)]
        if not places or (len(places) > 1 and places.step * stride != run):
            return None
        offset, stride, run = offset + places.start * stride, stride * spec.shape[axis], run * len(places)
    return offset if run == part.spec.nbytes else None


__all__ = ["Decisions", "MemoryPlan", "Place", "Sharing", "plan_memory", "plan_memory_again"]
