"""Winograd's minimal filtering F(m, 3): the transforms, how they are derived, what they cost, what they do to errors.

Three taps g over m + 2 pixels d give m outputs as products of polynomials, evaluated at m + 1 points and infinity
(Toom and Cook), and transposed, since a convolution layer correlates (Lavin and Gray, arXiv:1509.09308, section 4):

    y = A^T [(G g) * (B^T d)]        * elementwise; two dimensions: on the rows, then on the columns

    A^T  column of point p: 1, p, p^2 ... p^(m-1);                    of infinity: 0 ... 0, 1
    G    row of point p: (1, p, p^2) / product of (p - q) over the other points q;   of infinity: 0, 0, 1
    B^T  row of point p: coefficients of the product of (x - q) over the other q;    of infinity: over all points

The points 0, 1, -1, 2, -2, 1/2, -1/2 keep the numbers small, and rows of p and -p share their even and their odd terms.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from typing import Iterable, Iterator, List, NamedTuple, Sequence, Tuple, Union

import numpy as np

from runtime_arm.engines.steps import Step
from runtime_arm.netdef import Array

TAPS = 3
Arrays = Union[Array, Sequence[Array]]  # along the first axis
POINTS = (0, 1, -1, 2, -2, Fraction(1, 2), Fraction(-1, 2))  # F(m, 3) takes the first m + 1: m is even


class Transforms(NamedTuple):
    """A^T: (m, m + 2), G: (m + 2, 3), B^T: (m + 2, m + 2), float64; every entry is exact or correctly rounded."""

    output: Array
    filter: Array
    input: Array


@lru_cache(None)
def transforms(tile: int) -> Transforms:
    """The transforms of F(tile, 3), for an even tile up to 6."""
    points = [Fraction(p) for p in POINTS[: tile + 1]]
    output = [[p**i for p in points] + [Fraction(i == tile - 1)] for i in range(tile)]
    filters, inputs = [], []
    for p in points:
        others = [q for q in points if q != p]
        scale = Fraction(1)
        for q in others:
            scale *= p - q
        filters.append([p**i / scale for i in range(TAPS)])
        inputs.append([*_monic(others), Fraction(0)])
    filters.append([Fraction(i == TAPS - 1) for i in range(TAPS)])
    inputs.append(_monic(points))
    return Transforms(*(np.array(matrix, np.float64) for matrix in (output, filters, inputs)))


def _monic(roots: Sequence[Fraction]) -> List[Fraction]:
    """Coefficients of the product of (x - root), the constant first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        coefficients = [high - root * low for high, low in zip(shifted, [*coefficients, Fraction(0)])]
    return coefficients


def multiplies_per_output(tile: int) -> float:
    """Multiplies an output and input channel in F(tile x tile, 3x3): 4 in F(2x2), 2.25 in F(4x4); directly it is 9."""
    return float((tile + TAPS - 1) ** 2 / tile**2)


def amplification(tile: int) -> float:
    """By how much F(tile x tile, 3x3) enlarges rounding errors, where the magnitude is 9 C terms of typical |w| * |x|.

    The largest sum of magnitudes that an output is made of where all |w| and |x| are 1, by the absolute values of all
    entries in one dimension and squared for two, over what the three taps of a direct convolution sum.
    """
    output, filters, inputs = (np.abs(matrix) for matrix in transforms(tile))
    return float((output @ (filters.sum(1) * inputs.sum(1))).max() / TAPS) ** 2


def transform_filters(tile: int, w: Array) -> Array:
    """U = G w G^T of the filters (M, C, 3, 3), as one matrix a frequency: ((tile + 2)^2, M, C), computed in float64."""
    g = transforms(tile).filter
    u = np.einsum("ai,mcij,bj->abmc", g, w.astype(np.float64), g)
    return np.ascontiguousarray(u.reshape(g.shape[0] ** 2, *w.shape[:2]).astype(w.dtype))


@lru_cache(None)
def passes(tile: int) -> Tuple[int, int]:
    """How many NumPy calls over whole arrays a transform of the input and one of the output take in one dimension."""
    nothing = np.empty((tile + TAPS - 1, 0), np.float32)
    work = [nothing[0]] * temporaries(tile)
    return len(list(input_steps(tile, nothing, nothing, work))), len(list(output_steps(tile, nothing, nothing, work)))


def temporaries(tile: int) -> int:
    """How many arrays of the size of one source the transforms need beside sources and targets."""
    return max(3, tile // 2 + 1)


def input_steps(tile: int, sources: Arrays, targets: Arrays, work: Sequence[Array]) -> Iterator[Step]:
    """targets = B^T sources, over their first axis of tile + 2 entries; ``work`` are temporaries like one entry."""
    rows = transforms(tile).input
    product = work[2]
    for row in (0, tile + 1):
        yield from _sum(rows[row], sources, targets[row], product)
    for row in range(1, tile + 1, 2):
        halves = []
        for factors, target in zip(((rows[row] + rows[row + 1]) / 2, (rows[row] - rows[row + 1]) / 2), work):
            if np.count_nonzero(factors) == 1 and factors.sum() == 1:
                target = sources[int(factors.argmax())]
            else:
                yield from _sum(factors, sources, target, product)
            halves.append(target)
        yield partial(np.add, *halves, out=targets[row])
        yield partial(np.subtract, *halves, out=targets[row + 1])


def output_steps(tile: int, sources: Array, targets: Array, work: Sequence[Array]) -> Iterator[Step]:
    """targets = A^T sources, over their first axis, from tile + 2 entries to tile; the sources lose their content."""
    pairs = range(1, tile + 1, 2)
    sums, product = work[: len(pairs)], work[len(pairs)]
    for at, total in zip(pairs, sums):
        yield partial(np.add, sources[at], sources[at + 1], out=total)
        yield partial(np.subtract, sources[at], sources[at + 1], out=sources[at + 1])
    differences = [sources[at + 1] for at in pairs]
    for power, row in enumerate(transforms(tile).output):
        halves = differences if power % 2 else sums
        factors = [row[0], *row[1:-1:2], row[-1]]
        yield from _sum(factors, [sources[0], *halves, sources[-1]], targets[power], product)


def _sum(factors: Iterable[float], sources: Iterable[Array], target: Array, product: Array) -> Iterator[Step]:
    """target = sum of factors * sources; ``product`` is overwritten. Factors of 1 and -1 multiply nothing."""
    terms = [(float(factor), source) for factor, source in zip(factors, sources) if factor]
    common = abs(terms[0][0])
    if len(terms) > 1 and common != 1 and all(abs(factor) == common for factor, _ in terms):
        yield from _sum([factor / common for factor, _ in terms], [source for _, source in terms], target, product)
        yield _scale(target, common, target)
        return
    terms.sort(key=lambda term: term[0] != 1)
    (factor, total), *rest = terms
    if factor != 1 or not rest:
        yield _scale(total, factor, target)
        total = target
    for factor, source in rest:
        if abs(factor) != 1:
            yield _scale(source, abs(factor), product)
            source = product
        yield partial(np.add if factor > 0 else np.subtract, total, source, out=target)
        total = target


def _scale(source: Array, factor: float, target: Array) -> Step:
    return partial(np.multiply, source, np.array(factor, source.dtype), out=target)
