"""IM2COL and POINTWISE between blobs in tiles: convolutions as products of matrices over strips of pixels.

A convolution of stride s makes tiles of m x m pixels from tiles of s * m x s * m: output pixel (py, px) of a tile and
tap (ky, kx) meet the pixel (s * py + ky - head, s * px + kx - head) of the same tile, or of one nearby. So under one
tap a whole strip of output tiles meets pixels of one plane, which lie as far apart as the outputs do:

    columns   A[position, (ky, kx, c)] = X[plane, position + shift, c]      one copy a tap, or a row of taps
    multiply  Y[py, px, position, m]   = A @ W                              (positions, kh * kw * C) @ (kh * kw * C, M)

A kernel of 1 and stride 1 needs no columns: a plane is the matrix.
"""

from __future__ import annotations

from typing import Iterator, List, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines import tiled
from runtime_arm.engines.gemm import Panels
from runtime_arm.engines.steps import Step, copy
from runtime_arm.engines.tiled_epilogue import bias, finish
from runtime_arm.kernel import Call, Run
from runtime_arm.layouts import Strip, Tiles
from runtime_arm.netdef import Array
from runtime_arm.operators.conv import Convolution
from runtime_arm.tensor import TensorSpec

BLOCK_NBYTES = 1 << 20  # of the columns and products of a block: both stay in a second-level cache


def most_positions(convolution: Convolution, itemsize: int) -> int:
    """Positions of a plane that are computed at once."""
    return max(1, BLOCK_NBYTES // ((convolution.terms + convolution.filters) * itemsize))


def scratch(convolution: Convolution, y: Tiles, dtype: np.dtype) -> Sequence[TensorSpec]:
    """The columns of a block; none for a pointwise convolution."""
    if is_pointwise(convolution):
        return ()
    strips = y.strips(most_positions(convolution, dtype.itemsize))
    return [TensorSpec((max((strip.size for strip in strips), default=0) * convolution.terms,), dtype)]


def is_pointwise(convolution: Convolution) -> bool:
    window = convolution.window
    return set(window.kernel) == {1} and set(window.stride) == {1} and not any(window.head + window.tail)


def bind(call: Call, convolution: Convolution, x: Tiles, y: Tiles) -> Run:
    steps: List[Step] = tiled.clear_borders(call, call.outputs[0], y)
    make = _pointwise if is_pointwise(convolution) else _columns
    most = most_positions(convolution, call.outputs[0].itemsize)
    strips, filters = tiled.shares_of(call, y, most, convolution.terms * y.channels)
    panels = Panels.of(call, "by channel", max((strip.size for strip in strips), default=1),
                       lambda: call.inputs[1].transpose(2, 3, 1, 0).reshape(1, -1, y.channels)).columns(filters)
    biases = bias(call, filters)
    for strip in strips:
        products = tiled.body(call.outputs[0][..., filters], y, strip)
        steps += make(call, convolution, x, y, strip, panels, products)
        steps += finish(call, y, strip, biases, channels=filters)
    return tiled.in_turn(steps)


def _pointwise(call: Call, convolution: Convolution, x: Tiles, y: Tiles, strip: Strip, panels: Panels,
               products: Array) -> List[Step]:
    pixels = tiled.body(call.inputs[0], x, strip)
    return [step for plane in np.ndindex(y.tile, y.tile)
            for step in panels.multiply(pixels[plane][None], products[plane][None])]  # fmt: skip


def _columns(call: Call, convolution: Convolution, x: Tiles, y: Tiles, strip: Strip, panels: Panels,
             products: Array) -> Iterator[Step]:
    window, count = convolution.window, strip.size
    columns = call.scratch[0][: count * convolution.terms].reshape(count, *window.kernel, x.channels)
    for py, px in np.ndindex(y.tile, y.tile):
        for ky in range(window.kernel[0]):
            row, up = x.neighbour(0, py * window.stride[0] + ky * window.dilation[0] - window.head[0])
            if x.tile == 1 and window.dilation[1] == 1:
                begin = x.guard + strip.begin + up - window.head[1]
                yield copy(columns[:, ky], _runs(call.inputs[0][0, 0], begin, count, window.kernel[1]))
                continue
            for kx in range(window.kernel[1]):
                column, left = x.neighbour(1, px * window.stride[1] + kx * window.dilation[1] - window.head[1])
                begin = x.guard + strip.begin + up + left
                yield copy(columns[:, ky, kx], call.inputs[0][row, column, begin : begin + count])
        yield from panels.multiply(columns.reshape(1, count, convolution.terms), products[py, px][None])


def _runs(plane: Array, begin: int, count: int, taps: int) -> Array:
    """For each of ``count`` positions the pixels of ``taps`` neighbours, which follow each other: (count, taps, C)."""
    step, channel = plane.strides
    view: Array = as_strided(plane[begin:], (count, taps, plane.shape[1]), (step, step, channel))
    return view
