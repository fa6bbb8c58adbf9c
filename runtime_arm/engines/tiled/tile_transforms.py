"""Winograd's transforms of tiles whose pixels are in planes (see ``winograd.py``), as products with small matrices.

They treat a plane as one row of numbers and know nothing of channels, only the distance of a neighbour.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.winograd_transforms import TAPS, transforms
from runtime_arm.engines.tiled.epilogue import longest_row, row_of, rows_of
from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple
from runtime_arm.registry.steps import Step, copy, multiply, shaped

Result = Tuple[Array, List[Step]]  # what is computed, and how


class Stretch(NamedTuple):
    """This many ``numbers`` of every plane, from ``begin`` on.

    The next position of a row is ``beside`` numbers on, the next row ``below`` numbers.
    """

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
    above, below = _met(planes, stretch, -stretch.below)[-1], _met(planes, stretch, stretch.below)[0]
    return _transform(_input(planes), _met(planes, stretch, 0).swapaxes(0, 1), (above, below), rows)


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
    outside = rows[-1, :, :count], rows[0, :, 2 * beside :]
    return _transform(_input(rows), rows[:, :, beside : beside + count].swapaxes(0, 1), outside, spectrum)


def _transform(inner: Array, x: Array, outside: Tuple[Array, Array], y: Array) -> Iterator[Step]:
    """y[i] = matrix @ (first row, x[i], last row), where the outer columns of the matrix are (1, 0 .. 0) and
    (0 .. 0, 1) and its others are ``inner``. outside: those rows for all i, (i, numbers)."""
    if accumulates():
        yield from _accumulated(inner, x, outside, y)
        return
    yield multiply(inner, x, y)
    for row, part in ((0, outside[0]), (-1, outside[1])):
        yield partial(np.add, y[:, row], part, out=y[:, row])


def _accumulated(inner: Array, x: Array, outside: Tuple[Array, Array], y: Array) -> Iterator[Step]:
    """The same, by products that are added to the content of their target."""
    from runtime_arm.engines.conv.sgemm import add_products

    yield copy(y[:, 0], outside[0])
    yield copy(y[:, -1], outside[1])
    if y.shape[1] > 2:
        yield from (copy(part, row_of(0.0)[: part.shape[2]]) for part in rows_of(y[:, 1:-1], longest_row()))
    yield from add_products(inner, x, y)


def accumulates() -> bool:
    """Whether it is faster to add products to the content of their target.

    A BLAS that packs clears the target first, number by number, and NumPy adds as slowly.
    """
    from runtime_arm.engines.conv import sgemm

    return not gemm.multiplies_small() and sgemm.can_add()


def transform_back(products: Array, buffers: Sequence[Array], pixels: Optional[Array], at_once: bool) -> Result:
    """The pixels, (tile rows, tile columns, count), from the products, (frequencies of rows, of columns, count), which
    lie in the first buffer.

    pixels: where to write them; None leaves them in one of the buffers. at_once: by Kronecker's product of the two
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
    return pixels, [*_back(down, products.swapaxes(0, 1), half.swapaxes(0, 1)), *_back(across, half, pixels)]


def transform_back_rows(products: Array, pixels: Array) -> Iterator[Step]:
    """The pixels, (tile rows, numbers), from the products, (frequencies, numbers), in one dimension."""
    matrix = transforms(len(pixels), len(products) - len(pixels) + 1).output.astype(products.dtype)
    return _back(matrix, products[None], pixels[None])


def _back(matrix: Array, x: Array, y: Array) -> Iterator[Step]:
    """y[i] = matrix @ x[i], where the matrix is A^T, whose outer columns are (1, 0 .. 0) and (0 .. 0, 1), too."""
    if accumulates():
        inner = np.ascontiguousarray(matrix[:, 1:-1])
        return _accumulated(inner, x[:, 1:-1], (x[:, 0], x[:, -1]), y)
    return iter([multiply(matrix, x, y)])


def _at_once(both: Array, x: Array, y: Array) -> Iterator[Step]:
    """y = both @ x, in groups of columns so small that BLAS does not pack them."""
    size = gemm.SMALL_PRODUCT // both.size // gemm.VECTOR * gemm.VECTOR
    whole = y.shape[1] // size * size
    if whole:
        left, right = (rows[:, :whole].reshape(len(rows), -1, size).swapaxes(0, 1) for rows in (x, y))
        yield multiply(both, left, right)
    if whole < y.shape[1]:
        yield multiply(both, x[:, whole:], y[:, whole:])
