"""Depthwise convolutions of a small kernel as one product of matrices a channel.

The image lies channel by channel, in tiles of 2 x 2 pixels. Each phase has a plane of its own, and every row of tiles
ends with a tile outside of the image. For one channel, R[row, position] has a row for each pixel that a tile's outputs
meet in its own column of tiles, and T has a weight where an output meets an input pixel under a tap. For 3x3:

    rows of R        0   1     2   3     4   5     6   7      8
    pixel row       -1  -1     0   0     1   1     2   2      ones, for the bias
    pixel column     0   1     0   1     0   1     0   1

    O[output, position] = T @ R     for the output columns -1, 0, 1, 2 of a tile, both rows of each

Columns -1 and 2 are what the tile owes its neighbours: they are added there, one position before and behind. Rows 4 to
7 of R are a copy of rows 0 to 3, one row of tiles further on. So a pixel takes one product of 18 terms, one copy and
one addition. With 5x5 the pixel rows are -2 to 3 and the columns -2 to 3: a product of 39 terms, two copies, two
additions. With a stride of 2 a tile makes one pixel: for 3x3, T is (2, 7), R ends with pixel row 1, and a tile owes to
one neighbour only.
"""

from __future__ import annotations

from functools import partial
from typing import Dict, Iterator, List, Optional, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.records import NamedTuple
from runtime_arm.registry.steps import ZERO, Step, copy

PLANES = 4  # of the image that are the first rows of R: two rows of pixels
KERNELS = (3, 5)


class Toeplitz(NamedTuple):
    """The shape of the products. head: how many pixels above and to the left of its own an output meets."""

    kernel: int
    stride: int
    head: Tuple[int, int]

    @classmethod
    def of(cls, convolution: Convolution) -> Optional[Toeplitz]:
        """The shape for a depthwise convolution; None if it cannot run as such products."""
        window, channels = convolution.window, convolution.channels
        if convolution.channels_last or not 1 < convolution.group == channels == convolution.filters:
            return None
        if window.ndim != 2 or len({*window.kernel}) > 1 or window.kernel[0] not in KERNELS:
            return None
        if set(window.dilation) != {1} or len({*window.stride}) > 1:
            return None
        kernel, stride, head = window.kernel[0], window.stride[0], (window.head[0], window.head[1])
        same = window.head == window.tail == (kernel // 2,) * 2
        centred = stride == 2 and all(kernel // 2 - 1 <= before <= kernel // 2 for before in head)
        return cls(kernel, stride, head) if (stride == 1 and same) or centred else None

    @property
    def met(self) -> int:
        """Rows of pixels that the outputs of a tile meet."""
        return self.kernel + 2 // self.stride - 1

    @property
    def bands(self) -> int:
        """Rows of tiles that have them, if the first one begins with the first of them."""
        return -(-self.met // 2)

    @property
    def terms(self) -> int:
        """Rows of R; the last is ones."""
        return 2 * self.met + 1

    @property
    def side(self) -> int:
        """Rows and columns of outputs that a tile makes."""
        return 2 // self.stride

    @property
    def planes(self) -> int:
        """How many outputs those are."""
        return self.side**2

    @property
    def columns(self) -> Dict[int, List[int]]:
        """The columns of outputs that a tile contributes to: those of its own (0), of the tile before (-1) and behind
        (1), none of which may be there."""
        found: Dict[int, List[int]] = {0: list(range(self.side))}
        for kx in range(self.kernel):
            for px in range(2):
                column, between = divmod(px + self.head[1] - kx, self.stride)
                tile, own = divmod(column, self.side)
                if not between and own not in found.setdefault(tile, []):
                    found[tile].append(own)
        return {tile: sorted(found[tile]) for tile in sorted(found)}

    @property
    def products(self) -> int:
        """Rows of O."""
        return self.side * sum(map(len, self.columns.values()))

    @property
    def results(self) -> slice:
        """The rows of O that become the output: the planes of a tile in order."""
        begin = self.side * len(self.columns.get(-1, ()))
        return slice(begin, begin + self.planes)

    def matrices(self, weights: Array, bias: Array) -> Array:
        """T for each channel, from weights (C, kernel, kernel) and bias (C): (C, products, terms)."""
        rows = []
        for tile, columns in self.columns.items():
            for y in range(self.side):
                for column in columns:
                    taps = np.zeros((len(weights), self.met, 2), weights.dtype)
                    for px in range(2):
                        kx = px + self.head[1] - self.stride * (tile * self.side + column)
                        if 0 <= kx < self.kernel:
                            first = y * self.stride
                            taps[:, first : first + self.kernel, px] = weights[:, :, kx]
                    ones = bias if tile == 0 else np.zeros_like(bias)
                    rows.append(np.concatenate([taps.reshape(len(weights), -1), ones[:, None]], axis=1))
        return np.stack(rows, axis=1)

    def multiply(self, matrices: Array, r: Array, o: Array, pitch: int) -> Iterator[Step]:
        """O, (products, channels * positions), from R, (terms, channels * positions), of which the first four rows and
        the last are given. pitch: positions of a row of tiles; R has at least ``bands - 1`` more rows of tiles than
        O."""
        count = len(matrices)
        for band in range(1, self.bands):
            begin, end = PLANES * band, min(PLANES * (band + 1), self.terms - 1)
            yield copy(r[begin:end, : -band * pitch], r[: end - begin, band * pitch :])
        products = o.reshape(self.products, count, -1)
        rows = r.reshape(self.terms, count, -1)[..., : products.shape[-1]]
        yield partial(np.matmul, matrices, rows.transpose(1, 0, 2), out=products.transpose(1, 0, 2))
        begin = 0
        for tile, columns in self.columns.items():
            many = self.side * len(columns)
            owed, begin = slice(begin, begin + many), begin + many
            if tile == 0:
                continue
            own = self._own(columns)
            if tile > 0:
                yield copy(products[owed, :, -1], ZERO)  # what follows the last position belongs to another channel
                yield partial(np.add, o[own, 1:], o[owed, :-1], out=o[own, 1:])
            else:
                yield partial(np.add, o[own, :-1], o[owed, 1:], out=o[own, :-1])

    def _own(self, columns: List[int]) -> slice:
        """The rows of O of a tile's own outputs in these columns."""
        results = self.results
        if len(columns) == self.side:
            return results
        return slice(results.start + columns[0], results.stop, self.side)
