"""Products with few pixels and many filters, where BLAS multiplies small matrices without packing them.

With the channels last, filters are the right matrix, and every product waits for its first row of them. So here the
positions are what a vector holds: 16, 32 or 64 lanes, and the filters stream past them once:

    gather     X[c, lane]  = the input's [position, c]; the lanes behind the last position are zero
    multiply   Y[m, lane]  = W^T @ X                       six filters at once
    scatter    the output's [position, m] = Y

OpenBLAS holds the results of 6 filters in registers. How the filters should lie depends on the lanes, for its kernels
are fast at different things (sgemm_small_kernel_nt_skylakex.c, sgemm_small_kernel_nn_skylakex.c):

    64        W in panels (C, 6), one behind the other: a single stream
    16, 32    six rows of W^T, six streams. A core fetches ahead one stream a page of memory, so a product's rows are
              no neighbours but lie a sixth of all rows apart, which is twice as fast: (6, panels, C), and so are those
              of Y
"""

from __future__ import annotations

from copy import copy as copy_of
from functools import partial
from typing import Dict, Iterator, List, Optional

import numpy as np

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.pointwise import STRIDED, weight_cost
from runtime_arm.netdef import Array
from runtime_arm.registry.kernel import Work
from runtime_arm.registry.steps import Step, copy, multiply

# What one weight takes with so many lanes, in multiplies of a large matrix product. Measured: 100, 145 and 135 GFLOP/s,
# whether the filters lie in memory or in the cache, where a large product has 125.
COSTS: Dict[int, int] = {16: 20, 32: 28, 64: 58}
HALVES_COST = 72  # with 64 lanes, where the CPU halves vectors: 110 GFLOP/s beside 105 of panels, which waste no lanes
LANES, FILTERS = max(COSTS), 6  # of the results that BLAS holds in registers
LEAST_DEPTHS = {16: 96, 32: 96, 64: 256}  # of the matrices; below, panels with the channels last stay in a near cache
MOST_DEPTH = gemm.SMALL_PRODUCT // (LANES * FILTERS)  # of a product; beyond, sums are computed in parts
SPARE = 16  # numbers between planes: at distances of a power of two they would meet in one set of the cache
GATHERED, SCATTERED = 32, 128  # positions and channels that are transposed at once, measured


def lanes(positions: int) -> int:
    """The lanes that are computed for this many positions, at most LANES."""
    return min(count for count in COSTS if count >= positions)


def suits(positions: int, depth: int, width: int, products: int = 1, planes: int = 1) -> bool:
    """Whether this is faster than a large product, for so many positions, (depth, width) filters, so many products with
    them, and planes of pixels before and behind; BLAS must multiply small matrices."""
    if positions > LANES or depth < LEAST_DEPTHS[lanes(positions)]:
        return False
    otherwise = products * depth * width * (positions + weight_cost())
    return work(positions, depth, width, products, planes).time < otherwise


def work(positions: int, depth: int, width: int, products: int = 1, planes: int = 1) -> Work:
    """The cost of that; the parameters are those of ``suits``."""
    count = lanes(positions)
    cost = HALVES_COST if count == LANES and gemm.halves_vectors() else COSTS[count]
    return Work(products * depth * width * cost, STRIDED / 2 * planes * count * (depth + width))


class Filters:
    """Constant matrices (batch, C, M) for products with 16, 32 or 64 lanes. Zeros fill up the last six filters."""

    def __init__(self, matrices: Array, lanes: int):
        self.batch, self.depth, self.width = matrices.shape
        self._lanes = lanes
        whole = np.pad(matrices, ((0, 0), (0, 0), (0, -self.width % FILTERS)))
        cuts = (slice(begin, begin + MOST_DEPTH) for begin in range(0, self.depth, MOST_DEPTH))
        self._parts = [np.ascontiguousarray(self._stored(whole[:, cut])) for cut in cuts]

    def _stored(self, matrices: Array) -> Array:
        """With the filters along the second dimension: (batch, M / 6, C, 6) or (batch, M, C)."""
        in_panels = matrices.reshape(*matrices.shape[:2], -1, FILTERS) if self._lanes == LANES else matrices
        stored: Array = in_panels.swapaxes(1, 2)
        return stored

    def columns(self, which: slice) -> Filters:
        """Some of the filters, from a multiple of six on; they share the memory."""
        some = copy_of(self)
        begin, end, _ = which.indices(self.width)
        some.width = end - begin
        step = FILTERS if self._lanes == LANES else 1
        some._parts = [part[:, begin // step : padded(end) // step] for part in self._parts]
        return some

    def multiply(self, pixels: Array, products: Array, spare: Optional[Array] = None) -> Iterator[Step]:
        """products, (batch, padded filters, lanes), from pixels (batch, C, lanes). spare: a buffer like the products,
        for depths above MOST_DEPTH."""
        for begin, part in zip(range(0, self.depth, MOST_DEPTH), self._parts):
            result = products if begin == 0 else spare
            assert result is not None
            yield self._multiply(part, pixels[:, None, begin : begin + MOST_DEPTH], result)
            if begin:
                yield partial(np.add, products, result, out=products)

    def _multiply(self, part: Array, pixels: Array, result: Array) -> Step:
        if self._lanes == LANES:
            return multiply(part.swapaxes(2, 3), pixels, result.reshape(self.batch, -1, FILTERS, self._lanes))
        apart = (array.reshape(self.batch, FILTERS, -1, array.shape[-1]).swapaxes(1, 2) for array in (part, result))
        filters, target = apart
        return multiply(filters, pixels, target)


def padded(filters: int) -> int:
    """So many filters and those that fill up the last six."""
    return -(-filters // FILTERS) * FILTERS


def gather(pixels: Array, columns: Array) -> List[Step]:
    """columns, (..., C, positions), from pixels (..., positions, C)."""
    source, count = pixels.swapaxes(-1, -2), columns.shape[-1]
    parts = (slice(begin, begin + GATHERED) for begin in range(0, count, GATHERED))
    return [copy(columns[..., part], source[..., part]) for part in parts]


def scatter(products: Array, pixels: Array) -> List[Step]:
    """pixels, (..., positions, M), from products (..., M, positions)."""
    source, count = products.swapaxes(-1, -2), pixels.shape[-1]
    parts = (slice(begin, begin + SCATTERED) for begin in range(0, count, SCATTERED))
    return [copy(pixels[..., part], source[..., part]) for part in parts]
