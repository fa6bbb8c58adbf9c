"""Products with few pixels and many filters, where BLAS multiplies small matrices without packing them.

Its kernels hold 64 x 6 results in registers, if the right matrix is contiguous along the 64 and the left one,
transposed, along the 6 (OpenBLAS's sgemm_small_kernel_nt_skylakex.c). Of the left matrix they read six numbers for
every 64 that they have of the right one: filters that stream from memory, once, come in time, while all channels of
the pixels stay in the second-level cache. With the channels last, filters are the right matrix, and each product
waits for its first row of them. So here the positions of pixels are the 64, and the filters the 6:

    gather     X[c, position]  = the input's [position, c]; what remains of the 64 is zero
    multiply   Y[m, position]  = W^T @ X                       panels of W are (C, 6)
    scatter    the output's [position, m] = Y
"""

from __future__ import annotations

from copy import copy as copy_of
from functools import partial
from typing import Iterator, List, Optional

import numpy as np

from runtime_arm.engines import gemm
from runtime_arm.engines.pointwise import STRIDED, weight_cost
from runtime_arm.engines.steps import Step, copy, multiply
from runtime_arm.kernel import Work
from runtime_arm.netdef import Array

POSITIONS, FILTERS = 64, 6  # of the results that BLAS holds in registers
LEAST_POSITIONS = 48  # below, too many of the 64 are computed in vain
LEAST_DEPTH = 256  # of the matrices; below, panels with the channels last stay in the first-level cache
MOST_DEPTH = gemm.SMALL_PRODUCT // (POSITIONS * FILTERS)  # of a product; beyond, sums are computed in parts
GATHERED, SCATTERED = 32, 128  # positions and channels that are turned at once, measured


def suits(positions: int, depth: int, width: int, products: int = 1, planes: int = 1) -> bool:
    """Whether that is the faster way for so many positions, (depth, width) filters, products with them, and planes of
    pixels before and behind."""
    fits = LEAST_POSITIONS <= positions <= POSITIONS and depth >= LEAST_DEPTH and gemm.multiplies_small()
    otherwise = products * depth * width * (positions + weight_cost())
    return fits and work(depth, width, products, planes).time < otherwise


def work(depth: int, width: int, products: int = 1, planes: int = 1) -> Work:
    """What these take, see ``suits``. Filters cost no time of their own, and the products are faster than others."""
    return Work(products * depth * width * (POSITIONS - FILTERS),
                STRIDED / 2 * planes * POSITIONS * (depth + width))  # fmt: skip


class Filters:
    """Constant (batch, C, M) in panels (batch, panels, C, 6); zeros fill the last one."""

    def __init__(self, matrices: Array):
        self.batch, self.depth, self.width = matrices.shape
        padded = np.pad(matrices, ((0, 0), (0, 0), (0, -self.width % FILTERS)))
        panels = padded.reshape(self.batch, self.depth, -1, FILTERS).swapaxes(1, 2)
        cuts = range(0, self.depth, MOST_DEPTH)
        self._parts = [np.ascontiguousarray(panels[:, :, begin : begin + MOST_DEPTH]) for begin in cuts]

    def columns(self, which: slice) -> Filters:
        """Some of the filters, whole panels of them but for the last; they share the memory."""
        some = copy_of(self)
        begin, end, _ = which.indices(self.width)
        some.width = end - begin
        some._parts = [part[:, begin // FILTERS : -(-end // FILTERS)] for part in self._parts]
        return some

    def multiply(self, pixels: Array, products: Array, spare: Optional[Array] = None) -> Iterator[Step]:
        """products, (batch, padded, 64), from (batch, C, 64). spare: like the products, for more than MOST_DEPTH."""
        for begin, part in zip(range(0, self.depth, MOST_DEPTH), self._parts):
            result = products if begin == 0 else spare
            assert result is not None
            target = result.reshape(self.batch, -1, FILTERS, POSITIONS)
            yield multiply(part.swapaxes(2, 3), pixels[:, None, begin : begin + MOST_DEPTH], target)
            if begin:
                yield partial(np.add, products, result, out=products)


def padded(filters: int) -> int:
    """Filters in whole panels."""
    return -(-filters // FILTERS) * FILTERS


def gather(pixels: Array, columns: Array) -> List[Step]:
    """columns, (..., C, positions), from (..., positions, C)."""
    source, count = pixels.swapaxes(-1, -2), columns.shape[-1]
    parts = (slice(begin, begin + GATHERED) for begin in range(0, count, GATHERED))
    return [copy(columns[..., part], source[..., part]) for part in parts]


def scatter(products: Array, pixels: Array) -> List[Step]:
    """pixels, (..., positions, M), from (..., M, positions)."""
    source, count = products.swapaxes(-1, -2), pixels.shape[-1]
    parts = (slice(begin, begin + SCATTERED) for begin in range(0, count, SCATTERED))
    return [copy(pixels[..., part], source[..., part]) for part in parts]
