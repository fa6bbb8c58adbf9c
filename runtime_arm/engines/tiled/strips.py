"""What the kernels have in common that work on blobs in the layout ``Tiles``: strips, and who does which."""

from __future__ import annotations

from typing import Callable, Iterator, List, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.pointwise import splits_filters
from runtime_arm.machine.caches import usual_block_nbytes
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry import steps as plain
from runtime_arm.registry.engine_wishes import BLOCK, hint
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.steps import ZERO, Step, copy

COPIES_ROWS = np.lib.NumpyVersion(np.__version__) < "2.3.0"  # see in_turn
SMALLEST_BUFFER = 16  # elements, that NumPy allows
LEAST_BLOCK, MOST_BLOCK = 1 << 16, 1 << 23  # bytes that a hint may ask for


def in_turn(steps: Sequence[Step]) -> Run:
    """One function that runs all steps.

    A ufunc over rows that do not follow each other copies them into buffers of ``np.getbufsize()`` elements before
    NumPy 2.3, unless a buffer is no longer than a row; it never needs one here. To say so takes 5 us.
    """
    if not COPIES_ROWS:
        return plain.in_turn(steps)
    fixed = tuple(steps)

    def run() -> None:
        former = np.setbufsize(SMALLEST_BUFFER)
        try:
            for step in fixed:
                step()
        finally:
            np.setbufsize(former)

    return run


def block_nbytes(op: OperatorDef) -> int:
    """Bytes of the blocks that an operator works in: what was measured, or what suits the caches."""
    wanted = hint(op, BLOCK)
    return wanted if wanted is not None and LEAST_BLOCK <= wanted <= MOST_BLOCK else usual_block_nbytes()


def block_hints(op: OperatorDef, blocks: Callable[[int], Sequence[object]]) -> Iterator[str]:
    """Hints of half and double the size of a block, if ``blocks``, of so many bytes, become more or fewer."""
    now = block_nbytes(op)
    for other in (now // 2, now * 2):
        if LEAST_BLOCK <= other <= MOST_BLOCK and len(blocks(other)) != len(blocks(now)):
            yield f"{BLOCK}={other}"


def body(memory: Array, layout: Tiles, strip: Strip) -> Array:
    """A view of a strip: (tile, tile, positions, channels)."""
    return memory[:, :, layout.guard + strip.begin : layout.guard + strip.end]


def clear_borders(call: Call, memory: Array, layout: Tiles) -> List[Step]:
    """The first worker clears what belongs to no strip."""
    return [copy(view, ZERO) for view in layout.borders(memory)] if call.worker == 0 else []


def clear(call: Call, layout: Tiles, strip: Strip, channels: slice = slice(None)) -> List[Step]:
    """What is of no image in a strip of output 0 becomes zero."""
    return [copy(view, ZERO) for view in layout.outside(call.outputs[0][..., channels], strip)]


def strips_of(call: Call, layout: Tiles, most: int) -> Sequence[Strip]:
    """This worker's strips, of at most so many positions."""
    return call.mine(layout.strips(most, call.workers))


def parts_of(call: Call, layout: Tiles, most: int, weights: int, group: int) -> Tuple[Sequence[Strip], slice]:
    """This worker's strips of output 0, and its channels, whole groups of them.

    Where there are few positions and many ``weights`` the filters are split, not the strips.
    """
    outputs = layout.tile**2 * layout.body * layout.channels
    few = splits_filters(call.workers, layout.body, weights, outputs)
    if not few or -(-layout.channels // group) < call.workers:
        return strips_of(call, layout, most), slice(None)
    return parts_by_filters(call, layout, most, group)


def parts_by_filters(call: Call, layout: Tiles, most: int, group: int) -> Tuple[Sequence[Strip], slice]:
    """All strips of output 0, and this worker's channels, whole groups of them; no strip if it has none."""
    mine = call.slice_of(-(-layout.channels // group))
    strips = layout.strips(most) if mine.start < mine.stop else ()
    return strips, slice(mine.start * group, min(mine.stop * group, layout.channels))
