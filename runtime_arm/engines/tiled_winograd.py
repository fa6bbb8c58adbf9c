"""WINOGRAD between blobs in tiles: 3x3 convolutions of stride 1 with 4 or 2.25 multiplies an output instead of 9.

F(m x m, 3x3) computes m x m pixels from the (m + 2) x (m + 2) around them (Lavin and Gray, arXiv:1509.09308, algorithm
1). The layout ``Tiles`` keeps each pixel of a tile in a plane of its own, so a tile's row -1 is row m - 1 of the tile
above: another plane, ``pitch`` positions away. Every step is one NumPy call over whole strips of tiles:

    rows       Y[a, px]   = sum over r of B^T[a, r] X[row r - 1, px]        m + 2 source planes, one position wider
    columns    V[a, b]    = sum over s of B^T[b, s] Y[a, column s - 1]
    multiply   M[a, b]    = V[a, b] @ U[a, b]                               (tiles, C) @ (C, M) a frequency
    bias                    is added to M[1, 1] alone: all outputs take frequency (1, 1) once
    rows       Z[py, b]   = sum over a of A^T[py, a] M[a, b]
    columns    P[py, px]  = sum over b of A^T[px, b] Z[py, b]               straight into the output's planes
"""

from __future__ import annotations

from functools import partial
from typing import Iterator, List, Sequence

import numpy as np

from runtime_arm.engines import tiled
from runtime_arm.engines.gemm import Panels
from runtime_arm.engines.steps import Step
from runtime_arm.engines.winograd_transforms import (
    TAPS,
    input_steps,
    output_steps,
    temporaries,
    transform_filters,
)
from runtime_arm.kernel import Call, Run
from runtime_arm.layouts import Strip, Tiles
from runtime_arm.netdef import Array
from runtime_arm.tensor import TensorSpec

BLOCK_NBYTES = 2 << 20  # of V and M together: smaller blocks make short runs, larger ones leave the second-level cache


def most_tiles(x: Tiles, y: Tiles, itemsize: int) -> int:
    """Tiles that are computed at once."""
    return max(1, BLOCK_NBYTES // ((x.tile + TAPS - 1) ** 2 * (x.channels + y.channels) * itemsize))


def scratch(x: Tiles, y: Tiles, dtype: np.dtype) -> Sequence[TensorSpec]:
    """Two buffers, which take turns, and the temporaries of the transforms."""
    tiles = max((strip.size for strip in x.strips(most_tiles(x, y, dtype.itemsize))), default=0)
    reach, widest = x.tile + TAPS - 1, max(x.channels, y.channels)
    line = max(reach * tiles * widest, x.tile * (tiles + 2) * x.channels)
    return [TensorSpec((size,), dtype) for size in (reach * line, reach * line, *[line] * temporaries(x.tile))]


def bind(call: Call, x: Tiles, y: Tiles) -> Run:
    filters = Panels.of(call, f"f{x.tile}x{x.tile}_3x3", lambda: _by_channel(x.tile, call.inputs[1]))
    steps: List[Step] = tiled.clear_borders(call, call.outputs[0], y)
    for strip in tiled.strips_of(call, y, most_tiles(x, y, call.outputs[0].itemsize)):
        steps += _filter(call, x, y, strip, filters)
        steps += tiled.finish(call, y, strip, bias=False)
    return tiled.in_turn(steps)


def _by_channel(tile: int, w: Array) -> Array:
    """U: ((tile + 2)^2, C, M)."""
    u: Array = transform_filters(tile, w).swapaxes(1, 2)
    return u


def _filter(call: Call, x: Tiles, y: Tiles, strip: Strip, filters: Panels) -> Iterator[Step]:
    front, back, *work = call.scratch[: 2 + temporaries(x.tile)]
    tile, reach, count = x.tile, x.tile + TAPS - 1, strip.size
    channels, width = x.channels, y.channels
    wide = (count + 2) * channels
    rows = _first(front, reach, tile, wide)
    yield from input_steps(tile, _row_sources(call.inputs[0], x, strip), rows, [_first(t, tile, wide) for t in work])
    spectrum = _first(back, reach, reach, count * channels)
    columns = [rows[:, phase, (1 + shift) * channels : (1 + shift + count) * channels]
               for phase, shift in (x.neighbour(1, s - 1) for s in range(reach))]  # fmt: skip
    temporary = [_first(t, reach, count * channels) for t in work]
    yield from input_steps(tile, columns, spectrum.swapaxes(0, 1), temporary)
    products = _first(front, reach * reach, count, width)
    yield filters.multiply(spectrum.reshape(reach * reach, count, channels), products)
    if len(call.inputs) > 2 and call.inputs[2] is not None:
        yield partial(np.add, products[reach + 1], call.inputs[2], out=products[reach + 1])
    half = _first(back, tile, reach, count * width)
    temporary = [_first(t, reach * count * width) for t in work]
    yield from output_steps(tile, products.reshape(reach, -1), half.reshape(tile, -1), temporary)
    target = tiled.body(call.outputs[0], y, strip).reshape(tile, tile, count * width)
    temporary = [_first(t, tile, count * width) for t in work]
    yield from output_steps(tile, half.swapaxes(0, 1), target.swapaxes(0, 1), temporary)


def _row_sources(memory: Array, x: Tiles, strip: Strip) -> List[Array]:
    """The m + 2 rows of pixels that the strip's tiles meet, each (tile, positions * channels), a position wider."""
    sources = []
    for row in range(x.tile + TAPS - 1):
        phase, shift = x.neighbour(0, row - 1)
        begin = x.guard + strip.begin + shift
        sources.append(memory[phase, :, begin - 1 : begin + strip.size + 1].reshape(x.tile, -1))
    return sources


def _first(buffer: Array, *shape: int) -> Array:
    return buffer[: int(np.prod(shape))].reshape(shape)
