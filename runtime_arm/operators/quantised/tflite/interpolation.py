"""Functions of int16 as TensorFlow Lite interpolates them, exact to the last bit.

A table holds the function at 513 points, 128 integers apart. Each value is moved by half the error in the middle of the
line to the next one, so that errors on both sides are similar. Between the points the function is a line of integers.
Source: LiteRT, kernels/internal/common.h (LUTPopulate, LUTLookup).

Sigmoid and hyperbolic tangent share a table of the sigmoid at 256 points, 1/24 apart. Source: LiteRT,
reference/integer_ops/logistic.h and tanh.h; its entries follow the same rule, rounded once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.tflite.parameters import Affine, away_from_zero

_STEPS, _SHIFT = 512, 7  # lines of a table, and bits of the place on a line
_LOW, _HIGH = -(1 << 15), (1 << 15) - 1
_UNIT, _POINTS = 1 << 16, 256  # of the table of the sigmoid


def table_of(function: Callable[[Array], Array], x: Affine, y: Affine, real: Any = np.float32) -> Array:
    """The table of a function between real numbers; int64 (513). real: the float type of scales and of arithmetic.

    The function gets float64, and its results are rounded to ``real``.
    """

    with np.errstate(all="ignore"):
        return _table_of(lambda points: np.asarray(function(points.astype(np.float64))).astype(real), x, y, real)


def _table_of(at: Callable[[Array], Array], x: Affine, y: Affine, real: Any) -> Array:
    first, last = (real(x.scale) * real(end - x.zero_point) for end in (_LOW, _HIGH))
    least, most = (real(y.scale) * real(end - y.zero_point) for end in (_LOW, _HIGH))
    step, count = (last - first) / real(_STEPS), np.arange(_STEPS).astype(real)
    inverse = real(_HIGH - _LOW + 1) / (most - least)
    begin, middle, end = (
        at(points) * inverse
        for points in (first + count * step, first + count * step + step / real(2), first + (count + real(1)) * step)
    )
    begin = away_from_zero(begin)
    missed = away_from_zero((end + begin) / real(2)) - away_from_zero(middle)
    values = np.append(begin - away_from_zero(missed / real(2)), away_from_zero(at(np.asarray([last])) * inverse))
    return np.asarray(np.clip(values, _LOW, _HIGH), np.int64)


def looked_up(table: Array, x: Array) -> Array:
    """The interpolated values for int64 numbers of 16 bits."""
    place = (x >> _SHIFT) + _STEPS // 2
    base = table[place]
    slope = _wrapped(table[place + 1] - base)
    return _wrapped(base + ((slope * (x & ((1 << _SHIFT) - 1)) + (1 << (_SHIFT - 1))) >> _SHIFT))


def _wrapped(values: Array) -> Array:
    """Modulo 2**16, from -2**15 on."""
    return np.asarray(values.astype(np.int16), np.int64)


@lru_cache(maxsize=1)
def _sigmoids() -> Array:
    """65536 times the sigmoid at 0, 1/24, ...; the last one is 65535."""

    def at(points: Array) -> Array:
        return np.asarray(_UNIT / (1 + np.exp(-points / 24)))

    points = np.arange(_POINTS, dtype=np.float64)
    missed = (at(points) + at(points + 1)) / 2 - at(points + 0.5)
    values = np.floor(at(points) - missed / 2 + 0.5).astype(np.int64)
    values[-1] = _UNIT - 1
    return values


def power_of_two(scale: Any) -> Tuple[int, bool]:
    """The nearest power of two of a scale, and whether the scale is that power to within one part in a thousand."""
    logarithm = np.log(np.float32(scale)) * (np.float32(1) / np.log(np.float32(2)))
    nearest = away_from_zero(logarithm)
    return int(nearest), bool(np.abs(logarithm - nearest) < np.float32(1e-3))


def _thirds(op: OperatorDef, x: Affine, y: Affine, values: Array) -> Array:
    """X in units of 1/12288, rounded half up."""
    if power_of_two(y.scale) != (-15, True) or x.zero_point or y.zero_point:
        raise ArgumentError(op, f"int16 needs zero points of 0 and Y_scale 2**-15, got {x}, {y}")
    power, exact = power_of_two(x.scale)
    if exact and power in (-12, -11):
        return values * (3 << (power + 12))
    multiplier, shift = float(x.scale) * 3 * 4096, 0
    while multiplier <= 32767 / 2 and shift <= 30:
        multiplier, shift = 2 * multiplier, shift + 1
    return np.asarray((values * int(multiplier) + ((1 << shift) >> 1)) >> shift)


def _between(magnitudes: Array, shift: int, most: int) -> Array:
    """The sigmoid, times 2**(16 + shift), of magnitudes of which 2**shift lead from one point to the next."""
    table, place = _sigmoids(), np.minimum(magnitudes >> shift, _POINTS - 1)
    begin, end = table[place], table[np.minimum(place + 1, _POINTS - 1)]
    inner = (begin << shift) + (magnitudes & ((1 << shift) - 1)) * (end - begin)
    return np.where(place == _POINTS - 1, most, inner)


def sigmoid(op: OperatorDef, x: Affine, y: Affine, values: Array) -> Array:
    """LOGISTIC: Y_scale is 2**-15."""
    thirds = _thirds(op, x, y, values)
    found = _between(np.abs(thirds), 9, _HIGH << 10)
    return np.where(thirds >= 0, found + (1 << 9), (1 << 25) - found + (1 << 9) - 1) >> 10


def tanh(op: OperatorDef, x: Affine, y: Affine, values: Array) -> Array:
    """TANH: tanh(X) = 2 sigmoid(2 X) - 1; Y_scale is 2**-15."""
    thirds = _thirds(op, x, y, values)
    found = _between(np.abs(thirds), 8, (_UNIT - 1) << 8)
    return np.where(thirds >= 0, found - (1 << 23) + (1 << 7), (1 << 23) - found + (1 << 7) - 1) >> 8
