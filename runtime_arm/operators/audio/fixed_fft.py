"""Fourier transforms of int16 and int32 in fixed point, exact to the last bit: those of KISS FFT.

A number of b bits is a fraction with b - 1 bits after the point. Before a stage of radix p all numbers are divided by
p, so nothing overflows, and the whole transform is divided by its length. Sums wrap. Source: KISS FFT 1.3,
_kiss_fft_guts.h, kiss_fft.c and kiss_fftr.c, with FIXED_POINT 16 and 32.
"""

from __future__ import annotations

import math
from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple

RADICES = (4, 2, 3, 5)


class Complex(NamedTuple):
    """Real and imaginary parts, int64 that hold numbers of the fixed point."""

    real: Array
    imag: Array

    def at(self, index: Any) -> Complex:
        return Complex(self.real[index], self.imag[index])


def radices(length: int) -> List[int]:
    """The radices of the stages, the last one of which comes first. ValueError if the length has other factors."""
    found = []
    for radix in RADICES:
        while length % radix == 0:
            found.append(radix)
            length //= radix
    if length != 1:
        raise ValueError("a length must be a product of 2, 3 and 5")
    return found


class FixedFourier:
    """The arithmetic of a number type."""

    def __init__(self, dtype: Any):
        self._dtype = np.dtype(dtype)
        self._bits = 8 * self._dtype.itemsize - 1
        self._most = (1 << self._bits) - 1

    def _wrapped(self, values: Array) -> Array:
        return np.asarray(values.astype(self._dtype), np.int64)

    def _rounded(self, products: Array) -> Array:
        return self._wrapped((products + (1 << (self._bits - 1))) >> self._bits)

    def _times(self, a: Complex, b: Complex) -> Complex:
        return Complex(
            self._rounded(a.real * b.real - a.imag * b.imag), self._rounded(a.real * b.imag + a.imag * b.real)
        )

    def _sum(self, a: Complex, b: Complex) -> Complex:
        return Complex(self._wrapped(a.real + b.real), self._wrapped(a.imag + b.imag))

    def _difference(self, a: Complex, b: Complex) -> Complex:
        return Complex(self._wrapped(a.real - b.real), self._wrapped(a.imag - b.imag))

    def _divided(self, a: Complex, by: int) -> Complex:
        return Complex(*(self._rounded(part * (self._most // by)) for part in a))

    def _scaled(self, a: Complex, by: Any) -> Complex:
        return Complex(*(self._rounded(part * by) for part in a))

    def _unit(self, phases: Array) -> Complex:
        """exp(i phase)."""
        return Complex(
            *(np.floor(0.5 + self._most * part).astype(np.int64) for part in (np.cos(phases), np.sin(phases)))
        )

    def transform(self, x: Complex, inverse: bool = False) -> Complex:
        """The transform along the last axis, divided by its length."""
        length = x.real.shape[-1]
        phases = -2 * math.pi * np.arange(length) / length
        return self._stage(x, radices(length), self._unit(-phases if inverse else phases), 1, inverse)

    def _stage(self, x: Complex, stages: Sequence[int], unit: Complex, stride: int, inverse: bool) -> Complex:
        if not stages:
            return x
        radix, rest = stages[0], stages[1:]
        length = x.real.shape[-1] // radix
        parts = [part.reshape(*part.shape[:-1], length, radix).swapaxes(-1, -2) for part in x]
        done = self._divided(self._stage(Complex(*parts), rest, unit, stride * radix, inverse), radix)
        steps = stride * np.arange(length)
        terms = [done.at((..., 0, slice(None)))]
        for place in range(1, radix):
            terms.append(self._times(done.at((..., place, slice(None))), unit.at(place * steps)))
        roots = [unit.at(stride * length * power) for power in (1, 2)] if radix in (3, 5) else []
        joined = {2: self._two, 3: self._three, 4: self._four, 5: self._five}[radix](terms, roots, inverse)
        return Complex(*(np.concatenate(column, axis=-1) for column in zip(*joined)))

    def _two(self, x: Sequence[Complex], roots: Sequence[Complex], inverse: bool) -> List[Complex]:
        return [self._sum(x[0], x[1]), self._difference(x[0], x[1])]

    def _turned(self, x: Complex, inverse: bool) -> Complex:
        """Times -i, or i for the inverse."""
        return Complex(-x.imag, x.real) if inverse else Complex(x.imag, -x.real)

    def _four(self, x: Sequence[Complex], roots: Sequence[Complex], inverse: bool) -> List[Complex]:
        even, odd = self._sum(x[0], x[2]), self._sum(x[1], x[3])
        flat = self._difference(x[0], x[2])
        turned = self._turned(self._difference(x[1], x[3]), inverse)
        return [
            self._sum(even, odd),
            self._sum(flat, turned),
            self._difference(even, odd),
            self._difference(flat, turned),
        ]

    def _three(self, x: Sequence[Complex], roots: Sequence[Complex], inverse: bool) -> List[Complex]:
        both = self._sum(x[1], x[2])
        middle = self._difference(x[0], Complex(both.real >> 1, both.imag >> 1))
        side = self._scaled(self._difference(x[1], x[2]), roots[0].imag)
        turned = Complex(-side.imag, side.real)
        return [self._sum(x[0], both), self._sum(middle, turned), self._difference(middle, turned)]

    def _five(self, x: Sequence[Complex], roots: Sequence[Complex], inverse: bool) -> List[Complex]:
        outer, inner = self._sum(x[1], x[4]), self._sum(x[2], x[3])
        far, near = self._difference(x[1], x[4]), self._difference(x[2], x[3])
        first, second = roots
        ends = [Complex(*map(self._wrapped, self._plus(x[0], self._plus(outer, inner))))]
        for along, across, sign in ((first, second, 1), (second, first, -1)):
            level = self._plus(x[0], self._plus(self._scaled(outer, along.real), self._scaled(inner, across.real)))
            side = self._scaled(near, across.imag)
            shift = self._plus(self._scaled(far, along.imag), Complex(sign * side.real, sign * side.imag))
            ends += [Complex(*map(self._wrapped, part)) for part in (level, Complex(shift.imag, -shift.real))]
        zero, level1, turn1, level2, turn2 = ends
        return [
            zero,
            self._difference(level1, turn1),
            self._difference(level2, turn2),
            self._sum(level2, turn2),
            self._sum(level1, turn1),
        ]

    @staticmethod
    def _plus(a: Complex, b: Complex) -> Complex:
        return Complex(a.real + b.real, a.imag + b.imag)

    def _halves(self, length: int, inverse: bool) -> Tuple[Array, Complex]:
        """For a real transform: the places 1 to length / 4, and the twiddle factors there."""
        half = length // 2
        places = np.arange(1, half // 2 + 1)
        phases = -math.pi * (places / half + 0.5)
        return places, self._unit(-phases if inverse else phases)

    def of_real(self, x: Array) -> Complex:
        """The first half of the spectrum of real numbers (..., n) for an even n, and its middle: n / 2 + 1 numbers."""
        half, values = x.shape[-1] // 2, x.astype(np.int64)
        packed = self.transform(Complex(values[..., ::2], values[..., 1::2]))
        y = Complex(*(np.zeros((*x.shape[:-1], half + 1), np.int64) for _ in range(2)))
        ends = self._divided(packed.at((..., 0)), 2)
        y.real[..., 0], y.real[..., half] = ends.real + ends.imag, ends.real - ends.imag
        places, turns = self._halves(x.shape[-1], False)
        near, far = packed.at((..., places)), packed.at((..., half - places))
        near, far = self._divided(near, 2), self._divided(Complex(far.real, self._wrapped(-far.imag)), 2)
        even = self._sum(near, far)
        odd = self._times(self._difference(near, far), turns)
        y.real[..., places], y.imag[..., places] = (even.real + odd.real) >> 1, (even.imag + odd.imag) >> 1
        y.real[..., half - places] = (even.real - odd.real) >> 1
        y.imag[..., half - places] = (odd.imag - even.imag) >> 1
        return Complex(*map(self._wrapped, y))

    def to_real(self, x: Complex) -> Array:
        """The inverse of ``of_real`` without its divisions: real numbers (..., n) of n / 2 + 1 complex ones."""
        half = x.real.shape[-1] - 1
        first = Complex(x.real[..., 0] + x.real[..., half], x.real[..., 0] - x.real[..., half])
        ends = self._divided(Complex(*map(self._wrapped, first)), 2)
        packed = Complex(*(np.zeros((*x.real.shape[:-1], half), np.int64) for _ in range(2)))
        packed.real[..., 0], packed.imag[..., 0] = ends.real, ends.imag
        places, turns = self._halves(2 * half, True)
        near, far = x.at((..., places)), x.at((..., half - places))
        near, far = self._divided(near, 2), self._divided(Complex(far.real, self._wrapped(-far.imag)), 2)
        even = self._sum(near, far)
        odd = self._times(self._difference(near, far), turns)
        whole, mirrored = self._sum(even, odd), self._difference(even, odd)
        packed.real[..., places], packed.imag[..., places] = whole.real, whole.imag
        packed.real[..., half - places] = mirrored.real
        packed.imag[..., half - places] = self._wrapped(-mirrored.imag)
        done = self.transform(packed, True)
        y = np.empty((*x.real.shape[:-1], 2 * half), np.int64)
        y[..., ::2], y[..., 1::2] = done.real, done.imag
        return y
