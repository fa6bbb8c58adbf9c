"""Memory that a plan can spare: in the arenas of segments that have run, and of constants that only led to others.

After a segment has run, only the values live on that its border or a later segment reads, or that are fetched. The
memory between these is free, and the next segment takes the lowest part of it that is large enough. Content that is
computed when a net is planned, such as the parts of an index, stays only if a step reads it.
"""

from __future__ import annotations

from typing import Iterable, List, Optional, Sequence, Set, Tuple

from runtime_arm.netdef import Array
from runtime_arm.planning.arena import ALIGNMENT, allocate
from runtime_arm.planning.steps import LARGE, Environment, Step, Value
from runtime_arm.registry.specs import TensorSpec

LEAST = 1 << 16  # bytes; for less, the search for room costs more than the memory is worth
Blocks = Tuple[Tuple[Array, bool], ...]  # the memory of an arena, and whether other processes see it


def arena_behind(blocks: Blocks, living: Iterable[Value], nbytes: int, shared: bool) -> Tuple[Array, Blocks]:
    """This many bytes of one of the blocks that no live value needs, else a new block; and all blocks.

    shared: whether other processes must see them.
    """
    room = room_in(blocks, nbytes, shared, living) if nbytes >= LEAST else None
    if room is not None:
        return room, blocks
    arena = allocate(nbytes, "the net's arena", shared)
    return arena, (*blocks, (arena, shared)) if nbytes >= LEAST else blocks


def room_in(blocks: Blocks, nbytes: int, shared: bool, living: Iterable[Value]) -> Optional[Array]:
    """This many bytes of one of the blocks that no live value needs; None if there are none in one piece."""
    taken = sorted(_reach(value) for value in living)
    for memory, is_shared in blocks:
        if is_shared or not shared:
            begin = memory.ctypes.data
            for first, last in _between(taken, begin, begin + memory.nbytes):
                if last - first >= nbytes:
                    return memory[first - begin : first - begin + nbytes]
    return None


def _reach(value: Value) -> Tuple[int, int]:
    """The addresses where the memory of a value begins and ends. ``verify`` computes its own and trusts none."""
    array = value.array
    steps = [stride * (size - 1) for stride, size in zip(array.strides, array.shape)] if array.size else []
    begin, nbytes = array.ctypes.data, array.itemsize if array.size else 0
    return begin + sum(one for one in steps if one < 0), begin + sum(one for one in steps if one > 0) + nbytes


def _between(taken: Sequence[Tuple[int, int]], begin: int, end: int) -> List[Tuple[int, int]]:
    """The free ranges of addresses between these, from aligned ones on. taken: sorted by where they begin."""
    free = []
    for first, last in [*taken, (end, end)]:
        if first >= end:
            first = end
        if first > begin:
            free.append((begin, first))
        begin = max(begin, last + -last % ALIGNMENT)
    return free


def note(value: Value, inputs: Iterable[Optional[Value]], passing: Set[Optional[Value]]) -> None:
    """Note large content that is made only of small content and of noted content: the next plan can make it again."""
    if all(one is None or one.spec.nbytes < LARGE or one in passing for one in inputs):
        passing.add(value)


def forget(passing: Set[Optional[Value]], env: Environment, steps: Sequence[Step], surviving: Iterable[Value]) -> None:
    """Drop the noted content that nothing reads when the net runs, and the notes."""
    read = {value for step in steps for value in step.inputs}.union(surviving)
    for value in passing:
        if value is not None and value not in read and env.get(value.name) is value:
            env[value.name] = Value(value.name, TensorSpec(value.spec.shape, value.spec.dtype), value.first)
    passing.clear()
