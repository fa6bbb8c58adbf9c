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
product, P = (A^T x A^T) @ M (Kronecker's): 2.4 times the multiplies, but M is read once.

The first column of B^T is (1, 0, ... 0), the last one (0, ... 0, 1): so the pixels outside of the tile are added to one
frequency each.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Iterator, List, Optional, Sequence

import numpy as np

from runtime_arm.engines import gemm, tiled
from runtime_arm.engines.gemm import Panels, panel_hints
from runtime_arm.engines.steps import Step, multiply, shaped
from runtime_arm.engines.tiled_epilogue import finish, has_gaps
from runtime_arm.engines.winograd_transforms import TAPS, transform_filters, transforms
from runtime_arm.kernel import Call, Run
from runtime_arm.layouts import Strip, Tiles
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.tensor import TensorSpec

if TYPE_CHECKING:
    from runtime_arm.engines.strip_pooling import Pooling

LEAST_TILES = 112  # of a block: all filters stream through the cache for each


def most_tiles(x: Tiles, y: Tiles, itemsize: int, block: int) -> int:
    """Tiles that are computed at once: their V and M together take the bytes of a block."""
    return max(LEAST_TILES, block // ((x.tile + TAPS - 1) ** 2 * (x.channels + y.channels) * itemsize))


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
    return [*tiled.block_hints(op, lambda block: y.strips(most(block))),
            *panel_hints(op, rows, x.channels, y.channels)]


def bind(call: Call, x: Tiles, y: Tiles, pooling: Optional[Pooling] = None) -> Run:
    """y: the layout of the convolution's results, whether the output has them or what is pooled of them."""
    to = y if pooling is None else pooling.after(y)
    by_channel, bias = call.inputs[1].swapaxes(0, 1), call.inputs[2] if len(call.inputs) > 2 else None
    steps: List[Step] = tiled.clear_borders(call, call.outputs[0], to)
    most = most_tiles(x, y, call.outputs[0].itemsize, tiled.block_nbytes(call.op))
    filters = Panels.of(call, f"f{x.tile}x{x.tile}_3x3", min(most, y.body),
                        lambda: transform_filters(x.tile, by_channel))
    strips, mine = tiled.shares_of(call, y, most, filters.batch * filters.depth * filters.width, filters.group)
    filters = filters.columns(mine)
    for strip in strips:
        products = shaped(call.scratch[0], (x.tile + TAPS - 1) ** 2, strip.size, filters.width)
        steps += _multiply(call, x, strip, filters, None if bias is None else bias[mine], products)
        at_once = gemm.multiplies_small() and products.nbytes > tiled.block_nbytes(call.op)
        pixels = tiled.body(call.outputs[0][..., mine], to, strip)
        if pooling is not None or has_gaps(pixels):
            pixels = shaped(call.scratch[1 if at_once else 0], y.tile, y.tile, strip.size, filters.width)
        transform = _at_once if at_once else _transform_back
        steps += transform(products, call.scratch[1], pixels.reshape(y.tile, y.tile, -1))
        steps += finish(call, to, strip, [], pixels, mine, pooling=pooling)
        steps += tiled.clear(call, to, strip, mine)
    return tiled.in_turn(steps)


def _multiply(call: Call, x: Tiles, strip: Strip, filters: Panels, bias: Optional[Array],
              products: Array) -> Iterator[Step]:
    """Fill the products of a strip, (reach * reach, positions, filters), in the first buffer."""
    front, back = call.scratch[:2]
    reach, count = x.tile + TAPS - 1, strip.size
    rows = shaped(front, x.tile, reach, count + 2, x.channels)
    yield from _transform_rows(call.inputs[0], x, strip, rows)
    spectrum = shaped(back, reach, reach, count, x.channels)
    yield from _transform_columns(rows, spectrum, x)
    yield from filters.multiply(spectrum.reshape(reach * reach, count, x.channels), products)
    if bias is not None:
        yield partial(np.add, products[reach + 1], bias, out=products[reach + 1])


def _transform_rows(memory: Array, x: Tiles, strip: Strip, rows: Array) -> Iterator[Step]:
    """rows: (tile, reach, positions, C), of column phase and frequency, with a position more at both ends."""
    matrix = np.ascontiguousarray(transforms(x.tile).input[:, 1:-1].astype(memory.dtype))
    yield multiply(matrix, _row(memory, x, strip, 0).swapaxes(0, 1), rows.reshape(*rows.shape[:2], -1))
    above, below = _row(memory, x, strip, -x.pitch)[-1], _row(memory, x, strip, x.pitch)[0]
    for frequency, outside in ((0, above), (-1, below)):
        target = rows[:, frequency].reshape(len(rows), -1)
        yield partial(np.add, target, outside, out=target)


def _row(memory: Array, x: Tiles, strip: Strip, shift: int) -> Array:
    """The strip ``shift`` positions on, one position wider at both ends: (tile, tile, positions * C)."""
    begin = x.guard + strip.begin + shift
    view = memory[:, :, begin - 1 : begin + strip.size + 1]
    return view.reshape(*view.shape[:2], -1)


def _transform_columns(rows: Array, spectrum: Array, x: Tiles) -> Iterator[Step]:
    """spectrum: (reach, reach, positions, C)."""
    matrix = np.ascontiguousarray(transforms(x.tile).input[:, 1:-1].astype(rows.dtype))
    count = spectrum.shape[2]
    here = rows[:, :, 1 : count + 1].reshape(*rows.shape[:2], -1)
    yield multiply(matrix, here.swapaxes(0, 1), spectrum.reshape(*spectrum.shape[:2], -1))
    for frequency, outside in ((0, rows[-1, :, :count]), (-1, rows[0, :, 2:])):
        target = spectrum[:, frequency]
        yield partial(np.add, target, outside, out=target)


def _transform_back(products: Array, back: Array, pixels: Array) -> Iterator[Step]:
    """pixels, (tile, tile, positions * M), from the products, (reach * reach, positions, M); they may lie in the first
    buffer, too."""
    tile, reach = len(pixels), len(pixels) + TAPS - 1
    matrix = transforms(tile).output.astype(back.dtype)
    half = shaped(back, tile, reach, pixels.shape[-1])
    yield multiply(matrix, products.reshape(reach, reach, -1).swapaxes(0, 1), half.swapaxes(0, 1))
    yield multiply(matrix, half, pixels)


def _at_once(products: Array, back: Array, pixels: Array) -> Iterator[Step]:
    """The same by one product, in blocks of columns that BLAS does not pack; pixels may lie in the second buffer."""
    matrix = transforms(len(pixels)).output.astype(back.dtype)
    both = np.kron(matrix, matrix)
    size = gemm.SMALL_PRODUCT // both.size // gemm.VECTOR * gemm.VECTOR
    x, y = products.reshape(len(products), -1), pixels.reshape(len(both), -1)
    whole = y.shape[1] // size * size
    if whole:
        left, right = (rows[:, :whole].reshape(len(rows), -1, size).swapaxes(0, 1) for rows in (x, y))
        yield multiply(both, left, right)
    if whole < y.shape[1]:
        yield multiply(both, x[:, whole:], y[:, whole:])
