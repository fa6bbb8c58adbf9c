"""Common parts of the kernels on ``Tiles``: how they are cut into strips, and which worker computes which."""

from __future__ import annotations

from typing import Callable, Iterator, List, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.pointwise import splits_filters
from runtime_arm.machine.caches import usual_block_nbytes
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.records import NamedTuple
from runtime_arm.registry import steps as plain
from runtime_arm.registry.engine_preferences import BLOCK, hint
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.steps import ZERO, Step, barrier, copy

FLOAT32 = np.dtype(np.float32)  # of every blob in tiles
COPIES_ROWS = np.lib.NumpyVersion(np.__version__) < "2.3.0"  # see in_turn
SMALLEST_BUFFER = 16  # elements; NumPy allows no fewer
LEAST_BLOCK, MOST_BLOCK = 1 << 16, 1 << 23  # bytes that a hint may ask for
EVERYTHING = slice(None)


def in_turn(steps: Sequence[Step]) -> Run:
    """One function that runs all steps, in phases if there are barriers between them.

    Before NumPy 2.3 a ufunc over rows that do not follow each other copies them into buffers of ``np.getbufsize()``
    elements, unless a buffer is no longer than a row. Here it never needs one, so the buffers are made as small as
    NumPy allows; that takes 5 us.
    """
    return plain.in_phases(steps, _in_small_buffers if COPIES_ROWS else plain.in_turn)


def _in_small_buffers(steps: Sequence[Step]) -> Run:
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
    """Bytes of the blocks in which an operator works: as measured, or else as the caches suggest."""
    wanted = hint(op, BLOCK)
    return wanted if wanted is not None and LEAST_BLOCK <= wanted <= MOST_BLOCK else usual_block_nbytes()


def block_hints(op: OperatorDef, cut: Callable[[int], Sequence[object]]) -> Iterator[str]:
    """Hints of half and double the size of a block, if ``cut(nbytes)`` then makes more or fewer parts than now."""
    now = block_nbytes(op)
    for other in (now // 2, now * 2):
        if LEAST_BLOCK <= other <= MOST_BLOCK and len(cut(other)) != len(cut(now)):
            yield f"{BLOCK}={other}"


def body(memory: Array, layout: Tiles, strip: Strip) -> Array:
    """A view of a strip: (tile, tile, positions, channels)."""
    return memory[:, :, layout.guard + strip.begin : layout.guard + strip.end]


class Target(NamedTuple):
    """What a kernel computes of a blob in tiles: a strip, of some channels, and perhaps only some planes and positions
    of it (``part``, an index of (tile, tile, positions))."""

    layout: Tiles
    strip: Strip
    channels: slice = EVERYTHING
    part: Tuple[slice, slice, slice] = (EVERYTHING,) * 3

    def of(self, memory: Array) -> Array:
        """A view of it: (tile, tile, positions, channels)."""
        return body(memory, self.layout, self.strip)[..., self.channels][self.part]


def clear_borders(call: Call, layout: Tiles) -> List[Step]:
    """The part of output 0 in no strip becomes zero, if it is read; the first worker does it."""
    if call.worker > 0 or call.ragged:
        return []
    return [copy(view, ZERO) for view in layout.borders(call.outputs[0])]


def clear(call: Call, layout: Tiles, strip: Strip, channels: slice = EVERYTHING) -> List[Step]:
    """The part of a strip of output 0 outside the images becomes zero, if it is read."""
    return [] if call.ragged else [copy(view, ZERO) for view in layout.outside(call.outputs[0][..., channels], strip)]


class ImageRows(NamedTuple):
    """Rows first..last of tiles of one image: a strip that ends where the image ends."""

    image: int
    first: int
    last: int

    def strip(self, layout: Tiles) -> Strip:
        """The same among the rows of all images."""
        begin = self.image * layout.rows
        return Strip(begin + self.first, begin + self.last, 0, layout.pitch, layout.pitch)


def image_rows(layout: Tiles, parts: Sequence[Tuple[int, int]]) -> List[ImageRows]:
    """Every image cut into the same parts, (first, last) row of tiles."""
    return [ImageRows(image, *part) for image in range(layout.batch) for part in parts]


def strips_of(call: Call, layout: Tiles, most: int) -> Sequence[Strip]:
    """This worker's strips, of at most this many positions."""
    return call.mine(layout.strips(most, call.workers))


class Spectrum(NamedTuple):
    """The place of a strip's transformed pixels, and which of them this worker makes.

    Workers that split the filters need the same pixels: each transforms a part of them for all. ``memory``: for all of
    them. ``mine``: the part. ``meet``: steps between transforming and multiplying. ``room``: scratch for the steps
    after this worker's products, where no spectrum is by then.
    """

    memory: Array
    mine: slice
    room: Array
    meet: Sequence[Step]

    @classmethod
    def of(cls, call: Call, buffer: int, count: int, filters: slice, most: int) -> Spectrum:
        """In scratch buffer number ``buffer``, for ``count`` positions or channels, whichever the workers split.

        filters: this worker's, EVERYTHING where it computes all of a strip. most: numbers of ``room`` for each filter.
        The buffer holds either the spectrum or the room of all filters. Of several workers' buffers the first holds the
        one and the last the other, so nobody overwrites what another still reads.
        """
        if filters == EVERYTHING:
            own = call.scratch[buffer]
            return cls(own, slice(0, count), own, ())
        first, last = call.crew_scratch[0][buffer], call.crew_scratch[-1][buffer]
        return cls(first, call.slice_of(count), last[filters.start * most : filters.stop * most], (barrier,))


def filter_shares(call: Call, layout: Tiles, weights: int) -> int:
    """The number of workers that share the filters of output 0, where there are few positions and many ``weights``; 1
    where they split the strips."""
    outputs = layout.tile**2 * layout.body * layout.channels
    return call.workers if splits_filters(call.workers, layout.body, weights, outputs) else 1


def parts_of(call: Call, layout: Tiles, most: int, group: int, shares: int) -> Tuple[Sequence[Strip], slice]:
    """This worker's strips of output 0, and its channels, in whole groups of ``group``. shares: ``filter_shares``."""
    if not 1 < shares <= -(-layout.channels // group):
        return strips_of(call, layout, most), EVERYTHING
    return parts_by_filters(call, layout, most, group)


def parts_by_filters(call: Call, layout: Tiles, most: int, group: int) -> Tuple[Sequence[Strip], slice]:
    """All strips of output 0, and this worker's channels, in whole groups. Where there are too few groups the first
    worker does everything."""
    strips, groups = layout.strips(most), -(-layout.channels // group)
    if groups < call.workers or call.workers == 1:
        return strips if call.worker == 0 else (), EVERYTHING
    mine = call.slice_of(groups)
    return strips, slice(mine.start * group, min(mine.stop * group, layout.channels))
