"""Winograd's transforms by sums of whole planes, where BLAS adds multiples of vectors faster than NumPy adds them.

The points of the transforms are 0, pairs p and -p, and infinity. So two rows of B^T differ by the signs of their odd
terms alone, and two columns of A^T by those of their odd rows (Lavin and Gray, arXiv:1509.09308, section 5):

    B^T    Y[p], Y[-p] = e + o, e - o                   e: the even terms, o: the odd ones
    A^T    y[i]       += p^i * (Y[p] + Y[-p])           for an even i; for an odd one with their difference

F(4, 3) takes 12 sums and 8 copies for the 6 numbers of B^T, 10 and 5 for the 4 of A^T. A product with the matrix, which
has as few terms as rows, takes twice as long where BLAS multiplies number by number, since it copies its operands.
"""

from __future__ import annotations

from typing import Iterator, Sequence, Union

import numpy as np

from runtime_arm.engines.conv.adding_vectors import add_multiple
from runtime_arm.engines.conv.winograd_transforms import TAPS, transforms
from runtime_arm.netdef import Array
from runtime_arm.registry.steps import Step, copy

Planes = Union[Array, Sequence[Array]]  # of equal size, contiguous


def into_frequencies(taps: Planes, targets: Planes) -> Iterator[Step]:
    """targets = B^T @ taps, for kernels of 3."""
    matrix = transforms(len(taps) - TAPS + 1).input
    for p in range(1, len(taps) - 1, 2):
        even = np.where(matrix[p] == matrix[p + 1], matrix[p], 0)
        odd = matrix[p] - even
        yield from _sum(even, taps, targets[p])
        first = int(np.flatnonzero(odd)[0])
        factor, source = float(odd[first]), taps[first]
        if np.count_nonzero(odd) > 1:
            source = targets[-1]
            yield from _sum(odd / factor, taps, source)
        yield copy(targets[p + 1], targets[p])
        yield add_multiple(targets[p + 1], -factor, source)
        yield add_multiple(targets[p], factor, source)
    for row in (0, -1):
        yield from _sum(matrix[row], taps, targets[row])


def from_frequencies(frequencies: Planes, targets: Planes) -> Iterator[Step]:
    """targets = A^T @ frequencies, which are overwritten; there are 2 targets, or 4."""
    last, points = len(targets) - 1, len(frequencies) - 1
    matrix = transforms(len(targets), points + 1 - last).output
    if last == 1:
        for row, target in zip(matrix, targets):
            yield from _sum(row, frequencies, target)
        return
    yield copy(targets[0], frequencies[0])
    yield copy(targets[last], frequencies[-1])
    for number, p in enumerate((1, 3), 1):
        total, difference = frequencies[p], targets[number]
        yield copy(difference, total)
        yield add_multiple(difference, -1, frequencies[p + 1])
        yield add_multiple(total, 1, frequencies[p + 1])
        yield add_multiple(targets[0], 1, total)
        yield add_multiple(targets[last], float(matrix[last, p]), difference)
    yield add_multiple(targets[1], float(matrix[1, 3]), targets[2])
    yield copy(targets[2], frequencies[1])
    yield add_multiple(targets[2], float(matrix[2, 3]), frequencies[3])
    for p in range(5, points):  # a point without its opposite
        for target, factor in zip(targets, matrix[:, p]):
            yield add_multiple(target, float(factor), frequencies[p])


def _sum(factors: Array, sources: Planes, target: Array) -> Iterator[Step]:
    """target = the sum of the sources, times these factors, of which one is 1."""
    first = int(np.flatnonzero(factors == 1)[0])
    yield copy(target, sources[first])
    for number in np.flatnonzero(factors).tolist():
        if number != first:
            yield add_multiple(target, float(factors[number]), sources[number])
