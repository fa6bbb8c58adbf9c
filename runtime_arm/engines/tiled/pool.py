"""Pools between blobs in tiles: a pool of stride s makes tiles of m x m pixels from tiles of s * m x s * m.

First the rows of the kernel are combined, then its columns: that takes 3 + 3 taps per output if the kernel has 9.

    between[px, row, column]  = combination over ky of  X[plane of (py, ky), px, row + shift, column]
    Y[py, px, row, column]    = combination over kx of  between[plane of (px, kx), row, column + shift]

With one tap all outputs of a plane read pixels of one plane, row by row. A tap is left out for outputs for which it
would read padding. A strip of rows stays in the cache from the first tap to the activation.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Iterator, List, Sequence, Tuple

import numpy as np

from runtime_arm.engines.tiled.epilogue import finish
from runtime_arm.engines.tiled.strips import Target, clear, clear_borders, image_rows, in_turn
from runtime_arm.netdef import Array
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.pool.caffe2 import Pool
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import BLOCK, ranges
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.layouts import Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step

BLOCK_NBYTES = 1 << 19  # of the results between the two passes over a strip


def bind_planes(call: Call) -> Run:
    """The largest of each tile of 2 x 2 pixels, from planes to planes at the same positions; outside stays zero."""
    x, y = call.inputs[0], call.outputs[0][0, 0]
    channels, positions = y.shape
    steps: List[Step] = []
    for begin, end in call.mine(ranges(channels, max(1, BLOCK // positions), call.workers)):
        target, planes = y[begin:end], x[:, :, begin:end].reshape(4, end - begin, positions)
        steps.append(partial(np.maximum, planes[0], planes[1], out=target))
        steps += [partial(np.maximum, target, plane, out=target) for plane in planes[2:]]
    return in_turn(steps)


def scratch(x: Tiles, y: Tiles, dtype: np.dtype) -> Sequence[TensorSpec]:
    """What a strip has between the passes: (tile, rows, columns, channels)."""
    rows = min(_most_rows(x, dtype.itemsize), y.image_tiles((0, 0))[0])
    return [TensorSpec((x.tile, rows, x.pitch, x.channels), dtype)]


def _most_rows(x: Tiles, itemsize: int) -> int:
    return max(1, BLOCK_NBYTES // (x.tile * x.pitch * x.channels * itemsize))


def bind(call: Call, pool: Pool, combine: np.ufunc, x: Tiles, y: Tiles) -> Run:
    """Combines with np.maximum, or with np.add; sums are divided by the pool's divisors."""
    result = call.outputs[0]
    scale = (1 / pool.divisors).astype(result.dtype).reshape(pool.window.output)
    rows = y.image_tiles((0, 0))[0]
    most = min(_most_rows(x, result.itemsize), -(-rows // call.workers))
    steps = clear_borders(call, y)

    @cache
    def meet(axis: int, phase: int, begin: int, end: int) -> List[_Tap]:
        return _meet(axis, pool.window, x, y, phase, (begin, end))

    for strip in call.mine(image_rows(y, ranges(rows, most))):
        image, begin, end = strip
        pixels = x.grid(call.inputs[0])[:, :, image]
        for phase in range(y.tile):
            count = min(end, y.image_tiles((phase, 0))[0]) - begin
            between = [call.scratch[0][px, :count, : x.image_tiles((0, px))[1]] for px in range(x.tile)]
            for px, target in enumerate(between):
                met = meet(0, phase, begin, begin + count)
                steps += _combine(combine, target, [one.of(pixels[one.plane, px, :, : target.shape[1]]) for one in met])
            for px in range(y.tile):
                target = y.pixels(result, (phase, px))[image, begin : begin + count]
                met = meet(1, px, 0, target.shape[1])
                steps += _combine(combine, target, [one.of(between[one.plane]) for one in met])
                if combine is np.add:
                    factors = np.ascontiguousarray(scale[phase :: y.tile, px :: y.tile][begin:end, :, None])
                    steps.append(partial(np.multiply, target, factors, out=target))
        steps += finish(call, Target(y, strip.strip(y)))
        steps += clear(call, y, strip.strip(y))
    return in_turn(steps)


class _Tap(NamedTuple):
    """The pixels that a row (axis 0) or column (axis 1) of the kernel reads: of which plane, and for which outputs."""

    axis: int
    plane: int
    outputs: slice
    pixels: slice

    def of(self, pixels: Array) -> Tuple[_Tap, Array]:
        """The tap with its pixels in an array (rows, columns, channels)."""
        return self, pixels[self.pixels] if self.axis == 0 else pixels[:, self.pixels]

    def part(self, target: Array) -> Array:
        """Its outputs."""
        return target[self.outputs] if self.axis == 0 else target[:, self.outputs]


def _meet(axis: int, window: Window, x: Tiles, y: Tiles, phase: int, outputs: Tuple[int, int]) -> List[_Tap]:
    """The taps of the outputs from ``begin`` to ``end`` of a plane, the middle of the kernel first."""
    begin, end = outputs
    taps = []
    for tap in sorted(range(window.kernel[axis]), key=lambda tap: abs(2 * tap - window.kernel[axis] + 1)):
        shift, plane = divmod(phase * window.stride[axis] + tap * window.dilation[axis] - window.head[axis], x.tile)
        first, last = max(begin, -shift), min(end, x.image_tiles((plane, plane))[axis] - shift)
        if first < last:
            taps.append(_Tap(axis, plane, slice(first - begin, last - begin), slice(first + shift, last + shift)))
    return taps


def _combine(combine: np.ufunc, target: Array, met: Sequence[Tuple[_Tap, Array]]) -> Iterator[Step]:
    """The first two taps that all outputs meet fill the target; without any, the neutral element does."""
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
