"""WINOGRAD between blobs in tiles, as in ``tiled/winograd.py``, with transforms that are sums of whole planes.

All that the sums of ``transforms.py`` need is that numbers follow each other. So the second transform is one of the
columns of all rows at once, and frequencies lie by columns first. F(m x m, 3x3), in two buffers that take turns:

    rows       Y[px, a]     from the planes [py, px] of X, with a position more at both ends
    met        Z[px, a]     = Y[px, a] without the positions beside the image, px = -1 .. m: two planes are those of the
                            tiles before and behind
    columns    V[b, a]      from Z[px]
    multiply   M[b, a]      = V[b, a] @ U[b, a];   the bias is added to M[1, 1]
    columns    W[px, a]     from M[b, a]
    rows       P[py, px]    from W[px, a]

Where images have no such positions, or parts of a row are computed, there is no Z: V is made of Y, with a position more
at both ends, which no product reads.
"""

from __future__ import annotations

from itertools import chain
from typing import Iterator, List, Optional, Sequence

import numpy as np

from runtime_arm.engines.conv.gemm import Panels
from runtime_arm.engines.conv.pointwise import weight_cost
from runtime_arm.engines.conv.winograd_transforms import TAPS, amplification, sum_multiplies
from runtime_arm.engines.tiled.epilogue import Pass, by_channel
from runtime_arm.engines.tiled.strips import FLOAT32, block_nbytes
from runtime_arm.engines.tiled.summed.transforms import from_frequencies, into_frequencies
from runtime_arm.engines.tiled.tile_transforms import Result, Stretch
from runtime_arm.engines.tiled.winograd import Winograd
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Work
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, copy, shaped


class SummedWinograd(Winograd):
    """The algorithm by tiles as large as those of the blobs."""

    @property
    def work(self) -> Work:
        x, y = self.x, self.y
        tiles = y.batch * y.image_tiles((0, 0))[0] * y.image_tiles((0, 0))[1]
        products = (x.tile + TAPS - 1) ** 2 * x.channels * y.channels * (tiles + weight_cost())
        return Work(products, tiles * sum_multiplies(x.tile, x.channels, y.channels), amplification(x.tile, x.tile))

    def scratch(self, op: OperatorDef) -> Sequence[TensorSpec]:
        """Two buffers, which take turns."""
        strips = self.y.strips(self.most_tiles(block_nbytes(op)))
        sizes = [_Grid.of(strip, self.x).sizes(self.x, self.y.channels) for strip in strips]
        return [TensorSpec((max(chain(*(of[turn::2] for of in sizes)), default=0),), FLOAT32) for turn in (0, 1)]

    def taps(self, w: Array) -> Array:
        """Transposed, so that frequencies of columns come first."""
        turned: Array = w.transpose(1, 0, 3, 2)
        return turned

    def pixels_of(
        self, call: Call, filters: Panels, mine: slice, strip: Strip, bias: Optional[Array], pixels: Optional[Array]
    ) -> Result:
        """As ``tiled.winograd.convolve``; workers that split the filters transform all pixels."""
        adds = None if bias is None else call.packed(f"bias {mine}", lambda: by_channel(np.add, bias))
        return _convolve(call, self.x, filters, strip, adds, pixels)


class _Grid(NamedTuple):
    """The positions of a strip: rows of ``pitch`` positions, of which the first ``kept`` are in the image."""

    rows: int
    pitch: int
    kept: int

    @classmethod
    def of(cls, strip: Strip, x: Tiles) -> _Grid:
        wide = x.image_tiles((0, 0))[1]
        if (strip.left, strip.right) == (0, strip.pitch) and wide < strip.pitch:
            return cls(strip.last - strip.first, strip.pitch, wide)
        return cls(1, strip.size, strip.size)

    @property
    def skips(self) -> bool:
        return self.kept < self.pitch

    @property
    def number(self) -> int:
        """How many positions are computed."""
        return self.rows * self.kept

    def without_gaps(self, numbers: Array, each: int) -> Array:
        """A view of the positions in the image, (..., rows, numbers of a row), of (..., all positions * each)."""
        rows = numbers.reshape(*numbers.shape[:-1], self.rows, self.pitch * each)
        return rows[..., : self.kept * each]

    def sizes(self, x: Tiles, filters: int) -> List[int]:
        """The numbers of elements that the two buffers hold in turn."""
        tile, reach, channels, all_positions = x.tile, x.tile + TAPS - 1, x.channels, self.rows * self.pitch
        rows = tile * reach * (all_positions + 2) * channels
        products, half, results = (n * self.number * filters for n in (reach**2, tile * reach, tile**2))
        if not self.skips:
            return [rows, reach**2 * (all_positions + 2) * channels, products, half, results]
        met, spectrum = (tile + 2) * reach * self.number * channels, reach**2 * self.number * channels
        return [rows, met, spectrum, products, half, results, tile**2 * all_positions * filters]


def _convolve(
    call: Call, x: Tiles, filters: Panels, strip: Strip, bias: Optional[Pass], pixels: Optional[Array]
) -> Result:
    tile, reach, channels, width = x.tile, x.tile + TAPS - 1, x.channels, filters.width
    this, other = call.scratch[:2]
    grid = _Grid.of(strip, x)
    stretch = Stretch((x.guard + strip.begin) * channels, strip.size * channels, channels, x.pitch * channels)
    rows = shaped(this, tile, reach, stretch.wide)
    steps = list(_transform_rows(call.inputs[0].reshape(tile, tile, -1), stretch, rows))
    if grid.skips:
        met = shaped(other, tile + 2, reach, grid.number * channels)
        this, other = other, this
        spectrum = shaped(other, reach, reach, grid.number * channels)
        steps += [*_meet(rows, stretch, grid, met), *into_frequencies(met, spectrum)]
    else:
        spectrum = shaped(other, reach, reach, stretch.wide)
        steps += _transform_columns(rows, stretch, spectrum)
        spectrum = spectrum[..., : stretch.numbers]
    products, half = shaped(this, reach**2, grid.number, width), shaped(other, tile, reach, grid.number * width)
    steps += filters.multiply(spectrum.reshape(reach**2, grid.number, channels), products)
    if bias is not None:
        steps += bias(products[None, None, reach + 1])
    steps += from_frequencies(products.reshape(reach, -1), half.reshape(tile, -1))
    if pixels is None or grid.skips:
        results = shaped(this, tile, tile, grid.number * width)
    else:
        results = pixels.reshape(tile, tile, -1)
    for column in range(tile):
        steps += from_frequencies(half[column], results[:, column])
    if grid.skips:
        target = shaped(other, tile, tile, strip.size * width) if pixels is None else pixels.reshape(tile, tile, -1)
        whole = grid.without_gaps(target, width)
        steps.append(copy(whole, results.reshape(whole.shape)))
        results = target
    return results.reshape(tile, tile, strip.size, width), steps


def _transform_rows(planes: Array, stretch: Stretch, rows: Array) -> Iterator[Step]:
    """Fill ``rows``, (tile columns, frequencies, wide), from planes (tile rows, tile columns, numbers)."""
    first = stretch.begin - stretch.beside

    def met(row: int, column: int, shift: int) -> Array:
        part: Array = planes[row, column, first + shift : first + shift + stretch.wide]
        return part

    for column, targets in enumerate(rows):
        own = [met(row, column, 0) for row in range(len(planes))]
        yield from into_frequencies([met(-1, column, -stretch.below), *own, met(0, column, stretch.below)], targets)


def _transform_columns(rows: Array, stretch: Stretch, spectrum: Array) -> Iterator[Step]:
    """Fill ``spectrum``, (frequencies of columns, of rows, wide), of which the first numbers of each are of use."""
    beside, flat = stretch.beside, rows.reshape(len(rows), -1)
    length = flat.shape[1] - 2 * beside
    own = [row[beside : beside + length] for row in flat]
    taps = [flat[-1, :length], *own, flat[0, 2 * beside :]]
    yield from into_frequencies(taps, spectrum.reshape(len(spectrum), -1)[:, :length])


def _meet(rows: Array, stretch: Stretch, grid: _Grid, met: Array) -> Iterator[Step]:
    """Fill ``met``, (tile columns + 2, frequencies, numbers), from rows."""
    last = len(rows) - 1
    for target, (column, shift) in zip(met, [(last, 0), *((column, 1) for column in range(last + 1)), (0, 2)]):
        begin = shift * stretch.beside
        source = grid.without_gaps(rows[column, :, begin : begin + stretch.numbers], stretch.beside)
        yield copy(target.reshape(source.shape), source)
