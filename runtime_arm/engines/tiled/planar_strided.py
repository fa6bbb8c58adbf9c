"""WINOGRAD in one dimension, F(1x2, 3x3), for 3x3 convolutions of stride 2, with the channels first inside: 5 products
for two outputs side by side instead of 6.

Under two outputs lie five pixels d of a row, of which they share one, and a row of the kernel is w:

    y0 = d0 w0 + d1 w1 + d2 w2 = (d0 - d2) w0 + d2 (w0 + w2)                + d1 w1
    y1 = d2 w0 + d3 w1 + d4 w2 =                d2 (w0 + w2) + (d4 - d2) w2 + d3 w1

The rows of the kernel are summed up as in any product of matrices. So:

    gather    D[j, (ky, c), pair]   d0, d2, d4, d1, d3 of each pair of outputs; zeros behind the last one
    subtract  D[0] -= D[1];  D[2] -= D[1]
    multiply  M[j, m, pair]         = U[j]^T @ D[j]            the products of ``planar``
    bias                              is added to M[1] alone: both outputs take it once
    add       M[0] += M[1] + M[3];  M[2] += M[1] + M[4]
    scatter   the output's [position, m] = M[0] or M[2]

For deep layers of so few pixels that their pairs fill vectors better than they do: 7x7 pixels are 28 pairs.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator, List, NamedTuple, Optional, Sequence

import numpy as np

from runtime_arm.engines.conv.pointwise import STRIDED
from runtime_arm.engines.tiled import columns as tiled_convolution
from runtime_arm.engines.tiled import planes as planar
from runtime_arm.engines.tiled import strips as tiled
from runtime_arm.engines.tiled.columns import Met
from runtime_arm.engines.tiled.planes import POSITIONS, SPARE
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.registry.kernel import Call, Run, Work
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ZERO, Step, copy, shaped

TAPS, STRIDE = 3, 2
PRODUCTS, REACH = 5, 5  # of two outputs: products, and pixels of a row under them
ERROR = 5 / 3  # times that of a direct sum: where all |d| and |w| are 1 the terms of y0 add up to 2 + 2 + 1, not 3


class Pairs(NamedTuple):
    """The outputs of a convolution from ``x`` to ``y``, two of a row at a time."""

    convolution: Convolution
    x: Tiles
    y: Tiles

    @property
    def rows(self) -> int:
        return self.y.height

    @property
    def columns(self) -> int:
        """Of pairs."""
        return -(-self.y.width // 2)

    @property
    def number(self) -> int:
        return self.rows * self.columns

    @property
    def depth(self) -> int:
        """Terms of a product: the rows of the kernel, all channels of each."""
        return TAPS * self.convolution.channels

    def met(self, ky: int) -> Met:
        """The first pixels under the pairs, and a row of the kernel."""
        head, pitch = self.convolution.window.head, self.x.pitch
        return Met((ky - head[0]) * pitch - head[1], self.rows, self.columns, STRIDE * pitch, 2 * STRIDE)

    def suit(self) -> bool:
        """Whether the blobs are such as can be read and written so, and it is the faster way."""
        window, x, y = self.convolution.window, self.x, self.y
        if window.kernel != (TAPS, TAPS) or window.stride != (STRIDE, STRIDE) or set(window.dilation) != {1}:
            return False
        if not x.tile == y.tile == y.batch == 1 or self.number > POSITIONS or self.depth > planar.MOST_DEPTH:
            return False
        if y.rows * y.pitch > tiled_convolution.LEAST_ROWS:  # else results may land in several pieces
            return False
        inside = -self.met(0).begin <= x.guard and self.met(TAPS - 1).last + REACH <= x.body + x.guard
        return inside and planar.suits(self.number, self.depth, self.convolution.filters, PRODUCTS)


def suits(convolution: Convolution, x: Tiles, y: Tiles) -> bool:
    """Whether this is for a convolution between such blobs."""
    return Pairs(convolution, x, y).suit()


def work(convolution: Convolution, x: Tiles, y: Tiles) -> Work:
    """What products and copies take."""
    pairs = Pairs(convolution, x, y)
    products = planar.work(pairs.number, pairs.depth, convolution.filters, PRODUCTS, planes=0)
    copied = planar.lanes(pairs.number) * (PRODUCTS * pairs.depth + 2 * convolution.filters)
    return Work(products.multiplies, STRIDED / 2 * copied, ERROR)


def scratch(op: OperatorDef, convolution: Convolution, x: Tiles, y: Tiles, dtype: np.dtype) -> Sequence[TensorSpec]:
    """Results on the way into a slice; pixels; products; the pixels under a row of the kernel."""
    pairs = Pairs(convolution, x, y)
    lanes = planar.lanes(pairs.number)
    products = planar.padded(convolution.filters) * lanes
    sizes = (
        y.body * convolution.filters,
        PRODUCTS * (pairs.depth * lanes + SPARE),
        PRODUCTS * products,
        REACH * lanes * (x.channels + SPARE),
    )
    return [TensorSpec((size,), dtype) for size in sizes]


def bind(call: Call, convolution: Convolution, x: Tiles, y: Tiles) -> Run:
    pairs = Pairs(convolution, x, y)
    lanes = planar.lanes(pairs.number)
    steps: List[Step] = tiled.clear_borders(call, call.outputs[0], y)
    filters = call.packed(f"f1x2_3x3 by {lanes}", lambda: planar.Filters(_filters(call.inputs[1]), lanes))
    strips, mine = tiled.parts_by_filters(call, y, y.body, planar.FILTERS)
    filters = filters.columns(mine)
    pixels = shaped(call.scratch[1], PRODUCTS, pairs.depth * lanes + SPARE)[:, : pairs.depth * lanes]
    products = shaped(call.scratch[2], PRODUCTS, planar.padded(filters.width), lanes)
    bias = call.inputs[2][mine] if len(call.inputs) > 2 and call.inputs[2] is not None else None
    for strip in strips:
        steps += _gather(call.inputs[0][0, 0], pairs, pixels.reshape(PRODUCTS, TAPS, -1, lanes), call.scratch[3])
        steps += filters.multiply(pixels.reshape(PRODUCTS, pairs.depth, lanes), products)
        steps += _sums(products[:, : filters.width], bias)
        for _, ((_, target, then),) in tiled_convolution.landings(call, y, strip, [], mine, None):
            steps += [*_scatter(products[:, : filters.width], pairs, strip, target), *then]
        steps += tiled.clear(call, y, strip, mine)
    return tiled.in_turn(steps)


def _filters(w: Array) -> Array:
    """U, (5, 3 * C, M), of the filters (M, C, 3, 3); sums in float64."""
    first, middle, last = w.transpose(3, 2, 1, 0).reshape(TAPS, -1, len(w)).astype(np.float64)
    stacked: Array = np.stack([first, first + last, last, middle, middle]).astype(w.dtype)
    return stacked


def _gather(positions: Array, pairs: Pairs, pixels: Array, buffer: Array) -> Iterator[Step]:
    """From (positions, C) to (5, 3, C, lanes), and the differences; by way of rows of pixels, which are turned faster
    where they are neighbours."""
    channels, lanes = positions.shape[1], pixels.shape[-1]
    near = shaped(buffer, REACH, lanes, channels + SPARE)[..., :channels]
    grid = near[:, : pairs.number].reshape(REACH, pairs.rows, pairs.columns, channels)
    yield copy(near[:, pairs.number :], ZERO)
    for ky in range(TAPS):
        met = pairs.met(ky)
        under = tiled_convolution.runs(positions[pairs.x.guard + met.begin :], met, REACH)
        yield copy(grid, under.transpose(2, 0, 1, 3))
        yield copy(pixels[:3, ky], near[::2].swapaxes(1, 2))
        yield copy(pixels[3:, ky], near[1::2].swapaxes(1, 2))
    for difference in (pixels[0], pixels[2]):
        yield partial(np.subtract, difference, pixels[1], out=difference)


def _sums(products: Array, bias: Optional[Array]) -> Iterator[Step]:
    """Both outputs, in place of the products 0 and 2."""
    shared, outputs = products[1], products[:3:2]
    if bias is not None:
        yield partial(np.add, shared, np.repeat(bias, shared.shape[1]).reshape(shared.shape), out=shared)
    for others in (shared, products[3:]):
        yield partial(np.add, outputs, others, out=outputs)


def _scatter(products: Array, pairs: Pairs, strip: Strip, target: Array) -> Iterator[Step]:
    """From the outputs (M, pairs) to (positions, M), zeros behind the rows."""
    grid = target.reshape(pairs.rows, strip.pitch, -1)
    yield copy(grid[:, pairs.y.width :], ZERO)
    for side in range(2):
        to = grid[:, side : pairs.y.width : 2]
        results = products[2 * side, :, : pairs.number].reshape(-1, pairs.rows, pairs.columns)[..., : to.shape[1]]
        yield from planar.scatter(results.swapaxes(0, 1), to)
