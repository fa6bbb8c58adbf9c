"""Memory that a plan can spare: in the arenas of segments that have run, and of contents that only led to others.

Of a segment that has run only the values live on that its border or a later segment reads, or that are fetched. What
lies between these is free, and the segment behind it takes the lowest part of it that is large enough. A content that
is computed when a net is planned, such as the places that make up an index, stays only if a step reads it.
"""

from __future__ import annotations

from typing import Iterable, List, Optional, Sequence, Set, Tuple

from runtime_arm.netdef import Array
from runtime_arm.planning.arena import ALIGNMENT, allocate
from runtime_arm.planning.steps import LARGE, Environment, Step, Value
from runtime_arm.planning.verify import reach
from runtime_arm.registry.specs import TensorSpec

LEAST = 1 << 16  # bytes: to look for room for less takes longer than the memory is worth
Blocks = Tuple[Tuple[Array, bool], ...]  # memory of arenas, and whether other processes see it


def arena_behind(blocks: Blocks, living: Iterable[Value], nbytes: int, shared: bool) -> Tuple[Array, Blocks]:
    """So many bytes of one of the blocks that no living value needs, else a new block; and all blocks.

    shared: whether other processes must see them.
    """
    room = room_in(blocks, nbytes, shared, living) if nbytes >= LEAST else None
    if room is not None:
        return room, blocks
    arena = allocate(nbytes, "the net's arena", shared)
    return arena, (*blocks, (arena, shared)) if nbytes >= LEAST else blocks


def room_in(blocks: Blocks, nbytes: int, shared: bool, living: Iterable[Value]) -> Optional[Array]:
    """So many bytes of one of the blocks that no living value needs; None if there are none in one piece."""
    taken = sorted(reach(value) for value in living)
    for memory, is_shared in blocks:
        if is_shared or not shared:
            begin = memory.ctypes.data
            for first, last in _between(taken, begin, begin + memory.nbytes):
                if last - first >= nbytes:
                    return memory[first - begin : first - begin + nbytes]
    return None


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
    """Note a large content that is made of small ones, and of such large ones: a further plan makes it again."""
    if all(one is None or one.spec.nbytes < LARGE or one in passing for one in inputs):
        passing.add(value)


def forget(passing: Set[Optional[Value]], env: Environment, steps: Sequence[Step], surviving: Iterable[Value]) -> None:
    """Let go of those of the contents that nothing reads when the net runs, and of the notes."""
    read = {value for step in steps for value in step.inputs}.union(surviving)
    for value in passing:
        if value is not None and value not in read and env.get(value.name) is value:
            env[value.name] = Value(value.name, TensorSpec(value.spec.shape, value.spec.dtype), value.first)
    passing.clear()
