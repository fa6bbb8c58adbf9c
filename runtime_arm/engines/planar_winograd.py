"""WINOGRAD between blobs in tiles, inside of which the channels come first: for deep layers of few tiles.

Where BLAS multiplies small matrices without packing, it holds 64 x 6 results in registers, if the right matrix is
contiguous along the 64 and the left one, transposed, along the 6 (OpenBLAS's sgemm_small_kernel_nt_skylakex.c). Of the
left matrix it then reads six numbers for every 64 that it has of the right one: filters that stream from memory once
come in time, while the pixels of all channels stay in the second-level cache. So here positions are the 64, filters
the 6, and a channel's positions follow each other:

    gather     X[py, px, c, position]  = the input's [py, px, position, c]; zeros behind the last one
    transform  V[a, b, c, position]      as ``tile_transforms`` does, the next position is the next number
    multiply   M[a, b, m, position]    = U[a, b]^T @ V[a, b]    panels of U are (C, 6)
    transform  Y[py, px, m, position]
    scatter    the output's [py, px, position, m] = Y

A channel takes 64 positions in every plane. Those behind the image are zero: a row below the image, which is also the
row above that of the next channel. What positions outside of the image get is nonsense that is never read.
"""

from __future__ import annotations

from copy import copy as copy_of
from functools import partial
from typing import Iterator, Optional, Sequence

import numpy as np

from runtime_arm.engines import gemm, tiled
from runtime_arm.engines.pointwise import STRIDED
from runtime_arm.engines.steps import ZERO, Step, copy, multiply, shaped
from runtime_arm.engines.tile_transforms import Result, Stretch, transform_back, transform_columns, transform_rows
from runtime_arm.engines.winograd_transforms import TAPS
from runtime_arm.kernel import Call, Work
from runtime_arm.layouts import Strip, Tiles
from runtime_arm.netdef import Array

POSITIONS, FILTERS = 64, 6  # of the results that BLAS holds in registers
LEAST_POSITIONS = 48  # below, too many of the 64 are computed in vain
LEAST_CHANNELS = 256  # of the input; below, panels of filters stay in the first-level cache, and copies cost too much
SPARE = 16  # numbers between planes: at distances of a power of two they would meet in one set of the cache
GATHERED, SCATTERED = 32, 128  # positions and channels that are turned at once, measured


def suits(x: Tiles, y: Tiles) -> bool:
    """Whether this is the faster way between such blobs."""
    whole = y.image_tiles((0, 0))[0] * x.pitch
    fits = x.batch == 1 and whole >= LEAST_POSITIONS and whole + x.pitch <= POSITIONS
    return fits and x.channels >= LEAST_CHANNELS and gemm.multiplies_small()


def work(x: Tiles, y: Tiles) -> Work:
    """What products and copies take. Filters cost no time of their own, and the products are faster than others."""
    reach, planes = x.tile + TAPS - 1, x.tile**2
    multiplies = reach**2 * x.channels * y.channels * (POSITIONS - FILTERS)
    return Work(multiplies, STRIDED / 2 * planes * POSITIONS * (x.channels + y.channels))


class Filters:
    """Transformed filters (frequencies, C, M) in panels, (frequencies, panels, C, 6); zeros fill the last one."""

    def __init__(self, matrices: Array):
        self.batch, self.depth, self.width = matrices.shape
        padded = np.pad(matrices, ((0, 0), (0, 0), (0, -self.width % FILTERS)))
        self._panels = np.ascontiguousarray(padded.reshape(self.batch, self.depth, -1, FILTERS).swapaxes(1, 2))

    def columns(self, which: slice) -> Filters:
        """Some of the filters, whole panels of them but for the last; they share the memory."""
        part = copy_of(self)
        begin, end, _ = which.indices(self.width)
        part.width = end - begin
        part._panels = self._panels[:, begin // FILTERS : -(-end // FILTERS)]
        return part

    @property
    def padded(self) -> int:
        """Filters, with those of zeros."""
        return _padded(self.width)

    def multiply(self, spectrum: Array, products: Array) -> Step:
        """products, (frequencies, padded, 64), from the spectrum, (frequencies, C, 64)."""
        target = products.reshape(self.batch, -1, FILTERS, POSITIONS)
        return multiply(self._panels.swapaxes(2, 3), spectrum[:, None], target)


def _padded(filters: int) -> int:
    """Filters in whole panels."""
    return -(-filters // FILTERS) * FILTERS


def scratch(x: Tiles, y: Tiles) -> Sequence[int]:
    """Elements of three buffers: rows and products, spectrum, pixels of the input and perhaps of the output."""
    reach, planes = x.tile + TAPS - 1, x.tile**2
    count = x.channels * POSITIONS
    front = reach * max(x.tile * (count + 2 + SPARE), reach * _padded(y.channels) * POSITIONS)
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
    products = shaped(front, reach * reach, filters.padded, POSITIONS)
    steps = [*_gather(call.inputs[0], x, planes, margin), *transform_rows(planes, stretch, rows),
             *transform_columns(rows, stretch, spectrum),
             filters.multiply(spectrum.reshape(reach * reach, x.channels, POSITIONS), products)]  # fmt: skip
    if bias is not None:
        biased = products[reach + 1, : filters.width]
        steps.append(partial(np.add, biased, bias[:, None], out=biased))
    flat = products.reshape(len(products), -1)[:, : filters.width * POSITIONS]
    results, transform = transform_back(flat, (front, back), tiled.block_nbytes(call.op), None)
    if pixels is None:
        pixels = shaped(third, x.tile, x.tile, strip.size, filters.width)
    return pixels, [*steps, *transform, *_scatter(results, pixels)]


def _gather(memory: Array, x: Tiles, planes: Array, margin: int) -> Iterator[Step]:
    """From (tile, tile, positions, C) to (tile, tile, numbers)."""
    target = planes[:, :, margin:-margin].reshape(x.tile, x.tile, x.channels, POSITIONS)
    count = min(POSITIONS, x.body + x.guard)  # of the guard, which is zero, what is there
    for view in (planes[:, :, :margin], target[..., count:], planes[:, :, -margin:]):
        yield copy(view, ZERO)
    source = memory[:, :, x.guard : x.guard + count].swapaxes(2, 3)
    for begin in range(0, count, GATHERED):
        some = slice(begin, min(begin + GATHERED, count))
        yield copy(target[..., some], source[..., some])


def _scatter(planes: Array, pixels: Array) -> Iterator[Step]:
    """From (tile, tile, numbers) to (tile, tile, positions, M)."""
    size, channels = pixels.shape[2:]
    source = planes.reshape(*pixels.shape[:2], channels, POSITIONS)[..., :size].swapaxes(2, 3)
    for begin in range(0, channels, SCATTERED):
        some = slice(begin, begin + SCATTERED)
        yield copy(pixels[..., some], source[..., some])
