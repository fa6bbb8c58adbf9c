"""WINOGRAD between blobs in tiles, inside of which the channels come first: for deep layers of few tiles.

The products are those of ``planar``, filters that stream once past pixels. So a channel's positions follow each other:

    gather     X[py, px, c, position]  = the input's [py, px, position, c]; zeros behind the last one
    transform  V[a, b, c, position]      as ``tile_transforms`` does, the next position is the next number
    multiply   M[a, b, m, position]    = U[a, b]^T @ V[a, b]
    transform  Y[py, px, m, position]
    scatter    the output's [py, px, position, m] = Y

A channel takes 64 positions in every plane. Those behind the image are zero: a row below the image, which is also the
row above that of the next channel. What positions outside of the image get is nonsense that is never read.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator, Optional, Sequence

import numpy as np

from runtime_arm.engines import planar, tiled
from runtime_arm.engines.planar import POSITIONS, Filters
from runtime_arm.engines.steps import ZERO, Step, copy, shaped
from runtime_arm.engines.tile_transforms import Result, Stretch, transform_back, transform_columns, transform_rows
from runtime_arm.engines.winograd_transforms import TAPS
from runtime_arm.kernel import Call, Work
from runtime_arm.layouts import Strip, Tiles
from runtime_arm.netdef import Array

SPARE = 16  # numbers between planes: at distances of a power of two they would meet in one set of the cache


def suits(x: Tiles, y: Tiles) -> bool:
    """Whether this is the faster way between such blobs."""
    whole = y.image_tiles((0, 0))[0] * x.pitch
    fits = x.batch == 1 and whole + x.pitch <= POSITIONS and x.channels <= planar.MOST_DEPTH
    return fits and planar.suits(whole, x.channels, y.channels, (x.tile + TAPS - 1) ** 2, x.tile**2)


def work(x: Tiles, y: Tiles) -> Work:
    """What products and copies take."""
    return planar.work(x.channels, y.channels, (x.tile + TAPS - 1) ** 2, x.tile**2)


def scratch(x: Tiles, y: Tiles) -> Sequence[int]:
    """Elements of three buffers: rows and products, spectrum, pixels of the input and perhaps of the output."""
    reach, planes = x.tile + TAPS - 1, x.tile**2
    count = x.channels * POSITIONS
    front = reach * max(x.tile * (count + 2 + SPARE), reach * planar.padded(y.channels) * POSITIONS)
    back = reach * max(reach * (count + SPARE), x.tile * y.channels * POSITIONS)
    return front, back, planes * max(count + 2 * _margin(x), y.channels * POSITIONS)


def _margin(x: Tiles) -> int:
    """Zeros before the first channel and behind the last one."""
    return x.pitch + 1


def convolve(call: Call, x: Tiles, filters: Filters, strip: Strip, bias: Optional[Array],
             pixels: Optional[Array]) -> Result:
    """As ``tiled_winograd.convolve``; the strip has all positions of an image."""
    front, back, third = call.scratch[:3]
    reach, margin = x.tile + TAPS - 1, _margin(x)
    stretch = Stretch(margin, x.channels * POSITIONS, 1, x.pitch)
    planes = shaped(third, x.tile, x.tile, stretch.numbers + 2 * margin)
    rows = shaped(front, x.tile, reach, stretch.wide + SPARE)[..., : stretch.wide]
    spectrum = shaped(back, reach, reach, stretch.numbers + SPARE)[..., : stretch.numbers]
    products = shaped(front, reach * reach, planar.padded(filters.width), POSITIONS)
    steps = [*_gather(call.inputs[0], x, planes, margin), *transform_rows(planes, stretch, rows),
             *transform_columns(rows, stretch, spectrum),
             *filters.multiply(spectrum.reshape(reach * reach, x.channels, POSITIONS), products)]  # fmt: skip
    if bias is not None:
        biased = products[reach + 1, : filters.width]
        steps.append(partial(np.add, biased, bias[:, None], out=biased))
    flat = products.reshape(len(products), -1)[:, : filters.width * POSITIONS]
    results, transform = transform_back(flat, (front, back), tiled.block_nbytes(call.op), None)
    if pixels is None:
        pixels = shaped(third, x.tile, x.tile, strip.size, filters.width)
    grid = results.reshape(x.tile, x.tile, filters.width, POSITIONS)[..., : strip.size]
    return pixels, [*steps, *transform, *planar.scatter(grid, pixels)]


def _gather(memory: Array, x: Tiles, planes: Array, margin: int) -> Iterator[Step]:
    """From (tile, tile, positions, C) to (tile, tile, numbers)."""
    target = planes[:, :, margin:-margin].reshape(x.tile, x.tile, x.channels, POSITIONS)
    count = min(POSITIONS, x.body + x.guard)  # of the guard, which is zero, what is there
    for view in (planes[:, :, :margin], target[..., count:], planes[:, :, -margin:]):
        yield copy(view, ZERO)
    yield from planar.gather(memory[:, :, x.guard : x.guard + count], target[..., :count])
