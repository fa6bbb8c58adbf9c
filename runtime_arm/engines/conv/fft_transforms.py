"""The discrete Fourier transform of small real tiles as products with matrices, and products of their spectra.

The correlation of k taps g with m + k - 1 pixels d, taken around a circle of p places, p >= m + k - 1, gives the m
outputs of a convolution layer at places 0 to m - 1; around a circle it is a product of spectra (Oppenheim and Schafer,
Discrete-Time Signal Processing, 3rd ed., section 8.6):

    y[o] = sum over j of g[j] d[(o + j) mod p]        <=>        Y[f] = conj(G[f]) D[f]

The period p is odd, p = 2 h + 1. Then the spectrum of real numbers is its constant term and h complex numbers, whose
real and imaginary parts are their product with one real p x p matrix of cosines and sines:

    F    rows  1;  cos(2 pi f t / p), f = 1..h;  sin(2 pi f t / p), f = 1..h        at place t
    F^T / p, its columns but the first one doubled, is the inverse, for the rows are orthogonal

In two dimensions T = F d F^T holds p q real numbers, by cosines and sines (c, s) of the frequency g along the columns
and f along the rows. Their sums and differences are the complex spectrum; of two conjugates one will do, so there are
the constant and (p q - 1) / 2 complex numbers:

    (g, 0)      T[c g, 0] + i T[s g, 0]                        (0, f)      T[0, c f] + i T[0, s f]
    (g, f)      T[c g, c f] - T[s g, s f]  +  i (T[s g, c f] + T[c g, s f])
    (g, -f)     T[c g, c f] + T[s g, s f]  +  i (T[s g, c f] - T[c g, s f])

A complex product takes three real ones (Karatsuba; Higham, SIAM J. Matrix Anal. Appl. 13(3), 1992), so spectra have
three planes. With V = a + i b of the pixels and U = c + i d of the filters:

    planes of V:  a,  b,  a + b              planes of U:  d - c,  d + c,  c              products, plane by plane: P
    V U = (P[2] - P[1])  +  i (P[2] + P[0])
"""

from __future__ import annotations

import math
from functools import partial
from typing import Iterator, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.registry.steps import ZERO, Step, copy

PLANES = 3
CHUNK = 1 << 20  # numbers of the filters' spectra that are computed at once, in float64
Period = Tuple[int, int]  # places along the columns and along the rows, both odd


def basis(period: int, places: Sequence[int]) -> Array:
    """F at these places, which count around the circle: (period, places), float64."""
    turns = np.outer(np.arange(period // 2 + 1), np.asarray(places, np.int64)) % period
    angles = 2 * np.pi / period * turns
    return np.concatenate([np.cos(angles), np.sin(angles[1:])])


def inverse(period: int, count: int) -> Array:
    """The matrix from the spectrum to the numbers at places 0 to count - 1: (period, count), float64."""
    matrix = basis(period, range(count))
    matrix[1:] *= 2
    return matrix / period


def frequencies(period: Period) -> int:
    """Complex numbers in the spectrum of a real tile, the constant included."""
    return (period[0] * period[1] + 1) // 2


class Spectrum:
    """The place of each kind of complex number among all of them, and the real numbers that make it.

    Real spectra: (p, q, ...), planes: (3, frequencies, ...), the further dimensions the same.
    """

    def __init__(self, period: Period):
        self._height, self._width = period[0] // 2, period[1] // 2
        sizes = [1, self._height, self._width, *[self._height * self._width] * 2]
        ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        self.constant, self.upright, self.flat, self.plus, self.minus = (slice(*ends[i : i + 2]) for i in range(5))

    def split(self, real: Array, planes: Array) -> Iterator[Step]:
        """The complex spectrum of a real one, in the planes of V."""
        a, b = planes[:2]
        yield copy(a[0], real[0, 0])
        yield copy(b[0], ZERO)
        for line, among in self._lines(real):
            yield copy(a[among], line[0])
            yield copy(b[among], line[1])
        cc, cs, sc, ss = self._products(real)
        if cc.size:
            yield partial(np.subtract, cc, ss, out=self._square(a[self.plus]))
            yield partial(np.add, sc, cs, out=self._square(b[self.plus]))
            yield partial(np.add, cc, ss, out=self._square(a[self.minus]))
            yield partial(np.subtract, sc, cs, out=self._square(b[self.minus]))
        yield partial(np.add, a, b, out=planes[2])

    def join(self, planes: Array, real: Array) -> Iterator[Step]:
        """The real spectrum of the products in their planes, which are overwritten; numbers that ``split`` made of two
        real ones come back doubled."""
        re, im = planes[1], planes[0]
        yield partial(np.subtract, planes[2], planes[1], out=re)
        yield partial(np.add, planes[2], planes[0], out=im)
        yield copy(real[0, 0], re[0])
        for line, among in self._lines(real):
            yield copy(line[0], re[among])
            yield copy(line[1], im[among])
        cc, cs, sc, ss = self._products(real)
        if cc.size:
            yield partial(np.add, self._square(re[self.plus]), self._square(re[self.minus]), out=cc)
            yield partial(np.subtract, self._square(re[self.minus]), self._square(re[self.plus]), out=ss)
            yield partial(np.add, self._square(im[self.plus]), self._square(im[self.minus]), out=sc)
            yield partial(np.subtract, self._square(im[self.plus]), self._square(im[self.minus]), out=cs)

    def _lines(self, real: Array) -> Iterator[Tuple[Tuple[Array, Array], slice]]:
        """The cosines and sines of the frequencies (g, 0) and (0, f)."""
        for line, half, among in ((real[:, 0], self._height, self.upright), (real[0], self._width, self.flat)):
            if half:
                yield (line[1 : half + 1], line[half + 1 :]), among

    def _products(self, real: Array) -> Tuple[Array, Array, Array, Array]:
        """T[c g, c f], T[c g, s f], T[s g, c f], T[s g, s f] for all g and f above 0."""
        cosines, sines = real[1 : self._height + 1], real[self._height + 1 :]
        c, s = slice(1, self._width + 1), slice(self._width + 1, None)
        return cosines[:, c], cosines[:, s], sines[:, c], sines[:, s]

    def _square(self, numbers: Array) -> Array:
        return numbers.reshape(self._height, self._width, *numbers.shape[1:])


def transform_filters(period: Period, dilation: Sequence[int], group: int, w: Array) -> Array:
    """The planes of U for the filters (M, C / group, kh, kw): (3, frequencies, group, C / group, M / group).

    Conjugate, and halved where ``Spectrum.join`` doubles; computed in float64.
    """
    spectrum, (width, depth, height, breadth) = Spectrum(period), w.shape
    result = np.empty((PLANES, frequencies(period), depth, width), w.dtype)
    upright, flat = (basis(p, [-tap * d for tap in range(k)]) for p, d, k in zip(period, dilation, (height, breadth)))
    most = max(1, CHUNK // (period[0] * period[1] * max(depth, 1)))
    for begin in range(0, width, most):
        taps = w[begin : begin + most].astype(np.float64)
        real = np.ascontiguousarray((upright @ taps @ flat.T).transpose(2, 3, 1, 0))
        planes = np.empty((PLANES, *result.shape[1:3], len(taps)))
        for step in spectrum.split(real, planes):
            step()
        planes[:, spectrum.plus.start :] /= 2
        c, d = planes[:2]
        for plane, values in enumerate((d - c, d + c, c)):
            result[plane, :, :, begin : begin + most] = values
    grouped = result.reshape(*result.shape[:3], group, width // group).transpose(0, 1, 3, 2, 4)
    return np.ascontiguousarray(grouped)


def multiplies(period: Period) -> int:
    """Real multiplies that a tile takes for every pair of an input channel and a filter."""
    return PLANES * frequencies(period)


def amplification(period: Period, kernel: Sequence[int]) -> float:
    """By how much rounding errors grow, where the magnitude is as many terms as a direct sum has of typical |w| * |x|.

    The transforms keep 2-norms up to a factor that the inverse takes back, so by Cauchy and Schwarz the terms of an
    output have the magnitude |g|_2 |d|_2, sqrt(taps * places) times the typical |w| |x|, instead of taps times. The
    three products for a complex one have up to 2 sqrt(2) times the magnitude of their result (Higham 1992).
    """
    return 2 * math.sqrt(2) * math.sqrt(math.prod(period) / math.prod(kernel))
