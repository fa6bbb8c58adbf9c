"""Pools between blobs in tiles: a pool of stride s makes tiles of m x m pixels from tiles of s * m x s * m.

First the rows of the kernel are combined, then its columns: 3 + 3 taps an output where the kernel has 9.

    between[px, row, column]  = combination over ky of  X[plane of (py, ky), px, row + shift, column]
    Y[py, px, row, column]    = combination over kx of  between[plane of (px, kx), row, column + shift]

Under one tap all outputs of a plane meet pixels of one plane, row by row. Taps that meet nothing but padding are left
out, others where they do. A block of rows stays in the cache from the first tap to the activation.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

from runtime_arm.blocks import ranges
from runtime_arm.engines import tiled
from runtime_arm.engines.steps import Step
from runtime_arm.engines.tiled_epilogue import finish
from runtime_arm.kernel import Call, Run
from runtime_arm.layouts import Strip, Tiles
from runtime_arm.netdef import Array
from runtime_arm.operators.geometry import Window
from runtime_arm.operators.pool import Pool
from runtime_arm.tensor import TensorSpec

BLOCK_NBYTES = 1 << 19  # of what lies between the passes


def scratch(x: Tiles, y: Tiles, dtype: np.dtype) -> Sequence[TensorSpec]:
    """What a block has between the passes: (tile, rows, columns, channels)."""
    rows = min(_most_rows(x, dtype.itemsize), y.image_tiles((0, 0))[0])
    return [TensorSpec((x.tile, rows, x.pitch, x.channels), dtype)]


def _most_rows(x: Tiles, itemsize: int) -> int:
    return max(1, BLOCK_NBYTES // (x.tile * x.pitch * x.channels * itemsize))


def bind(call: Call, pool: Pool, combine: np.ufunc, x: Tiles, y: Tiles) -> Run:
    """Combine with np.maximum, or with np.add: sums are divided by the pool's divisors."""
    result = call.outputs[0]
    scale = (1 / pool.divisors).astype(result.dtype).reshape(pool.window.output)
    rows = y.image_tiles((0, 0))[0]
    most = min(_most_rows(x, result.itemsize), -(-rows // call.workers))
    blocks = [(image, *part) for image in range(y.batch) for part in ranges(rows, most)]
    steps = tiled.clear_borders(call, result, y)
    for image, begin, end in call.mine(blocks):
        source, target = Rows.of_image(call.inputs[0], x, image), Rows.of_image(result, y, image)
        steps += pooled(pool.window, combine, source, call.scratch[0], target, (begin, end))
        if combine is np.add:
            steps += _divided(target, scale, (begin, end))
        strip = Strip(image * y.rows + begin, image * y.rows + end, 0, y.pitch, y.pitch)
        steps += finish(call, y, strip, [])
        steps += tiled.clear(call, y, strip)
    return tiled.in_turn(steps)


class Rows(NamedTuple):
    """Rows of tiles of one image, from ``top`` on: (tile, tile, rows, pitch, channels)."""

    grid: Array
    top: int
    of: Tiles

    @classmethod
    def of_image(cls, memory: Array, layout: Tiles, image: int) -> Rows:
        return cls(layout.grid(memory)[:, :, image], 0, layout)

    def inside(self, phase: Tuple[int, int], rows: Tuple[int, int]) -> Array:
        """Some rows of a plane, as far as they are of the image: (rows, columns, channels)."""
        high, wide = self.of.image_tiles(phase)
        part: Array = self.grid[phase][rows[0] - self.top : min(rows[1], high) - self.top, :wide]
        return part


def pooled(window: Window, combine: np.ufunc, x: Rows, buffer: Array, y: Rows, rows: Tuple[int, int]) -> Iterator[Step]:
    """The steps that fill so many rows of tiles of the results. buffer: see ``scratch``."""
    begin, end = rows
    for phase in range(y.of.tile):
        count = min(end, y.of.image_tiles((phase, 0))[0]) - begin
        between = [buffer[px, :count, : x.of.image_tiles((0, px))[1]] for px in range(x.of.tile)]
        for px, target in enumerate(between):
            met = _meet(0, window, x.of, y.of, phase, (begin, begin + count))
            pixels = [one.of(x.grid[one.plane, px, :, : target.shape[1]], x.top) for one in met]
            yield from _combine(combine, target, pixels)
        for px in range(y.of.tile):
            target = y.inside((phase, px), rows)
            met = _meet(1, window, x.of, y.of, px, (0, target.shape[1]))
            yield from _combine(combine, target, [one.of(between[one.plane]) for one in met])


def _divided(y: Rows, scale: Array, rows: Tuple[int, int]) -> Iterator[Step]:
    tile = y.of.tile
    for py, px in np.ndindex(tile, tile):
        target = y.inside((py, px), rows)
        factors = np.ascontiguousarray(scale[py::tile, px::tile][rows[0] : rows[1], :, None])
        yield partial(np.multiply, target, factors, out=target)


class _Tap(NamedTuple):
    """What a row (axis 0) or column (axis 1) of the kernel meets: from which plane, which pixels, for which outputs."""

    axis: int
    plane: int
    outputs: slice
    pixels: slice

    def of(self, pixels: Array, top: int = 0) -> Tuple[_Tap, Array]:
        """With its pixels of an array (rows, columns, channels), the first of whose rows is ``top``."""
        rows = slice(self.pixels.start - top, self.pixels.stop - top)
        return self, pixels[rows] if self.axis == 0 else pixels[:, self.pixels]

    def part(self, target: Array) -> Array:
        """Its outputs."""
        return target[self.outputs] if self.axis == 0 else target[:, self.outputs]


def _meet(axis: int, window: Window, x: Tiles, y: Tiles, phase: int, outputs: Tuple[int, int]) -> List[_Tap]:
    """What the outputs begin..end of a plane meet, the middle of the kernel first."""
    begin, end = outputs
    taps = []
    for tap in sorted(range(window.kernel[axis]), key=lambda tap: abs(2 * tap - window.kernel[axis] + 1)):
        shift, plane = divmod(phase * window.stride[axis] + tap * window.dilation[axis] - window.head[axis], x.tile)
        first, last = max(begin, -shift), min(end, x.image_tiles((plane, plane))[axis] - shift)
        if first < last:
            taps.append(_Tap(axis, plane, slice(first - begin, last - begin), slice(first + shift, last + shift)))
    return taps


def _combine(combine: np.ufunc, target: Array, met: Sequence[Tuple[_Tap, Array]]) -> Iterator[Step]:
    """The first two taps that all outputs meet fill the target; if there are none, what is neutral does."""
    if not target.size:
        return
    whole = [pixels for _, pixels in met if pixels.shape == target.shape]
    rest = list(met)
    if len(whole) > 1:
        yield partial(combine, whole[0], whole[1], out=target)
        rest = [(tap, pixels) for tap, pixels in met if not any(pixels is other for other in whole[:2])]
    elif whole:
        yield partial(np.copyto, target, whole[0])
        rest = [(tap, pixels) for tap, pixels in met if pixels is not whole[0]]
    else:
        yield partial(target.fill, -np.inf if combine is np.maximum else 0)
    for tap, pixels in rest:
        part = tap.part(target)
        yield partial(combine, part, pixels, out=part)
