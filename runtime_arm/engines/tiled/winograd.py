"""WINOGRAD between blobs in tiles: 3x3 convolutions of stride 1 with 4 or 2.25 multiplies an output instead of 9.

F(m x m, 3x3) computes m x m pixels from the (m + 2) x (m + 2) around them (Lavin and Gray, arXiv:1509.09308, algorithm
1). In ``Tiles`` each pixel of a tile is in a plane of its own, so a tile's row -1 is row m - 1 of the tile above:
another plane, ``pitch`` positions away. Every step is one NumPy call over a whole strip. The transforms are products
with small matrices, of all numbers that a plane has in the strip:

    rows       Y[px]      = B^T[:, 1:-1] @ X[:, px]            (m + 2, m) @ (m, positions * C), a position wider
               Y[px, 0]  += X[m - 1, px] of the tiles above;   Y[px, -1] += X[0, px] of those below
    columns    V[a]       = B^T[:, 1:-1] @ Y[:, a]             the same for the columns,
               V[a, 0]   += Y[m - 1, a] of the tiles before;   V[a, -1] += Y[0, a] of those behind
    multiply   M[a, b]    = V[a, b] @ U[a, b]                  (positions, C) @ (C, M) a frequency
    bias                    is added to M[1, 1] alone: all outputs take frequency (1, 1) once
    rows       Z[:, b]    = A^T @ M[:, b]                      (m, m + 2) @ (m + 2, positions * M)
    columns    P[py, :]   = A^T @ Z[py, :]                     straight into the output's planes, if P is the output

The first column of B^T is (1, 0, ... 0), the last one (0, ... 0, 1): so the pixels outside of the tile are added to one
frequency each. So it is with A^T and the outer frequencies. Where BLAS packs, what would be added is put into its place
first, zeros elsewhere, and the products are added to that (see ``tile_transforms.py``).

Where M does not stay in the second-level cache and BLAS multiplies small matrices without packing, the last two steps
are one product, P = (A^T x A^T) @ M (Kronecker's): 2.4 times the multiplies, but M is read once. There deep layers of
few tiles run with the channels first, see ``planar/winograd.py``: since all their filters stream through the cache, M
never stays in it.
"""

from __future__ import annotations

from functools import partial
from typing import Callable, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.gemm import Panels, multiplies_small, panel_hints
from runtime_arm.engines.conv.pointwise import PASS, weight_cost
from runtime_arm.engines.conv.winograd import Variant
from runtime_arm.engines.conv.winograd_transforms import TAPS, amplification, transform_filters, transform_multiplies
from runtime_arm.engines.tiled.algorithm import Algorithm, output_layout
from runtime_arm.engines.tiled.epilogue import bias_vector, by_channel, finish, has_gaps
from runtime_arm.engines.tiled.strip_pooling import Pooling
from runtime_arm.engines.tiled.strips import (
    EVERYTHING,
    FLOAT32,
    Spectrum,
    Target,
    block_hints,
    block_nbytes,
    clear,
    clear_borders,
    filter_shares,
    in_turn,
    parts_of,
)
from runtime_arm.engines.tiled.tile_transforms import Result, Stretch, transform_back, transform_columns, transform_rows
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.records import NamedTuple, record
from runtime_arm.registry.kernel import Call, Run, Work
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, barrier, shaped

LEAST_TILES = 112  # of a strip: all filters stream through the cache for each


@record(frozen=True, eq=False, repr=False)
class Winograd:
    """The algorithm by tiles as large as those of the blobs."""

    x: Tiles
    y: Tiles
    pooling: Optional[Pooling] = None

    engine = "WINOGRAD"
    reads_slices = False
    writes_slices = True

    @property
    def variants(self) -> Tuple[str, ...]:
        return (Variant(self.x.tile, self.x.tile, TAPS).name,)

    @property
    def work(self) -> Work:
        x, y = self.x, self.y
        tiles = y.batch * y.image_tiles((0, 0))[0] * y.pitch
        products = (x.tile + TAPS - 1) ** 2 * x.channels * y.channels * (tiles + weight_cost())
        return work_around(x, y, x.tile, tiles, Work(products))

    def most_tiles(self, block: int) -> int:
        """Tiles of a strip: their V and M together take the bytes of a block."""
        numbers = (self.x.tile + TAPS - 1) ** 2 * (self.x.channels + self.y.channels)
        return max(LEAST_TILES, block // (numbers * FLOAT32.itemsize))

    def scratch(self, op: OperatorDef) -> Sequence[TensorSpec]:
        """Two buffers, which take turns: Y and M, V and Z."""
        x, y = self.x, self.y
        tiles = max((strip.size for strip in y.strips(self.most_tiles(block_nbytes(op)))), default=0)
        reach = x.tile + TAPS - 1
        front = reach * max(x.tile * (tiles + 2) * x.channels, reach * tiles * y.channels)
        back = reach * tiles * max(reach * x.channels, x.tile * y.channels)
        return [TensorSpec((size,), FLOAT32) for size in (front, back)]

    def hints(self, op: OperatorDef) -> Sequence[str]:
        """Other blocks and panels."""
        rows = min(self.most_tiles(block_nbytes(op)), self.y.body)
        return [
            *block_hints(op, lambda block: self.y.strips(self.most_tiles(block))),
            *panel_hints(op, rows, self.x.channels, self.y.channels),
        ]

    def bind(self, call: Call) -> Run:
        x, y = self.x, self.y
        most = self.most_tiles(block_nbytes(call.op))
        shares = filter_shares(call, y, (x.tile + TAPS - 1) ** 2 * x.channels * y.channels)
        filters = Panels.of(
            call,
            f"f{x.tile}x{x.tile}_3x3",
            min(most, y.body),
            call.inputs[1],
            lambda w: transform_filters(x.tile, x.tile, self.taps(w)),
            shares,
        )
        strips, mine = parts_of(call, y, most, filters.group, shares)
        return bind_strips(call, self, Part(strips, mine, partial(self.pixels_of, call, filters.columns(mine), mine)))

    def taps(self, w: Array) -> Array:
        """What is transformed of the filters (M, C, 3, 3): (C, M, 3, 3)."""
        turned: Array = w.swapaxes(0, 1)
        return turned

    def pixels_of(
        self, call: Call, filters: Panels, mine: slice, strip: Strip, bias: Optional[Array], pixels: Optional[Array]
    ) -> Result:
        """``convolve``."""
        return convolve(call, self.x, filters, mine, strip, bias, pixels)


def work_around(x: Tiles, y: Tiles, columns: int, tiles: int, products: Work) -> Work:
    """The cost of the products and the transforms of this many tiles, of this many columns."""
    outside = PASS * tiles * (x.tile + columns + 2) * x.channels  # the pixels outside of the tile are added
    return Work(
        products.multiplies + tiles * transform_multiplies(x.tile, columns, x.channels, y.channels),
        products.moves + outside,
        amplification(x.tile, columns),
    )


class Part(NamedTuple):
    """A worker's part: its strips, its filters, and ``pixels_of(strip, bias, pixels)``, which computes the pixels of a
    strip with these filters; it is ``convolve`` but for the first parameters."""

    strips: Sequence[Strip]
    filters: slice
    pixels_of: Callable[[Strip, Optional[Array], Optional[Array]], Result]


def bind_strips(call: Call, algorithm: Algorithm, part: Part) -> Run:
    """The pixels of each strip, and what follows them."""
    to, mine = output_layout(algorithm), part.filters
    steps: List[Step] = clear_borders(call, to)
    bias = bias_vector(call, mine)
    for number, strip in enumerate(part.strips):
        if number and mine != EVERYTHING:
            steps.append(barrier)  # others may still read the spectrum of the strip before
        target = Target(to, strip, mine)
        results = target.of(call.outputs[0])
        in_place = algorithm.pooling is None and not has_gaps(results)
        pixels, computing = part.pixels_of(strip, bias, results if in_place else None)
        steps += [
            *computing,
            *finish(call, target, products=pixels, pooling=algorithm.pooling),
            *clear(call, to, strip, mine),
        ]
    return in_turn(steps)


def convolve(
    call: Call, x: Tiles, filters: Panels, mine: slice, strip: Strip, bias: Optional[Array], pixels: Optional[Array]
) -> Result:
    """The pixels of a strip without what follows, (tile, tile, positions, M), and the steps that compute them.

    filters: those that are ``mine``. pixels: where to write them; None leaves them in scratch.
    """
    front, reach, count, channels = call.scratch[0], x.tile + TAPS - 1, strip.size, x.channels
    scratch = Spectrum.of(call, 1, count, mine, reach * x.tile * count)
    begin, end = scratch.mine.start * channels, scratch.mine.stop * channels
    stretch = Stretch((x.guard + strip.begin) * channels + begin, end - begin, channels, x.pitch * channels)
    rows, spectrum = shaped(front, x.tile, reach, stretch.wide), shaped(scratch.memory, reach, reach, count * channels)
    products = shaped(front, reach * reach, count, filters.width)
    memory = call.inputs[0].reshape(x.tile, x.tile, -1)
    steps = [
        *transform_rows(memory, stretch, rows),
        *transform_columns(rows, stretch, spectrum[..., begin:end]),
        *scratch.meet,
        *filters.multiply(spectrum.reshape(reach * reach, count, channels), products),
    ]
    if bias is not None:
        add = call.packed(f"add bias {mine}", lambda: by_channel(np.add, bias))
        steps += add(products[None, None, reach + 1])
    flat = None if pixels is None else pixels.reshape(x.tile, x.tile, -1)
    results, transform = transform_back(
        products.reshape(reach, reach, -1),
        (front, scratch.room),
        flat,
        at_once=multiplies_small() and products.nbytes > block_nbytes(call.op),
    )
    return results.reshape(x.tile, x.tile, count, filters.width), [*steps, *transform]
