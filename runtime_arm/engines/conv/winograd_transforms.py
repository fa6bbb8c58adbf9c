"""Winograd's minimal filtering F(m, r): the transforms, their derivation, their cost, and how they amplify errors.

r taps g over m + r - 1 pixels d give m outputs as products of polynomials, evaluated at m + r - 2 points and infinity
(Toom and Cook), and transposed, since a convolution layer correlates (Lavin and Gray, arXiv:1509.09308, section 4):

    y = A^T [(G g) * (B^T d)]        * elementwise; two dimensions: on the rows, then on the columns

    A^T  column of point p: 1, p, p^2 ... p^(m-1);                    of infinity: 0 ... 0, 1
    G    row of point p: (1, p ... p^(r-1)) / product of (p - q) over the other points q;   of infinity: 0 ... 0, 1
    B^T  row of point p: coefficients of the product of (x - q) over the other q;    of infinity: over all points

and the first rows of B^T and G scaled, so that B^T begins with 1.

The points 0, 1, -1, 2, -2, 1/2, -1/2 keep the numbers small, and float64 exact: their sums and products need few bits,
so an entry is rounded only once, when it is divided.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import List, Sequence

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple

TAPS = 3  # unless another number is given
SMALL = 3  # a multiply in a product with a matrix of a few rows takes this many times as long
SUMMED = 6  # multiplies that a number of a transform takes by sums (see ``tiled/summed/transforms.py``)
POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)  # F(m, r) takes the first m + r - 2: m is even
AT_ONCE = 2048  # filters that are transformed at once: their float64 stays in the second-level cache


class Transforms(NamedTuple):
    """A^T: (m, m + r - 1), G: (m + r - 1, r), B^T: (m + r - 1, m + r - 1), float64; every entry is exact or correctly
    rounded."""

    output: Array
    filter: Array
    input: Array


@lru_cache(None)
def transforms(tile: int, taps: int = TAPS) -> Transforms:
    """The transforms of F(tile, taps), for an even tile and an odd number of taps, up to 9 together."""
    points = POINTS[: tile + taps - 2]
    output = [[*(p**i for p in points), float(i == tile - 1)] for i in range(tile)]
    filters, inputs = [], []
    for p in points:
        others = [q for q in points if q != p]
        filters.append([p**i / math.prod(p - q for q in others) for i in range(taps)])
        inputs.append([*_monic(others), 0.0])
    filters.append([float(i == taps - 1) for i in range(taps)])
    inputs.append(_monic(points))
    at_zero = inputs[0][0]  # the only row with a first term; scaled so that the term is 1
    inputs[0] = [x / at_zero for x in inputs[0]]
    filters[0] = [float(i == 0) for i in range(taps)]  # at_zero is the product by which that row was divided
    return Transforms(*(np.array(matrix) + 0.0 for matrix in (output, filters, inputs)))  # -0 + 0 = 0


def _monic(roots: Sequence[float]) -> List[float]:
    """Coefficients of the product of (x - root), the constant first."""
    coefficients = [1.0]
    for root in roots:
        coefficients = [high - root * low for high, low in zip([0.0, *coefficients], [*coefficients, 0.0])]
    return coefficients


def multiplies_per_output(tile: int, taps: int = TAPS) -> float:
    """Multiplies an output and input channel in F(tile x tile, taps x taps): 4 in F(2x2, 3x3), 2.25 in F(4x4, 3x3),
    9 in F(2x2, 5x5); directly it is taps^2."""
    return float((tile + taps - 1) ** 2 / tile**2)


def amplification(rows: int, columns: int, taps: int = TAPS) -> float:
    """By how much F(rows x columns, taps x taps) enlarges rounding errors, where the magnitude is taps^2 C terms of
    typical |w| * |x|.

    It is the largest sum of magnitudes that makes an output if all |w| and |x| are 1, from the absolute values of all
    entries, divided by that of a direct convolution; the product of both dimensions.
    """
    return _amplification(rows, taps) * _amplification(columns, taps)


@lru_cache(None)
def _amplification(tile: int, taps: int) -> float:
    output, filters, inputs = (np.abs(matrix) for matrix in transforms(tile, taps))
    return float((output @ (filters.sum(1) * inputs.sum(1))).max() / taps)


def transform_filters(rows: int, columns: int, w: Array) -> Array:
    """U = G w G^T of the filters (M, C, r, r), as one matrix a frequency of F(rows x columns, r x r):
    ((rows + r - 1) * (columns + r - 1), M, C), computed in float64."""
    down, across = (transforms(tile, w.shape[-1]).filter for tile in (rows, columns))
    taps, transform = w.transpose(2, 3, 0, 1).reshape(w.shape[-1] ** 2, -1), np.kron(down, across)
    u = np.empty((len(transform), taps.shape[1]), w.dtype)
    for begin in range(0, taps.shape[1], AT_ONCE):
        part = slice(begin, begin + AT_ONCE)
        u[:, part] = transform @ taps[:, part].astype(np.float64)
    return u.reshape(-1, *w.shape[:2])


def transform_multiplies(rows: int, columns: int, channels: int, filters: int, taps: int = TAPS) -> float:
    """What the transforms of one tile take, in multiplies of a large matrix product: small ones run at a third."""
    high, wide = rows + taps - 1, columns + taps - 1
    before = high * columns * (rows + wide) * channels
    behind = rows * wide * (high + columns) * filters
    return SMALL * (before + behind)


def sum_multiplies(tile: int, channels: int, filters: int) -> float:
    """The same where they are sums of whole planes, with the pixels outside of the tile."""
    reach = tile + TAPS - 1
    return SUMMED * (reach * (tile + reach) * channels + tile * (reach + tile) * filters)
