"""What the kernels have in common that work on blobs in the layout ``Tiles``: bias, addend, activation, clearing."""

from __future__ import annotations

from functools import partial
from typing import Iterator, List, Sequence

import numpy as np

from runtime_arm.blocks import BLOCK
from runtime_arm.engines.epilogue import Tail
from runtime_arm.engines.steps import Step, copy
from runtime_arm.kernel import Call, Run
from runtime_arm.layouts import Strip, Tiles
from runtime_arm.netdef import Array

SMALLEST_BUFFER = 16  # elements, that NumPy allows
ZERO = np.zeros((), np.float32)


def finish(call: Call, layout: Tiles, strip: Strip, bias: bool = True) -> List[Step]:
    """The steps behind the products of a convolution, for a strip of output 0: bias, addend, activation, clearing.

    ``bias``: whether the bias is still to be added.
    """
    y = body(call.outputs[0], layout, strip)
    steps: List[Step] = []
    if bias and len(call.inputs) > 2 and call.inputs[2] is not None:
        count = min(max(1, BLOCK // layout.channels), strip.size)
        row = call.packed(f"bias of {count}", lambda: np.tile(call.inputs[2], count))
        flat = y.reshape(*y.shape[:2], -1)
        steps += [partial(np.add, part, row[: part.shape[-1]], out=part) for part in _cut(flat, row.size)]
    tail = Tail(call, 3, y, -1)
    if tail:
        steps += tail.planes(y)
    return [*steps, *(copy(view, ZERO) for view in layout.outside(call.outputs[0], strip))]


def in_turn(steps: Sequence[Step]) -> Run:
    """One function that runs all steps.

    A ufunc over rows that do not follow each other copies them into buffers of ``np.getbufsize()`` elements before
    NumPy 2.3, unless a buffer is no longer than a row; it never needs one here.
    """
    fixed = tuple(steps)

    def run() -> None:
        former = np.setbufsize(SMALLEST_BUFFER)
        try:
            for step in fixed:
                step()
        finally:
            np.setbufsize(former)

    return run


def body(memory: Array, layout: Tiles, strip: Strip) -> Array:
    """A view of a strip: (tile, tile, positions, channels)."""
    return memory[:, :, layout.guard + strip.begin : layout.guard + strip.end]


def clear_borders(call: Call, memory: Array, layout: Tiles) -> List[Step]:
    """The first worker clears what belongs to no strip."""
    return [copy(view, ZERO) for view in layout.borders(memory)] if call.worker == 0 else []


def strips_of(call: Call, layout: Tiles, most: int) -> Sequence[Strip]:
    """This worker's strips, of at most so many positions."""
    positions = layout.batch * layout.rows * layout.pitch
    return call.mine(layout.strips(max(1, min(most, -(-positions // call.workers)))))


def _cut(flat: Array, most: int) -> Iterator[Array]:
    for begin in range(0, flat.shape[-1], most):
        yield flat[..., begin : begin + most]
