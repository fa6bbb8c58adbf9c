"""WINOGRAD between blobs in tiles, with the channels first inside: for deep layers of few tiles.

The products are those of ``products.py``: filters stream once past pixels. So a channel's positions are lanes:

    gather     X[py, px, c, lane]  = the input's [py, px, position, c]; zeros behind the last position
    transform  V[a, b, c, lane]      as ``tile_transforms`` does, where the next position is the next number
    multiply   M[a, b, m, lane]    = U[a, b]^T @ V[a, b]
    transform  Y[py, px, m, lane]
    scatter    the output's [py, px, position, m] = Y

A channel takes 16, 32 or 64 lanes in every plane: the rows of tiles of the layout with its borders. The lanes that
remain are zero, and so is what precedes a channel: the border below the channel before it. What positions outside of
the image get is nonsense that is never read.

A tile may be twice as wide as those of the layout: F(2x4), between blobs in tiles of 2 x 2, computes every second
position and has the pixels of the others in planes of their own. 14x14 pixels are 32 positions then.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Iterator, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.winograd import Variant
from runtime_arm.engines.conv.winograd_transforms import TAPS, transform_filters
from runtime_arm.engines.tiled.planar import products as planar
from runtime_arm.engines.tiled.planar.products import FILTERS, LANES, MOST_DEPTH, SPARE, Filters, padded
from runtime_arm.engines.tiled.strip_pooling import Pooling
from runtime_arm.engines.tiled.strips import FLOAT32, Spectrum, parts_by_filters
from runtime_arm.engines.tiled.tile_transforms import Result, Stretch, transform_back, transform_columns, transform_rows
from runtime_arm.engines.tiled.winograd import Part, bind_strips, work_around
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.records import NamedTuple, record
from runtime_arm.registry.kernel import Call, Run, Work, no_hints
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ZERO, Step, copy, shaped


class Wide(NamedTuple):
    """Tiles with the rows of those of the layout ``of``, and with this many columns."""

    of: Tiles
    columns: int

    @property
    def beside(self) -> int:
        """Tiles of the layout that are one of these."""
        return self.columns // self.of.tile

    @property
    def pitch(self) -> int:
        """Positions from one row of tiles to the next."""
        return self.of.pitch // self.beside

    @property
    def positions(self) -> int:
        """Of an image and its borders, in one plane."""
        return self.of.rows * self.pitch

    @property
    def frequencies(self) -> Tuple[int, int]:
        """Of rows and of columns."""
        return self.of.tile + TAPS - 1, self.columns + TAPS - 1

    def fits(self) -> bool:
        """Whether such tiles, those at the edge too, are whole tiles of the layout."""
        across = -(-(self.of.width + self.of.border) // self.columns)
        return self.of.batch == 1 and across * self.beside == self.of.pitch and self.positions <= LANES

    def parts(self) -> Iterator[Tuple[slice, slice]]:
        """Columns of planes of these tiles, and the layout's positions that have them, from the body's first on."""
        tile = self.of.tile
        for part in range(self.beside):
            yield slice(part * tile, (part + 1) * tile), slice(part, None, self.beside)


@record(frozen=True, eq=False, repr=False)
class PlanarWinograd:
    """The algorithm by tiles with this many columns, and the rows of the blobs' tiles.

    All tiles of the image are one strip.
    """

    x: Tiles
    y: Tiles
    columns: int
    pooling: Optional[Pooling] = None

    engine = "WINOGRAD"
    reads_slices = False
    writes_slices = True
    hints = staticmethod(no_hints)

    @property
    def variants(self) -> Tuple[str, ...]:
        return (Variant(self.x.tile, self.columns, TAPS).name,)

    @property
    def wide(self) -> Wide:
        """The tiles."""
        return Wide(self.x, self.columns)

    def suits(self) -> bool:
        """Whether this is the faster way between such blobs."""
        fits = self.wide.fits() and self.x.channels <= MOST_DEPTH
        return fits and planar.suits(*self._products())

    @property
    def work(self) -> Work:
        tiles = self.y.image_tiles((0, 0))[0] * self.wide.pitch
        return work_around(self.x, self.y, self.columns, tiles, planar.work(*self._products()))

    def _products(self) -> Tuple[int, int, int, int, int]:
        """The parameters of ``products.suits``."""
        x, wide = self.x, self.wide
        return wide.positions, x.channels, self.y.channels, math.prod(wide.frequencies), x.tile * self.columns

    def scratch(self, op: OperatorDef) -> Sequence[TensorSpec]:
        """Three buffers: rows and products, spectrum, pixels of the input and perhaps of the output."""
        x, y, wide, columns = self.x, self.y, self.wide, self.columns
        lanes, (down, across) = planar.lanes(wide.positions), wide.frequencies
        count = x.channels * lanes
        front = down * max(columns * (count + 2 * SPARE), across * padded(y.channels) * lanes)
        back = max(down * across * (count + SPARE), x.tile * max(columns, across) * y.channels * lanes)
        third = x.tile * columns * max(count + 2 * _margin(wide), y.channels * lanes)
        return [TensorSpec((size,), FLOAT32) for size in (front, back, third)]

    def bind(self, call: Call) -> Run:
        x, y, columns = self.x, self.y, self.columns
        lanes = planar.lanes(self.wide.positions)
        filters = call.packed(
            f"f{x.tile}x{columns}_3x3 by {lanes}",
            lambda: Filters(transform_filters(x.tile, columns, call.inputs[1].swapaxes(0, 1)), lanes),
        )
        strips, mine = parts_by_filters(call, y, y.body, FILTERS)
        return bind_strips(
            call, self, Part(strips, mine, partial(convolve, call, self.wide, filters.columns(mine), mine))
        )


def _margin(wide: Wide) -> int:
    """Zeros before the first channel and behind the last one."""
    return _aligned(wide.pitch + 1)


def _aligned(numbers: int) -> int:
    return -(-numbers // SPARE) * SPARE


def convolve(
    call: Call, wide: Wide, filters: Filters, mine: slice, strip: Strip, bias: Optional[Array], pixels: Optional[Array]
) -> Result:
    """As ``winograd.convolve``; the strip has all positions of an image. Workers split the channels to transform."""
    front, third = call.scratch[0], call.scratch[2]
    x, columns = wide.of, wide.columns
    lanes, (down, across), margin = planar.lanes(wide.positions), wide.frequencies, _margin(wide)
    scratch = Spectrum.of(call, 1, x.channels, mine, x.tile * max(columns, across) * lanes)
    begin, end = scratch.mine.start * lanes, scratch.mine.stop * lanes
    stretch = Stretch(margin, end - begin, 1, wide.pitch)
    planes = shaped(third, x.tile, columns, stretch.numbers + 2 * margin)
    rows = shaped(front, columns, down, _aligned(stretch.wide) + SPARE)[..., : stretch.wide]
    spectrum = shaped(scratch.memory, down, across, x.channels * lanes + SPARE)[..., : x.channels * lanes]
    products = shaped(front, down * across, padded(filters.width), lanes)
    steps = [
        *_gather(call.inputs[0][..., scratch.mine], wide, planes, margin),
        *transform_rows(planes, stretch, rows),
        *transform_columns(rows, stretch, spectrum[..., begin:end]),
        *scratch.meet,
        *filters.multiply(spectrum.reshape(down * across, x.channels, lanes), products),
    ]
    flat = products.reshape(down, across, -1)[..., : filters.width * lanes]
    if bias is not None:
        steps.append(partial(np.add, flat[1, 1], np.repeat(bias, lanes), out=flat[1, 1]))
    results, transform = transform_back(flat, (front, scratch.room), None, at_once=True)
    if pixels is None:
        pixels = shaped(third, x.tile, x.tile, strip.size, filters.width)
    grid = results.reshape(x.tile, columns, filters.width, lanes)
    return pixels, [*steps, *transform, *_scatter(grid, wide, pixels)]


def _gather(memory: Array, wide: Wide, planes: Array, margin: int) -> Iterator[Step]:
    """From (tile, tile, positions, C) to (tile, columns, numbers)."""
    x, count = wide.of, wide.positions
    target = planes[:, :, margin:-margin].reshape(x.tile, wide.columns, memory.shape[-1], -1)
    for view in (planes[:, :, :margin], target[..., count:], planes[:, :, -margin:]):
        yield copy(view, ZERO)
    body = memory[:, :, x.guard : x.guard + x.body]
    for across, every in wide.parts():
        yield from planar.gather(body[:, :, every], target[:, across, :, :count])


def _scatter(results: Array, wide: Wide, pixels: Array) -> Iterator[Step]:
    """From (tile, columns, M, lanes) to (tile, tile, positions, M)."""
    for across, every in wide.parts():
        of = pixels[:, :, every]
        yield from planar.scatter(results[:, across, :, : of.shape[2]], of)
