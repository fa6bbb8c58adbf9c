"""Which values share memory, and where everything lies: the plan of a segment's arena.

Values share memory in four ways: a view is its source; a result overwrites an operand that dies with the step, where
the schema allows it; what is split lies where the whole lies; what is joined is written where the whole will be. The
last two save copies. They are done where parts are contiguous in their whole, nothing is overwritten that somebody
still reads, and the peak of live bytes does not grow.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from runtime_arm.arena import Lifetime, liveness_peak, place
from runtime_arm.trace import Step, Value


class Layout(NamedTuple):
    """Where everything lies.

    within: the value in whose memory a value lies that has none of its own, and the byte where it begins there.
    offsets: where the memory of each other value begins in the arena. scratch: the same for the buffers of each step.
    elided: steps that have nothing to do. least_nbytes: what no arena can be smaller than with this order and sharing:
    liveness_peak_nbytes, the bytes that are live at the worst step, or more where more is proved.
    """

    within: Dict[Value, Tuple[Value, int]]
    offsets: Dict[Value, int]
    scratch: Dict[Step, List[int]]
    elided: Set[Step]
    nbytes: int
    liveness_peak_nbytes: int
    least_nbytes: int


def plan_memory(steps: Sequence[Step], feeds: Sequence[Value]) -> Layout:
    """The layout of what is fed before the first step, and of what the steps write."""
    sharing = min((_shared(steps, feeds, first) for first in ("in_place", "parts")), key=Sharing.cost)
    roots = sharing.roots()
    lifetimes = sharing.lifetimes()
    lifetimes += [Lifetime(at, at, spec.nbytes) for at, step in enumerate(steps) for spec in step.scratch]
    offsets, nbytes, least = place(lifetimes)
    rest = iter(offsets[len(roots) :])
    scratch = {step: [next(rest) for _ in step.scratch] for step in steps}
    peak = liveness_peak(lifetimes)
    return Layout(sharing.within, dict(zip(roots, offsets)), scratch, sharing.elided, nbytes, peak, least)


def _shared(steps: Sequence[Step], feeds: Sequence[Value], first: str) -> Sharing:
    """Results overwrite operands, or parts lie in their wholes, wherever the one leaves room for the other."""
    sharing = Sharing(steps, feeds)
    sharing.share_views()
    if first == "in_place":
        sharing.share_in_place()
    sharing.elide_copies()
    if first == "parts":
        sharing.share_in_place()
    return sharing


class _Memory(NamedTuple):
    """The memory of one value: in use from step first to step last, written at some of them."""

    first: int
    last: int
    writes: frozenset[int]

    def joined(self, other: _Memory) -> _Memory:
        return _Memory(min(self.first, other.first), max(self.last, other.last), self.writes | other.writes)

    def written_after(self, at: int) -> List[int]:
        return sorted(step for step in self.writes if step > at)


class Sharing:
    """Who lives in whose memory; at first everybody in his own."""

    def __init__(self, steps: Sequence[Step], feeds: Sequence[Value]):
        self._steps = steps
        self._values = [*feeds, *(value for step in steps for value in step.outputs)]
        self.within: Dict[Value, Tuple[Value, int]] = {}
        self._owners: Set[Value] = set()  # in whose memory others lie, or lay
        self.elided: Set[Step] = set()
        self._scratch = [Lifetime(at, at, spec.nbytes) for at, step in enumerate(steps) for spec in step.scratch]
        read = (value for step in steps for value in step.inputs if value is not None)
        self._memory = {value: _Memory(value.first, value.last, frozenset()) for value in read}
        for value in self._values:
            self._memory[value] = _Memory(value.first, value.last, frozenset([value.first]))

    def root(self, value: Value) -> Value:
        """The value in whose memory this one lies."""
        return self.within.get(value, (value, 0))[0]

    def roots(self) -> List[Value]:
        """The values that need memory in the arena."""
        return [value for value in self._values if value not in self.within]

    def lifetimes(self) -> List[Lifetime]:
        """Of the memory of the ``roots``."""
        used = [(self._memory[root], root.storage.nbytes) for root in self.roots()]
        return [Lifetime(memory.first, memory.last, nbytes) for memory, nbytes in used]

    def cost(self) -> Tuple[int, int]:
        """Bytes live at the worst step, and bytes written by steps that only copy."""
        copying = [step for step in self._steps if step.joins is not None or step.splits is not None]
        copied = sum(spec.nbytes for step in copying if step not in self.elided for spec in step.out_specs)
        return liveness_peak(self.lifetimes() + self._scratch), copied

    def _put(self, value: Value, whole: Value, offset: int) -> None:
        """Let a value that has its own memory, and all that lie there, lie within ``whole`` from this byte on."""
        root, base = self.within.get(whole, (whole, 0))
        if value in self._owners:
            for tenant, (owner, at) in self.within.items():
                if owner is value:
                    self.within[tenant] = (root, base + offset + at)
        self._owners.add(root)
        self.within[value] = (root, base + offset)
        self._memory[root] = self._memory[root].joined(self._memory.pop(value))

    def _forget_write(self, value: Value, at: int) -> None:
        root = self.root(value)
        self._memory[root] = self._memory[root]._replace(writes=self._memory[root].writes - {at})

    def share_views(self) -> None:
        """Views lie where their source does; nothing is written for them."""
        for at, step in enumerate(self._steps):
            if step.schema.view:
                source = step.inputs[0]
                assert source is not None
                self._forget_write(step.outputs[0], at)
                self._put(step.outputs[0], source, 0)

    def share_in_place(self) -> None:
        """Results overwrite an operand that dies with the step, where the schema allows it."""
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
            if not root.foreign and self._memory[root].last == at and given.count(root) == 1:
                self._put(result, source, 0)

    def elide_copies(self) -> None:
        """Let parts lie in their whole."""
        peak = liveness_peak(self.lifetimes() + self._scratch)
        for at, step in enumerate(self._steps):
            if step.joins is None and step.splits is None:
                continue
            before = dict(self.within), dict(self._memory)
            fits = self._join(at, step) if step.joins is not None else self._split(at, step)
            height = liveness_peak(self.lifetimes() + self._scratch) if fits else peak
            if fits and height <= peak:
                peak = height
                self.elided.add(step)
            else:
                self.within, self._memory = before

    def _join(self, at: int, step: Step) -> bool:
        """Let the inputs lie in output 0. False, half done, if they cannot."""
        assert step.joins is not None
        whole = step.outputs[0]
        indices = step.joins(step.op, step.in_specs, step.out_specs)
        moves = self._moves(whole, step.inputs, indices)
        overwritten = self._memory[whole].written_after(at)
        for root, offset in moves.items():
            if root.foreign or root is whole or self._memory[root].written_after(at):
                return False
            if overwritten and self._memory[root].last >= overwritten[0]:
                return False
            self._put(root, whole, offset)
        self._forget_write(whole, at)
        return bool(moves)

    def _moves(
        self, whole: Value, parts: Sequence[Optional[Value]], indices: Sequence[Tuple[slice, ...]]
    ) -> Dict[Value, int]:
        """Where in ``whole`` the memory must begin in which its parts lie; nothing if they cannot all lie in it.

        Memory that holds several parts, such as the first parts joined already, must hold them as ``whole`` does, and
        nothing else.
        """
        moves: Dict[Value, int] = {}
        used: Dict[Value, int] = {}
        for part, index in zip(parts, indices):
            offset = _offset_within(whole, part, index)
            if part is None or offset is None:
                return {}
            root, base = self.within.get(part, (part, 0))
            if moves.setdefault(root, offset - base) != offset - base:
                return {}
            used[root] = used.get(root, 0) + part.spec.nbytes
        return moves if all(root.spec.nbytes == nbytes for root, nbytes in used.items()) else {}

    def _split(self, at: int, step: Step) -> bool:
        """Let the outputs lie in input 0. False, half done, if they cannot."""
        assert step.splits is not None
        whole = step.inputs[0]
        assert whole is not None
        root = self.root(whole)
        indices, memory = step.splits(step.op, step.in_specs, step.out_specs), self._memory[root]
        for part, index in zip(step.outputs, indices):
            offset = _offset_within(whole, part, index)
            if offset is None or part in self.within:
                return False
            written = self._memory[part].written_after(at)
            overwritten = memory.written_after(at)
            if written and (root.foreign or written[0] <= memory.last):
                return False
            if overwritten and self._memory[part].last >= overwritten[0]:
                return False
            self._forget_write(part, at)
            self._put(part, whole, offset)
        return True


def _offset_within(whole: Value, part: Optional[Value], index: Tuple[slice, ...]) -> Optional[int]:
    """The byte of ``whole`` at which its part begins; None if it does not lie there in one piece, as the same type."""
    if part is None or part.spec.dtype != whole.spec.dtype or part.spec.quantization != whole.spec.quantization:
        return None
    probe = np.empty(whole.spec.shape, whole.spec.dtype)  # only its addresses matter
    piece = probe[index]
    if not piece.flags.c_contiguous or piece.nbytes != part.spec.nbytes or probe.dtype == object or not piece.size:
        return None
    return int(piece.__array_interface__["data"][0] - probe.__array_interface__["data"][0])


__all__ = ["Layout", "Sharing", "plan_memory"]
