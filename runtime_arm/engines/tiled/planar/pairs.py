"""WINOGRAD in one dimension, F(1x2, 3x3), for 3x3 convolutions of stride 2, with the channels first inside: 5 products
for two outputs side by side instead of 6.

Under two outputs of a row lie five pixels d of a row, of which they share one. With w a row of the kernel:

    y0 = d0 w0 + d1 w1 + d2 w2 = (d0 - d2) w0 + d2 (w0 + w2)                + d1 w1
    y1 = d2 w0 + d3 w1 + d4 w2 =                d2 (w0 + w2) + (d4 - d2) w2 + d3 w1

The rows of the kernel are summed up as in any product of matrices. So:

    gather    D[j, (ky, c), lane]   d0, d2, d4, d1, d3 of each pair of outputs; zeros behind the last pair
    subtract  D[0] -= D[1];  D[2] -= D[1]
    multiply  M[j, m, lane]         = U[j]^T @ D[j]            the products of ``products.py``
    bias                              is added to M[1] alone: both outputs take it once
    add       M[0] += M[1] + M[3];  M[2] += M[1] + M[4]
    scatter   the output's [position, m] = M[0] or M[2]

This is for deep layers of so few pixels that pairs of them fill vectors better: 7x7 pixels are 28 pairs.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator, List, Optional, Sequence

import numpy as np

from runtime_arm.engines.conv.pointwise import STRIDED
from runtime_arm.engines.conv.winograd import Variant
from runtime_arm.engines.tiled import columns as by_columns
from runtime_arm.engines.tiled.columns import LEAST_ROWS, Met
from runtime_arm.engines.tiled.epilogue import bias_vector
from runtime_arm.engines.tiled.planar import products as planar
from runtime_arm.engines.tiled.planar.products import FILTERS, LANES, MOST_DEPTH, SPARE, Filters, padded
from runtime_arm.engines.tiled.strips import FLOAT32, Target, clear, clear_borders, in_turn, parts_by_filters
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.records import record
from runtime_arm.registry.kernel import Call, Run, Work, no_hints
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ZERO, Step, copy, shaped

TAPS, STRIDE = 3, 2
PRODUCTS, REACH = 5, 5  # of two outputs: products, and pixels of a row under them
ERROR = 5 / 3  # times that of a direct sum: where all |d| and |w| are 1 the terms of y0 add up to 2 + 2 + 1, not 3


@record(frozen=True, eq=False, repr=False)
class Pairs:
    """The algorithm by pairs of outputs side by side."""

    convolution: Convolution
    x: Tiles
    y: Tiles

    engine = "WINOGRAD"
    variants = (Variant(1, 2, TAPS).name,)
    pooling = None
    reads_slices = False
    writes_slices = True
    hints = staticmethod(no_hints)

    @property
    def rows(self) -> int:
        """Rows of outputs."""
        return self.y.height

    @property
    def columns(self) -> int:
        """Columns of pairs."""
        return -(-self.y.width // 2)

    @property
    def number(self) -> int:
        """How many pairs there are."""
        return self.rows * self.columns

    @property
    def depth(self) -> int:
        """Terms of a product: the rows of the kernel, all channels of each."""
        return TAPS * self.convolution.channels

    def met(self, ky: int) -> Met:
        """The first pixels under the pairs and a row of the kernel."""
        head, pitch = self.convolution.window.head, self.x.pitch
        return Met((ky - head[0]) * pitch - head[1], self.rows, self.columns, STRIDE * pitch, 2 * STRIDE)

    def suits(self) -> bool:
        """Whether the blobs can be read and written so, and this is the faster way."""
        window, x, y = self.convolution.window, self.x, self.y
        if window.kernel != (TAPS, TAPS) or window.stride != (STRIDE, STRIDE) or set(window.dilation) != {1}:
            return False
        if not x.tile == y.tile == y.batch == 1 or self.number > LANES or self.depth > MOST_DEPTH:
            return False
        if y.rows * y.pitch > LEAST_ROWS:  # else results may land in several pieces
            return False
        inside = -self.met(0).begin <= x.guard and self.met(TAPS - 1).last + REACH <= x.body + x.guard
        return inside and planar.suits(self.number, self.depth, self.convolution.filters, PRODUCTS)

    @property
    def work(self) -> Work:
        filters = self.convolution.filters
        products = planar.work(self.number, self.depth, filters, PRODUCTS, planes=0)
        copied = planar.lanes(self.number) * (PRODUCTS * self.depth + 2 * filters)
        return Work(products.multiplies, STRIDED / 2 * copied, ERROR)

    def scratch(self, op: OperatorDef) -> Sequence[TensorSpec]:
        """Results on the way into a slice; pixels; products; the pixels under a row of the kernel."""
        lanes, filters = planar.lanes(self.number), self.convolution.filters
        sizes = (
            self.y.body * filters,
            PRODUCTS * (self.depth * lanes + SPARE),
            PRODUCTS * padded(filters) * lanes,
            REACH * lanes * (self.x.channels + SPARE),
        )
        return [TensorSpec((size,), FLOAT32) for size in sizes]

    def bind(self, call: Call) -> Run:
        y, lanes = self.y, planar.lanes(self.number)
        steps: List[Step] = clear_borders(call, y)
        filters = call.packed(f"f1x2_3x3 by {lanes}", lambda: Filters(_filters(call.inputs[1]), lanes))
        strips, mine = parts_by_filters(call, y, y.body, FILTERS)
        filters = filters.columns(mine)
        pixels = shaped(call.scratch[1], PRODUCTS, self.depth * lanes + SPARE)[:, : self.depth * lanes]
        products = shaped(call.scratch[2], PRODUCTS, padded(filters.width), lanes)
        for strip in strips:
            steps += _gather(call.inputs[0][0, 0], self, pixels.reshape(PRODUCTS, TAPS, -1, lanes), call.scratch[3])
            steps += filters.multiply(pixels.reshape(PRODUCTS, self.depth, lanes), products)
            steps += _sums(products[:, : filters.width], bias_vector(call, mine))
            for _, ((_, results, then, _),) in by_columns.landings(call, Target(y, strip, mine), []):
                steps += [*_scatter(products[:, : filters.width], self, strip, results), *then]
            steps += clear(call, y, strip, mine)
        return in_turn(steps)


def _filters(w: Array) -> Array:
    """U, (5, 3 * C, M), of the filters (M, C, 3, 3); sums in float64."""
    first, middle, last = w.transpose(3, 2, 1, 0).reshape(TAPS, -1, len(w)).astype(np.float64)
    stacked: Array = np.stack([first, first + last, last, middle, middle]).astype(w.dtype)
    return stacked


def _gather(positions: Array, pairs: Pairs, pixels: Array, buffer: Array) -> Iterator[Step]:
    """Fill ``pixels``, (5, 3, C, lanes), from (positions, C), and subtract; by way of rows of pixels, which are
    transposed faster where they are neighbours."""
    channels, lanes = positions.shape[1], pixels.shape[-1]
    near = shaped(buffer, REACH, lanes, channels + SPARE)[..., :channels]
    grid = near[:, : pairs.number].reshape(REACH, pairs.rows, pairs.columns, channels)
    yield copy(near[:, pairs.number :], ZERO)
    for ky in range(TAPS):
        met = pairs.met(ky)
        under = by_columns.runs(positions[pairs.x.guard + met.begin :], met, REACH)
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
