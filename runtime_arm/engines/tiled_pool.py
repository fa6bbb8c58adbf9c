"""Pools between blobs in tiles: a pool of stride s makes tiles of m x m pixels from tiles of s * m x s * m.

Under one tap of the kernel all outputs of a plane meet pixels of one plane, row by row. Taps that meet nothing but
padding are left out, others where they do. A block of rows stays in the cache from the first tap to the last.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from runtime_arm.engines import tiled
from runtime_arm.engines.steps import Step, copy, cut
from runtime_arm.kernel import Call, Run
from runtime_arm.layouts import Strip, Tiles
from runtime_arm.netdef import Array
from runtime_arm.operators.geometry import Window
from runtime_arm.operators.pool import Pool

BLOCK_NBYTES = 1 << 18  # of a plane's outputs


class _Met(NamedTuple):
    """What one tap contributes to the outputs of a plane: to which of them, and the pixels."""

    outputs: Tuple[Any, ...]
    pixels: Array


def bind(call: Call, pool: Pool, combine: np.ufunc, x: Tiles, y: Tiles) -> Run:
    """Combine with np.maximum, or with np.add: sums are divided by the pool's divisors."""
    result = call.outputs[0]
    scale = (1 / pool.divisors).astype(result.dtype).reshape(pool.window.output)
    high = max(1, BLOCK_NBYTES // (y.pitch * y.channels * result.itemsize))
    rows = y.image_tiles((0, 0))[0]
    blocks = [(image, *part) for image in range(y.batch) for part in cut(rows, min(high, -(-rows // call.workers)))]
    steps = tiled.clear_borders(call, result, y)
    for image, begin, end in call.mine(blocks):
        for phase in np.ndindex(y.tile, y.tile):
            target = y.pixels(result, phase)[image, begin:end]
            met = [_meet(call.inputs[0], x, pool.window, y, phase, tap, (image, begin, begin + len(target)))
                   for tap in _from_the_middle(pool.window)]  # fmt: skip
            steps += _combine(combine, target, [one for one in met if one is not None])
            if combine is np.add:
                factors = np.ascontiguousarray(scale[phase[0] :: y.tile, phase[1] :: y.tile][begin:end, :, None])
                steps.append(partial(np.multiply, target, factors, out=target))
        strip = Strip(image * y.rows + begin, image * y.rows + end, 0, y.pitch, y.pitch)
        steps += [copy(view, tiled.ZERO) for view in y.outside(result, strip)]
    return tiled.in_turn(steps)


def _from_the_middle(window: Window) -> List[Tuple[int, int]]:
    """All taps, those first that most outputs meet."""
    taps = [(ky, kx) for ky in range(window.kernel[0]) for kx in range(window.kernel[1])]
    return sorted(taps, key=lambda tap: sum(abs(2 * k - size + 1) for k, size in zip(tap, window.kernel)))


def _meet(memory: Array, x: Tiles, window: Window, y: Tiles, phase: Tuple[int, int], tap: Tuple[int, int],
          block: Tuple[int, int, int]) -> Optional[_Met]:
    """What the tap contributes to the block's outputs of a plane. block: image, first and last row of tiles."""
    index: List[slice] = []
    pixels: List[slice] = []
    planes: List[int] = []
    for axis, (begin, end) in enumerate((block[1:], (0, y.image_tiles(phase)[1]))):
        offset = phase[axis] * window.stride[axis] + tap[axis] * window.dilation[axis] - window.head[axis]
        shift, plane = divmod(offset, x.tile)
        inside = x.image_tiles((plane, plane))[axis]
        first, last = max(begin, -shift), min(end, inside - shift)
        if first >= last:
            return None
        index.append(slice(first - begin, last - begin))
        pixels.append(slice(first + shift, last + shift))
        planes.append(plane)
    return _Met(tuple(index), x.grid(memory[planes[0], planes[1]])[block[0]][tuple(pixels)])


def _combine(combine: np.ufunc, target: Array, met: List[_Met]) -> Iterator[Step]:
    """The first two taps that all outputs meet fill the target; if there are none, what is neutral does."""
    whole = [one for one in met if one.pixels.shape == target.shape]
    if len(whole) > 1:
        yield partial(combine, whole[0].pixels, whole[1].pixels, out=target)
        met = [one for one in met if not any(one is other for other in whole[:2])]
    else:
        yield partial(target.fill, -np.inf if combine is np.maximum else 0)
    for one in met:
        part = target[one.outputs]
        yield partial(combine, part, one.pixels, out=part)

