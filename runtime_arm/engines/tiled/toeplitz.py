"""Depthwise convolutions of 3x3 as one small product of matrices a channel.

The image lies channel by channel, in tiles of 2 x 2 pixels. Each phase has a plane of its own, and every row of tiles
ends with a tile outside of the image. For one channel, R[row, position] has a row for each pixel that a tile meets in
its own column of tiles, and T has a weight where an output meets an input pixel under a tap:

    rows of R        0   1     2   3     4   5     6   7      8
    pixel row       -1  -1     0   0     1   1     2   2      ones, for the bias
    pixel column     0   1     0   1     0   1     0   1

    O[(column, row), position] = T @ R     for the output columns -1, 0, 1, 2 of a tile

Columns -1 and 2 are what the tile contributes to its neighbours: they are added there, one position before and behind.
Rows 4 to 7 of R are a copy of rows 0 to 3, one row of tiles further on. So a pixel takes one product of 18 terms, one
copy and one addition. With a stride of 2 a tile makes one pixel: T is (2, 7), R ends with pixel row 1, and a tile
contributes to one neighbour only.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple
from runtime_arm.registry.steps import ZERO, Step, copy

PLANES = 4  # of the image that are the first rows of R: pixel rows -1 and 0


class Toeplitz(NamedTuple):
    """The shape of the products. left: whether an output meets the pixel to its left; with stride 1 it does."""

    stride: int
    left: bool

    @property
    def terms(self) -> int:
        """Rows of R; the last is ones."""
        return 9 if self.stride == 1 else 7

    @property
    def products(self) -> int:
        """Rows of O."""
        return 8 if self.stride == 1 else 2

    @property
    def results(self) -> slice:
        """The rows of O that become the output: the columns of a tile one after the other, in each its rows."""
        return slice(2, 6) if self.stride == 1 else slice(0, 1)

    @property
    def planes(self) -> int:
        """How many rows those are."""
        return 4 if self.stride == 1 else 1

    def plane(self, number: int) -> Tuple[int, int]:
        """The phase, row and column, of such a row."""
        return number % 2, number // 2

    def matrices(self, weights: Array, bias: Array) -> Array:
        """T for each channel, from weights (C, 3, 3) and bias (C): (C, products, terms)."""
        rows, first = (2, -1) if self.stride == 1 else (1, 0 if self.left else -1)
        columns = self.products // rows
        taps = np.zeros((len(weights), columns, rows, self.terms // 2, 2), weights.dtype)
        for (at, y), (row, px), (ky, kx) in _places((columns, rows), (self.terms // 2, 2), (3, 3)):
            pixel = self.stride * (first + at) + kx - self.left
            if row == y + ky and pixel == px:
                taps[:, at, y, row, px] = weights[:, ky, kx]
        t = np.zeros((len(weights), self.products, self.terms), weights.dtype)
        t[..., :-1] = taps.reshape(*t.shape[:2], -1)
        own = self.results if self.stride == 1 else slice(0 if self.left else 1, 1 if self.left else 2)
        t[:, own, -1] = bias[:, None]
        return t if self.left else t[:, ::-1]

    def multiply(self, matrices: Array, r: Array, o: Array, pitch: int) -> Iterator[Step]:
        """O, (products, channels * positions), from R, (terms, channels * positions), of which the first four rows and
        the last are given. pitch: positions of a row of tiles; R has at least one row of tiles more than O."""
        count, last = len(matrices), self.terms - 1 - PLANES
        yield copy(r[PLANES:-1, :-pitch], r[:last, pitch:])
        products = o.reshape(self.products, count, -1)
        rows = r.reshape(self.terms, count, -1)[..., : products.shape[-1]]
        yield partial(np.matmul, matrices, rows.transpose(1, 0, 2), out=products.transpose(1, 0, 2))
        if self.left:
            own, owed = (slice(2, 4), slice(6, 8)) if self.stride == 1 else (slice(0, 1), slice(1, 2))
            yield copy(products[owed, :, -1], ZERO)  # what follows the last position belongs to another channel
            yield partial(np.add, o[own, 1:], o[owed, :-1], out=o[own, 1:])
        if self.stride == 1 or not self.left:
            own, owed = (slice(4, 6), slice(0, 2)) if self.stride == 1 else (slice(0, 1), slice(1, 2))
            yield partial(np.add, o[own, :-1], o[owed, 1:], out=o[own, :-1])


def _places(*grids: Tuple[int, int]) -> Iterator[Tuple[Tuple[int, int], ...]]:
    for index in np.ndindex(*(size for grid in grids for size in grid)):
        yield tuple(zip(index[::2], index[1::2]))
