"""WINOGRAD between blobs in tiles, inside of which the channels come first: for deep layers of few tiles.

The products are those of ``planar``, filters that stream once past pixels. So a channel's positions follow each other:

    gather     X[py, px, c, position]  = the input's [py, px, position, c]; zeros behind the last one
    transform  V[a, b, c, position]      as ``tile_transforms`` does, the next position is the next number
    multiply   M[a, b, m, position]    = U[a, b]^T @ V[a, b]
    transform  Y[py, px, m, position]
    scatter    the output's [py, px, position, m] = Y

A channel takes 16, 32 or 64 positions in every plane, the rows of tiles of the layout with its borders. What remains of
them is zero, and so is what precedes a channel: the border below the one before. What positions outside of the image
get is nonsense that is never read.

A tile may be twice as wide as those of the layout: F(2x4), between blobs in tiles of 2 x 2, computes every second
position and has the pixels of the others in planes of their own. 14x14 pixels are 32 positions then.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.winograd_transforms import TAPS, transform_filters
from runtime_arm.engines.tiled import planes as planar
from runtime_arm.engines.tiled import strips as tiled
from runtime_arm.engines.tiled import winograd as tiled_winograd
from runtime_arm.engines.tiled.planes import POSITIONS, SPARE, Filters
from runtime_arm.engines.tiled.tile_transforms import Result, Stretch, transform_back, transform_columns, transform_rows
from runtime_arm.engines.tiled.winograd import Part
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.kernel import Call, Run, Work
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ZERO, Step, copy, shaped

if TYPE_CHECKING:
    from runtime_arm.engines.tiled.strip_pooling import Pooling


class Wide(NamedTuple):
    """Tiles of the layout's rows, and of so many columns."""

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
        return self.of.batch == 1 and across * self.beside == self.of.pitch and self.positions <= POSITIONS

    def parts(self) -> Iterator[Tuple[slice, slice]]:
        """Columns of planes of these tiles, and the layout's positions which have them, from the body's first on."""
        tile = self.of.tile
        for part in range(self.beside):
            yield slice(part * tile, (part + 1) * tile), slice(part, None, self.beside)


def suits(x: Tiles, y: Tiles, columns: int) -> bool:
    """Whether this is the faster way between such blobs, by tiles of so many columns."""
    wide = Wide(x, columns)
    fits = wide.fits() and x.channels <= planar.MOST_DEPTH
    return fits and planar.suits(*_products(x, y, columns))


def work(x: Tiles, y: Tiles, columns: int) -> Work:
    """What a convolution between such blobs takes."""
    tiles = y.image_tiles((0, 0))[0] * Wide(x, columns).pitch
    return tiled_winograd.around(x, y, columns, tiles, planar.work(*_products(x, y, columns)))


def _products(x: Tiles, y: Tiles, columns: int) -> Tuple[int, int, int, int, int]:
    wide = Wide(x, columns)
    return wide.positions, x.channels, y.channels, math.prod(wide.frequencies), x.tile * columns


def scratch(op: OperatorDef, x: Tiles, y: Tiles, dtype: np.dtype, columns: int) -> Sequence[TensorSpec]:
    """Three buffers: rows and products, spectrum, pixels of the input and perhaps of the output."""
    wide = Wide(x, columns)
    lanes, (down, across) = planar.lanes(wide.positions), wide.frequencies
    count = x.channels * lanes
    front = down * max(columns * (count + 2 * SPARE), across * planar.padded(y.channels) * lanes)
    back = max(down * across * (count + SPARE), x.tile * max(columns, across) * y.channels * lanes)
    third = x.tile * columns * max(count + 2 * _margin(wide), y.channels * lanes)
    return [TensorSpec((size,), dtype) for size in (front, back, third)]


def bind(call: Call, x: Tiles, y: Tiles, columns: int, pooling: Optional[Pooling] = None) -> Run:
    """See ``tiled_winograd.bind``."""
    return tiled_winograd.bind(call, x, y, pooling, partial(_part, columns=columns))


def _part(call: Call, x: Tiles, y: Tiles, columns: int) -> Part:
    lanes = planar.lanes(Wide(x, columns).positions)
    filters = call.packed(
        f"f{x.tile}x{columns}_3x3 by {lanes}",
        lambda: planar.Filters(transform_filters(x.tile, columns, call.inputs[1].swapaxes(0, 1)), lanes),
    )
    strips, mine = tiled.parts_by_filters(call, y, y.body, planar.FILTERS)
    return strips, mine, partial(convolve, call, x, columns, filters.columns(mine))


def _margin(wide: Wide) -> int:
    """Zeros before the first channel and behind the last one."""
    return _aligned(wide.pitch + 1)


def _aligned(numbers: int) -> int:
    return -(-numbers // SPARE) * SPARE


def convolve(
    call: Call, x: Tiles, columns: int, filters: Filters, strip: Strip, bias: Optional[Array], pixels: Optional[Array]
) -> Result:
    """As ``tiled_winograd.convolve``; the strip has all positions of an image."""
    front, back, third = call.scratch[:3]
    wide = Wide(x, columns)
    lanes, (down, across), margin = planar.lanes(wide.positions), wide.frequencies, _margin(wide)
    stretch = Stretch(margin, x.channels * lanes, 1, wide.pitch)
    planes = shaped(third, x.tile, columns, stretch.numbers + 2 * margin)
    rows = shaped(front, columns, down, _aligned(stretch.wide) + SPARE)[..., : stretch.wide]
    spectrum = shaped(back, down, across, stretch.numbers + SPARE)[..., : stretch.numbers]
    products = shaped(front, down * across, planar.padded(filters.width), lanes)
    steps = [
        *_gather(call.inputs[0], wide, planes, margin),
        *transform_rows(planes, stretch, rows),
        *transform_columns(rows, stretch, spectrum),
        *filters.multiply(spectrum.reshape(down * across, x.channels, lanes), products),
    ]
    flat = products.reshape(down, across, -1)[..., : filters.width * lanes]
    if bias is not None:
        steps.append(partial(np.add, flat[1, 1], np.repeat(bias, lanes), out=flat[1, 1]))
    results, transform = transform_back(flat, (front, back), None, at_once=True)
    if pixels is None:
        pixels = shaped(third, x.tile, x.tile, strip.size, filters.width)
    grid = results.reshape(x.tile, columns, filters.width, lanes)
    return pixels, [*steps, *transform, *_scatter(grid, wide, pixels)]


def _gather(memory: Array, wide: Wide, planes: Array, margin: int) -> Iterator[Step]:
    """From (tile, tile, positions, C) to (tile, columns, numbers)."""
    x, count = wide.of, wide.positions
    target = planes[:, :, margin:-margin].reshape(x.tile, wide.columns, x.channels, -1)
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
