"""How FFT cuts a convolution: the output into tiles, each a circular convolution, and the tiles into blocks."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Iterator, Optional, Tuple

from runtime_arm.engines.conv.fft_transforms import Period, amplification, multiplies
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.kernel import Work

BLOCK_NBYTES = 4 << 20  # of both buffers together; about a second-level cache
LEAST_TILES = 32  # of a block, if they are multiplied with matrices: all of these come from memory for each block
LARGEST_TILE = 96  # outputs of a side; each more costs the transforms one more multiply
LARGEST_PERIOD = 255  # places of a circle; the transforms are square matrices of that size
FILTER_GROWTH, FILTER_SIZE = 8, 4 << 20  # limits of the filters' spectra: times the filters' elements, or elements

# Costs in multiplies of a large matrix product, fitted to 330 tilings of layers from 8@56 to 512@14, kernels from 3x3
# to 31x31, dense and depthwise. An element: of a transform's result beside its multiplies, of the sums and differences,
# of the products in a depthwise convolution, of a filter's spectrum that comes from memory.
RESULT, SUM, ELEMENTWISE, SPECTRUM = 24, 22, 63, 10
SLIM = 4 / 3  # times as long for a multiply of spectra: products have as few rows as there are tiles
CALL, FREQUENCY, STEP = 6700, 700, 30_000  # an output row of a tile, a product of spectra, a call of NumPy
STEPS = 20  # calls for a block, beside those for its rows and columns of tiles


class Side(NamedTuple):
    """One dimension of the output, cut into tiles of ``tile`` outputs, each computed on a circle of ``period`` places.

    Place 0 of tile i is pixel i * tile - head. ``reach``: pixels that the kernel reaches over.
    """

    image: int
    head: int
    output: int
    reach: int
    tile: int
    period: int

    @classmethod
    def of(cls, window: Window, axis: int, tile: int) -> Side:
        """Cut into tiles of about that many outputs; a circle has an odd number of places."""
        reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1
        size = (window.image[axis], window.head[axis], window.output[axis], reach)
        if tile < size[2]:
            period = (tile + reach - 1) | 1
            return cls(*size, min(period - reach + 1, size[2]), period)
        whole = cls(*size, size[2], 1)
        first, last = whole.pixels(0)
        meeting = max(last + whole.head, whole.output + reach - 1 - whole.head - first) if first < last else 0
        return whole._replace(period=max(meeting, whole.output) | 1)

    @property
    def tiles(self) -> int:
        return -(-self.output // self.tile)

    def pixels(self, tile: int) -> Tuple[int, int]:
        """Begin and end of the image's pixels that the outputs of a tile see; equal if there are none."""
        begin = tile * self.tile - self.head
        first = min(max(begin, 0), self.image)
        return first, max(first, min(begin + self.tile + self.reach - 1, self.image))

    def outputs(self, tile: int) -> int:
        """How many outputs the tile has: the last one may have fewer."""
        return min(self.tile, self.output - tile * self.tile)


class Block(NamedTuple):
    """Tiles that are computed at once: of one image, begin and end of groups, of the filters in each, of tile rows and
    tile columns."""

    image: int
    groups: Tuple[int, int]
    filters: Tuple[int, int]
    rows: Tuple[int, int]
    columns: Tuple[int, int]

    @property
    def size(self) -> int:
        """Tiles, those of each group by themselves."""
        return math.prod(end - begin for begin, end in (self.groups, self.rows, self.columns))


class Tiling(NamedTuple):
    """A convolution of stride 1, cut into tiles."""

    convolution: Convolution
    rows: Side
    columns: Side

    @classmethod
    def of(cls, convolution: Convolution, tile: int) -> Tiling:
        """Tiles of about tile x tile outputs."""
        return cls(convolution, Side.of(convolution.window, 0, tile), Side.of(convolution.window, 1, tile))

    @property
    def period(self) -> Period:
        return self.rows.period, self.columns.period

    @property
    def depth(self) -> int:
        """Channels of a group."""
        return self.convolution.channels // self.convolution.group

    @property
    def width(self) -> int:
        """Filters of a group."""
        return self.convolution.filters // self.convolution.group

    @property
    def filter_size(self) -> int:
        """Elements of the filters' spectra."""
        return multiplies(self.period) * self.depth * self.convolution.filters

    def tile_size(self) -> int:
        """Elements that a tile of one group takes in each of the two buffers, in any step."""
        return multiplies(self.period) * max(self.depth, self.width)

    def blocks(self, itemsize: int, workers: int = 1) -> Iterator[Block]:
        """Each worker gets as many, if there are enough groups or tiles; of a single tile, the filters are split."""
        rows, columns, group = self.rows.tiles, self.columns.tiles, self.convolution.group
        least = LEAST_TILES if self.depth > 1 else 1
        most = max(least, BLOCK_NBYTES // (2 * itemsize * max(self.tile_size(), 1)))
        wide = min(columns, most)
        across = workers if group < workers else 1
        alone = group == 1 and self.convolution.batch * rows * columns < workers
        for image in range(self.convolution.batch):
            for groups in ranges(group, max(1, most // (rows * columns)), workers):
                for filters in ranges(self.width, self.width, workers if alone else 1):
                    for row in ranges(rows, max(1, most // wide), across):
                        for column in ranges(columns, wide, across if rows < workers else 1):
                            yield Block(image, groups, filters, row, column)

    def buffer_size(self, itemsize: int) -> int:
        """Elements of each of the two buffers."""
        sizes = [block.size for block in self.blocks(itemsize)]
        return max(sizes, default=0) * self.tile_size()

    def work(self) -> Work:
        """Products of spectra; the four transforms, the sums and differences, and the calls."""
        convolution, (p, q), rows, columns = self.convolution, self.period, self.rows, self.columns
        channels, filters, batch = convolution.channels, convolution.filters, convolution.batch
        strips = batch * columns.tiles
        tiles = strips * rows.tiles
        before = q * channels * (strips * rows.image * (q + RESULT) + tiles * p * (p + RESULT))
        behind = filters * tiles * rows.tile * (q * (p + RESULT) + columns.tile * (q + RESULT))
        sums = SUM * p * q * tiles * (1.5 * channels + 2 * filters)
        spectrum = multiplies(self.period)
        calls = CALL * tiles * rows.tile + STEP * batch * (2 * columns.tiles + rows.tiles + STEPS)
        if self.depth == 1:
            products = float(ELEMENTWISE * spectrum * filters * tiles)
        else:
            products = SLIM * spectrum * self.depth * filters * (tiles + SPECTRUM * batch)
            calls += FREQUENCY * spectrum * convolution.group * batch
        return Work(products, before + behind + sums + calls, amplification(self.period, convolution.window.kernel))


@lru_cache(1024)
def best_tiling(convolution: Convolution) -> Optional[Tiling]:
    """The tiling of least work among those whose circles and filters stay within bounds; None if there is none."""
    sides = {-(-size // count) for size in convolution.window.output for count in range(1, size + 1)}  # no row in vain
    tilings = [Tiling.of(convolution, tile) for tile in sorted(sides) if tile <= LARGEST_TILE]
    most = max(FILTER_SIZE, FILTER_GROWTH * convolution.filters * convolution.terms)
    fitting = [one for one in tilings if max(one.period) <= LARGEST_PERIOD and one.filter_size <= most]
    return min(fitting, key=lambda tiling: tiling.work().time, default=None)
