"""gemmlowp's 16-bit fixed-point sigmoid and hyperbolic tangent, exact to the last bit, as tables of all 65,536 numbers.

A number in Qn.m has m bits after the binary point, n + m is 15. The algorithms are those of ``fixed_point.py``, on
int16 held in int64. Source: gemmlowp's fixedpoint/fixedpoint.h.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.operators.quantised.fixed_point import (
    EXP_MINUS_EIGHTH,
    EXP_MINUS_POWERS,
    FORTY_EIGHT_17THS,
    MINUS_32_17THS,
    THIRD,
    divide_by_power,
)

_LOW, _HIGH = -(1 << 15), (1 << 15) - 1
_CONSTANT_SHIFT = 16  # the 32-bit constants, rounded


def _constant(value: int) -> int:
    return int(divide_by_power(np.asarray(value, np.int64), _CONSTANT_SHIFT))


def _times(a: Array, b: object) -> Array:
    """The high half of 2 a b, rounded half up and saturated."""
    return np.asarray(np.minimum((a * np.asarray(b, np.int64) + (1 << 14)) >> 15, _HIGH))


def _wrapped(values: Array) -> Array:
    return np.asarray(values.astype(np.int16), np.int64)


def _shifted(values: Array, exponent: int) -> Array:
    """values * 2**exponent, saturated."""
    return np.asarray(np.clip(values << exponent, _LOW, _HIGH))


def _exp_of_quarter(a: Array) -> Array:
    """exp(a) for a in [-1/4, 0), both in Q0.15."""
    x = a + (1 << 12)
    square = _times(x, x)
    cube, fourth = _times(square, x), _times(square, square)
    rest = divide_by_power(_times(divide_by_power(fourth, 2) + cube, _constant(THIRD)) + square, 1)
    start = _constant(EXP_MINUS_EIGHTH)
    return np.asarray(np.clip(start + _times(x + rest, start), _LOW, _HIGH))


def _exp_of_negative(a: Array, integer_bits: int) -> Array:
    """exp(a) in Q0.15, for a <= 0 with ``integer_bits`` bits before the point."""
    fraction = 15 - integer_bits
    quarter = 1 << (fraction - 2)
    rest = (a & (quarter - 1)) - quarter
    result, whole = _exp_of_quarter(_shifted(rest, integer_bits)), _wrapped(rest - a)
    for power, factor in EXP_MINUS_POWERS:
        if integer_bits > power:
            result = np.where(whole & (1 << (fraction + power)), _times(result, _constant(factor)), result)
    if integer_bits > 5:
        result = np.where(a < _constant(-(1 << (36 - integer_bits))), 0, result)
    return np.where(a == 0, _HIGH, result)


def _newton(a: Array) -> Array:
    """2 / (1 + a) in Q2.13 for a in [0, 1): three Newton steps from a linear estimate."""
    half = (a + _HIGH + 1) >> 1
    x = _wrapped(_constant(FORTY_EIGHT_17THS) + _times(half, _constant(MINUS_32_17THS)))
    for _ in range(3):
        error = _wrapped((1 << 13) - _times(half, x))
        x = _wrapped(x + _shifted(_times(x, error), 2))
    return x


_EVERY = np.arange(_LOW, _HIGH + 1, dtype=np.int64)


@cache
def sigmoid_table(integer_bits: int) -> Array:
    """The sigmoid in Q0.15 of every number with that many bits before the point, from the lowest on; int64."""
    positive = _shifted(_newton(_exp_of_negative(-np.abs(_EVERY), integer_bits)), 1)
    return np.where(_EVERY == 0, 1 << 14, np.where(_EVERY > 0, positive, _HIGH - positive))


@cache
def tanh_table(integer_bits: int) -> Array:
    """The hyperbolic tangent in Q0.15 of every number with that many bits before the point, from the lowest on."""
    decay = _exp_of_negative(-np.abs(_EVERY), integer_bits + 1)
    size = _shifted(_wrapped(_newton(decay) - (1 << 13)), 2)
    return np.where(_EVERY == 0, 0, np.sign(_EVERY) * size)


def looked_up(table: Array, x: Array) -> Array:
    """The values for int64 numbers of 16 bits."""
    return np.asarray(table[x - _LOW])
