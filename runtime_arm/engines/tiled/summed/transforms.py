"""Winograd's transforms by sums of whole planes, where BLAS adds multiples of vectors faster than NumPy adds them.

The points of the transforms are 0, pairs p and -p, and infinity. So two rows of B^T differ by the signs of their odd
terms alone, and two columns of A^T by those of their odd rows (Lavin and Gray, arXiv:1509.09308, section 5):

    B^T    Y[p], Y[-p] = e + o, e - o                   e: the even terms, o: the odd ones
    A^T    y[i]       += p^i * (Y[p] + Y[-p])           for an even i; for an odd one with their difference

F(4, 3) takes 12 sums and 8 copies for the 6 numbers of B^T, 10 and 5 for the 4 of A^T. A product with the matrix, which
has as few terms as rows, takes twice as long where BLAS multiplies number by number, since it copies its operands.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Iterator, List, Optional, Sequence, Union

import numpy as np

from runtime_arm.engines.conv.axpy import add_multiple
from runtime_arm.engines.conv.winograd_transforms import TAPS, transforms
from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple
from runtime_arm.registry.steps import Step, copy

Planes = Union[Array, Sequence[Array]]  # of equal size, contiguous


class _Sum(NamedTuple):
    """target += factor * source, or a copy if there is no factor. A source is a given plane, or a target if ``again``;
    a target of -1 - n is given plane n."""

    target: int
    source: int
    factor: Optional[float] = None
    again: bool = False


def into_frequencies(taps: Planes, targets: Planes) -> Iterator[Step]:
    """targets = B^T @ taps, for kernels of 3."""
    return _steps(_sums_into(len(taps)), list(taps), list(targets))


def from_frequencies(frequencies: Planes, targets: Planes) -> Iterator[Step]:
    """targets = A^T @ frequencies, which are overwritten; there are 2 targets, or 4."""
    return _steps(_sums_from(len(frequencies), len(targets)), list(frequencies), list(targets))


def _steps(sums: Sequence[_Sum], sources: Sequence[Array], targets: Sequence[Array]) -> Iterator[Step]:
    for target, number, factor, again in sums:
        source = targets[number] if again else sources[number]
        if target < 0:
            target, into = -1 - target, sources
        else:
            into = targets
        yield copy(into[target], source) if factor is None else add_multiple(into[target], factor, source)


@lru_cache(None)
def _sums_into(reach: int) -> Sequence[_Sum]:
    matrix, last = transforms(reach - TAPS + 1).input, reach - 1
    sums: List[_Sum] = []
    for p in range(1, last, 2):
        even = np.where(matrix[p] == matrix[p + 1], matrix[p], 0)
        odd = matrix[p] - even
        sums += _sum(even, p)
        source = int(np.flatnonzero(odd)[0])
        factor, is_sum = float(odd[source]), bool(np.count_nonzero(odd) > 1)
        if is_sum:
            source = last
            sums += _sum(odd / factor, last)
        sums += [
            _Sum(p + 1, p, None, True),
            _Sum(p + 1, source, -factor, is_sum),
            _Sum(p, source, factor, is_sum),
        ]
    return [*sums, *_sum(matrix[0], 0), *_sum(matrix[last], last)]


@lru_cache(None)
def _sums_from(reach: int, tile: int) -> Sequence[_Sum]:
    matrix, last = transforms(tile, reach + 1 - tile).output, tile - 1
    if tile == 2:
        return [*_sum(matrix[0], 0), *_sum(matrix[1], 1)]
    sums = [_Sum(0, 0), _Sum(last, reach - 1)]
    for number, p in enumerate((1, 3), 1):
        sums += [
            _Sum(number, p),
            _Sum(number, p + 1, -1.0),  # the difference
            _Sum(-1 - p, p + 1, 1.0),  # the total, in the place of the frequency
            _Sum(0, p, 1.0),
            _Sum(last, number, float(matrix[last, p]), True),
        ]
    sums += [_Sum(1, 2, float(matrix[1, 3]), True), _Sum(2, 1), _Sum(2, 3, float(matrix[2, 3]))]
    alone = range(5, reach - 1)  # points without their opposites
    return [*sums, *(_Sum(row, p, float(matrix[row, p])) for p in alone for row in range(tile))]


def _sum(factors: Array, target: int) -> Iterator[_Sum]:
    """A sum of sources times these factors, of which one is 1."""
    first = int(np.flatnonzero(factors == 1)[0])
    yield _Sum(target, first)
    for number in np.flatnonzero(factors).tolist():
        if number != first:
            yield _Sum(target, number, float(factors[number]))
