"""The arena of a compiled segment over time: where each blob lies, and during which steps."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from optimize.memory.lower_bound import least_nbytes
from runtime_arm.planning.arena import Lifetime
from runtime_arm.planning.memory_sharing import MemoryPlan
from runtime_arm.planning.plan import Segment
from runtime_arm.planning.steps import Step, Value


class Block(NamedTuple):
    """Bytes ``offset`` to ``offset + nbytes`` of the arena, in use from step ``first`` to step ``last``.

    kind: "input", "blob" or "scratch". names: the blobs that are stored there, one after another or as parts of a
    whole; for scratch memory the operator.
    """

    kind: str
    names: Tuple[str, ...]
    first: int
    last: int
    offset: int
    nbytes: int


class Timeline(NamedTuple):
    """The blocks of an arena, and how good it is.

    live: bytes in use at each step. least_nbytes: a lower bound for any arena with this order of steps and this sharing
    of memory. any_order_nbytes: a lower bound for any order of steps.
    """

    blocks: Sequence[Block]
    live: Sequence[int]
    arena_nbytes: int
    least_nbytes: int
    any_order_nbytes: int

    def largest_scratch(self) -> int:
        """The scratch memory of the step that needs most, in bytes."""
        taken: Dict[int, int] = {}
        for block in self.blocks:
            if block.kind == "scratch":
                taken[block.first] = taken.get(block.first, 0) + block.nbytes
        return max(taken.values(), default=0)

    def verdict(self) -> str:
        """How good the arena is, in words."""
        if self.arena_nbytes <= self.any_order_nbytes:
            return "no order of operators and no placement needs less"
        if self.arena_nbytes <= self.least_nbytes:
            return "the minimum for this order of operators"
        return f"{self.arena_nbytes / self.least_nbytes - 1:.1%} above the minimum for this order of operators"


def timeline(segment: Segment) -> Timeline:
    """The timeline of a segment; steps are numbered as in ``segment.steps``."""
    layout, end = segment.layout, max(len(segment.steps) - 1, 0)
    tenants: Dict[Value, List[Value]] = {root: [root] for root in layout.offsets}
    for value, (root, _) in layout.within.items():
        tenants.setdefault(root, []).append(value)
    blocks = []
    for root, offset in layout.offsets.items():
        kind = "input" if root in segment.feeds else "blob"
        for box in layout.groups[root]:
            names = _names(box, tenants[root], layout)
            blocks.append(Block(kind, names, max(box.first, 0), min(box.last, end), offset + box.offset, box.nbytes))
    for at, step in enumerate(segment.steps):
        for spec, offset in zip(step.scratch, layout.scratch[step]):
            blocks.append(Block("scratch", (_name(step),), at, at, offset, spec.nbytes))
    needed = least_nbytes(segment.steps, segment.feeds)
    return Timeline(blocks, _live(blocks, end + 1), layout.nbytes, layout.least_nbytes, needed)


def _names(box: Lifetime, values: Sequence[Value], layout: MemoryPlan) -> Tuple[str, ...]:
    """The names of the values that lie in the box, in the order in which they are written."""
    there = []
    for value in sorted(values, key=lambda value: value.first):
        begin = layout.within[value].offset if value in layout.within else 0
        lives = value.first <= box.last and box.first <= value.last
        if lives and begin < box.end and box.offset < begin + value.storage.nbytes:
            there.append(value.name)
    return tuple(dict.fromkeys(filter(None, there)))


def _live(blocks: Sequence[Block], steps: int) -> List[int]:
    """Bytes in use at each step."""
    changes = [0] * (steps + 1)
    for block in blocks:
        changes[block.first] += block.nbytes
        changes[block.last + 1] -= block.nbytes
    return list(accumulate(changes[:steps]))


def as_json(one: Timeline) -> Dict[str, Any]:
    """For ``armnet inspect --json``."""
    return {
        "live_nbytes": list(one.live),
        "least_nbytes": one.least_nbytes,
        "any_order_nbytes": one.any_order_nbytes,
        "scratch_nbytes": one.largest_scratch(),
        "blocks": [block._asdict() for block in one.blocks],
    }


def _name(step: Step) -> str:
    return " ".join([step.op.full_type, *step.op.output[:1]])
