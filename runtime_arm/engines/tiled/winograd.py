"""WINOGRAD between blobs in tiles: 3x3 convolutions of stride 1 with 4 or 2.25 multiplies an output instead of 9.

F(m x m, 3x3) computes m x m pixels from the (m + 2) x (m + 2) around them (Lavin and Gray, arXiv:1509.09308, algorithm
1). The layout ``Tiles`` keeps each pixel of a tile in a plane of its own, so a tile's row -1 is row m - 1 of the tile
above: another plane, ``pitch`` positions away. Every step is one NumPy call over a whole strip of tiles. The transforms
are products with small matrices, of all numbers that a plane has in the strip:

    rows       Y[px]      = B^T[:, 1:-1] @ X[:, px]            (m + 2, m) @ (m, positions * C), a position wider
               Y[px, 0]  += X[m - 1, px] of the tiles above;   Y[px, -1] += X[0, px] of those below
    columns    V[a]       = B^T[:, 1:-1] @ Y[:, a]             the same for the columns,
               V[a, 0]   += Y[m - 1, a] of the tiles before;   V[a, -1] += Y[0, a] of those behind
    multiply   M[a, b]    = V[a, b] @ U[a, b]                  (positions, C) @ (C, M) a frequency
    bias                    is added to M[1, 1] alone: all outputs take frequency (1, 1) once
    rows       Z[:, b]    = A^T @ M[:, b]                      (m, m + 2) @ (m + 2, positions * M)
    columns    P[py, :]   = A^T @ Z[py, :]                     straight into the output's planes, if P is the output

Where M does not stay in the second-level cache and BLAS multiplies small matrices without packing, the last two are one
product, P = (A^T x A^T) @ M (Kronecker's): 2.4 times the multiplies, but M is read once. There deep layers of few tiles
have the channels first, too, see ``planar_winograd``: all their filters stream through the cache, so M never stays.

The first column of B^T is (1, 0, ... 0), the last one (0, ... 0, 1): so the pixels outside of the tile are added to one
frequency each.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Callable, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.gemm import Panels, multiplies_small, panel_hints
from runtime_arm.engines.conv.pointwise import PASS, weight_cost
from runtime_arm.engines.conv.winograd_transforms import TAPS, amplification, transform_filters, transform_multiplies
from runtime_arm.engines.tiled import strips as tiled
from runtime_arm.engines.tiled.epilogue import finish, has_gaps
from runtime_arm.engines.tiled.tile_transforms import Result, Stretch, transform_back, transform_columns, transform_rows
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.kernel import Call, Run, Work
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, shaped

if TYPE_CHECKING:
    from runtime_arm.engines.tiled.strip_pooling import Pooling

LEAST_TILES = 112  # of a block: all filters stream through the cache for each


def most_tiles(x: Tiles, y: Tiles, itemsize: int, block: int) -> int:
    """Tiles that are computed at once: their V and M together take the bytes of a block."""
    return max(LEAST_TILES, block // ((x.tile + TAPS - 1) ** 2 * (x.channels + y.channels) * itemsize))


def work(x: Tiles, y: Tiles) -> Work:
    """What a convolution between such blobs takes."""
    positions = y.batch * y.image_tiles((0, 0))[0] * y.pitch
    products = (x.tile + TAPS - 1) ** 2 * x.channels * y.channels * (positions + weight_cost())
    return around(x, y, x.tile, positions, Work(products))


def around(x: Tiles, y: Tiles, columns: int, tiles: int, products: Work) -> Work:
    """The products and the transforms of so many tiles, of so many columns."""
    outside = PASS * tiles * (x.tile + columns + 2) * x.channels  # the pixels outside of the tile are added
    return Work(
        products.multiplies + tiles * transform_multiplies(x.tile, columns, x.channels, y.channels),
        products.moves + outside,
        amplification(x.tile, columns),
    )


def scratch(op: OperatorDef, x: Tiles, y: Tiles, dtype: np.dtype) -> Sequence[TensorSpec]:
    """Two buffers, which take turns: Y and M, V and Z."""
    most = most_tiles(x, y, dtype.itemsize, tiled.block_nbytes(op))
    tiles = max((strip.size for strip in y.strips(most)), default=0)
    reach = x.tile + TAPS - 1
    front = reach * max(x.tile * (tiles + 2) * x.channels, reach * tiles * y.channels)
    back = reach * tiles * max(reach * x.channels, x.tile * y.channels)
    return [TensorSpec((size,), dtype) for size in (front, back)]


def hints(op: OperatorDef, x: Tiles, y: Tiles, dtype: np.dtype) -> Sequence[str]:
    """Other blocks and panels."""

    def most(block: int) -> int:
        return most_tiles(x, y, dtype.itemsize, block)

    rows = min(most(tiled.block_nbytes(op)), y.body)
    return [*tiled.block_hints(op, lambda block: y.strips(most(block))), *panel_hints(op, rows, x.channels, y.channels)]


# A worker's strips, its filters, and what computes the pixels of a strip with these: the rest of ``convolve``.
Part = Tuple[Sequence[Strip], slice, Callable[..., Result]]


def by_strips(call: Call, x: Tiles, y: Tiles) -> Part:
    """As ``convolve`` does it, in strips of tiles."""
    most = most_tiles(x, y, call.outputs[0].itemsize, tiled.block_nbytes(call.op))
    filters = Panels.of(
        call,
        f"f{x.tile}x{x.tile}_3x3",
        min(most, y.body),
        lambda: transform_filters(x.tile, x.tile, call.inputs[1].swapaxes(0, 1)),
    )
    strips, mine = tiled.parts_of(call, y, most, filters.batch * filters.depth * filters.width, filters.group)
    return strips, mine, partial(convolve, call, x, filters.columns(mine))


def bind(
    call: Call,
    x: Tiles,
    y: Tiles,
    pooling: Optional[Pooling] = None,
    part_of: Callable[[Call, Tiles, Tiles], Part] = by_strips,
) -> Run:
    """y: the layout of the convolution's results, whether the output has them or what is pooled of them."""
    to = y if pooling is None else pooling.after(y)
    steps: List[Step] = tiled.clear_borders(call, call.outputs[0], to)
    strips, mine, pixels_of = part_of(call, x, y)
    bias = call.inputs[2][mine] if len(call.inputs) > 2 and call.inputs[2] is not None else None
    for strip in strips:
        results = tiled.body(call.outputs[0][..., mine], to, strip)
        in_place = pooling is None and not has_gaps(results)
        pixels, computing = pixels_of(strip, bias, results if in_place else None)
        steps += [
            *computing,
            *finish(call, to, strip, [], pixels, mine, pooling=pooling),
            *tiled.clear(call, to, strip, mine),
        ]
    return tiled.in_turn(steps)


def convolve(
    call: Call, x: Tiles, filters: Panels, strip: Strip, bias: Optional[Array], pixels: Optional[Array]
) -> Result:
    """The pixels of a strip without what follows, (tile, tile, positions, M), and the steps that compute them.

    pixels: where they shall lie; None leaves them in scratch.
    """
    front, back = call.scratch[:2]
    reach, count, channels = x.tile + TAPS - 1, strip.size, x.channels
    stretch = Stretch((x.guard + strip.begin) * channels, count * channels, channels, x.pitch * channels)
    rows, spectrum = shaped(front, x.tile, reach, stretch.wide), shaped(back, reach, reach, stretch.numbers)
    products = shaped(front, reach * reach, count, filters.width)
    memory = call.inputs[0].reshape(x.tile, x.tile, -1)
    steps = [
        *transform_rows(memory, stretch, rows),
        *transform_columns(rows, stretch, spectrum),
        *filters.multiply(spectrum.reshape(reach * reach, count, channels), products),
    ]
    if bias is not None:
        steps.append(partial(np.add, products[reach + 1], bias, out=products[reach + 1]))
    flat = None if pixels is None else pixels.reshape(x.tile, x.tile, -1)
    results, transform = transform_back(
        products.reshape(reach, reach, -1),
        (front, back),
        flat,
        at_once=multiplies_small() and products.nbytes > tiled.block_nbytes(call.op),
    )
    return results.reshape(x.tile, x.tile, count, filters.width), [*steps, *transform]
