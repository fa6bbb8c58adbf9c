"""Winograd's transforms of tiles whose pixels lie in planes (see ``winograd.py``), as products with small matrices.

They see a plane as one row of numbers and know nothing of channels: all they are told is where a neighbour lies.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.winograd_transforms import TAPS, transforms
from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple
from runtime_arm.registry.steps import Step, multiply, shaped

Result = Tuple[Array, List[Step]]  # what is computed, and how


class Stretch(NamedTuple):
    """So many ``numbers`` of every plane, from ``begin`` on. The next position of a row lies ``beside`` numbers on, the
    next row ``below`` numbers."""

    begin: int
    numbers: int
    beside: int
    below: int

    @property
    def wide(self) -> int:
        """How many numbers there are with one position more at both ends."""
        return self.numbers + 2 * self.beside


def transform_rows(planes: Array, stretch: Stretch, rows: Array) -> Iterator[Step]:
    """Fill ``rows``, (tile columns, frequencies, wide), from planes (tile rows, tile columns, numbers)."""
    yield multiply(_input(planes), _met(planes, stretch, 0).swapaxes(0, 1), rows)
    above, below = _met(planes, stretch, -stretch.below)[-1], _met(planes, stretch, stretch.below)[0]
    for frequency, outside in ((0, above), (-1, below)):
        target = rows[:, frequency]
        yield partial(np.add, target, outside, out=target)


def _input(planes: Array) -> Array:
    """B^T without its outer columns."""
    return np.ascontiguousarray(transforms(len(planes)).input[:, 1:-1].astype(planes.dtype))


def _met(planes: Array, stretch: Stretch, shift: int) -> Array:
    """The stretch, ``shift`` numbers on and one position wider at both ends."""
    begin = stretch.begin + shift - stretch.beside
    return planes[:, :, begin : begin + stretch.wide]


def transform_columns(rows: Array, stretch: Stretch, spectrum: Array) -> Iterator[Step]:
    """Fill ``spectrum``, (frequencies of rows, of columns, numbers), from what ``transform_rows`` made."""
    count, beside = stretch.numbers, stretch.beside
    yield multiply(_input(rows), rows[:, :, beside : beside + count].swapaxes(0, 1), spectrum)
    for frequency, outside in ((0, rows[-1, :, :count]), (-1, rows[0, :, 2 * beside :])):
        target = spectrum[:, frequency]
        yield partial(np.add, target, outside, out=target)


def transform_back(products: Array, buffers: Sequence[Array], pixels: Optional[Array], at_once: bool) -> Result:
    """The pixels, (tile rows, tile columns, count), from the products, (frequencies of rows, of columns, count), which
    lie in the first buffer.

    pixels: where they are to lie; None leaves them in one of the buffers. at_once: by Kronecker's product of the two
    matrices, so that the products are read once.
    """
    high, wide, count = products.shape
    rows, columns = high - TAPS + 1, wide - TAPS + 1
    if pixels is None:
        pixels = shaped(buffers[1 if at_once else 0], rows, columns, count)
    down, across = (transforms(tile).output.astype(products.dtype) for tile in (rows, columns))
    if at_once:
        flat = products.reshape(high * wide, count), pixels.reshape(rows * columns, count)
        return pixels, list(_at_once(np.kron(down, across), *flat))
    half = shaped(buffers[1], rows, wide, count)
    return pixels, [multiply(down, products.swapaxes(0, 1), half.swapaxes(0, 1)), multiply(across, half, pixels)]


def _at_once(both: Array, x: Array, y: Array) -> Iterator[Step]:
    """y = both @ x, so many columns at a time that BLAS does not pack them."""
    size = gemm.SMALL_PRODUCT // both.size // gemm.VECTOR * gemm.VECTOR
    whole = y.shape[1] // size * size
    if whole:
        left, right = (rows[:, :whole].reshape(len(rows), -1, size).swapaxes(0, 1) for rows in (x, y))
        yield multiply(both, left, right)
    if whole < y.shape[1]:
        yield multiply(both, x[:, whole:], y[:, whole:])
