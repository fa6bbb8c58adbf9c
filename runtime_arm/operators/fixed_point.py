"""gemmlowp's fixed-point arithmetic in 32 bits, on int64 arrays: exponentials and reciprocals, exact to its last bit.

A number in Qn.m has m bits below the point; its raw integer is meant everywhere. Source: gemmlowp's
fixedpoint/fixedpoint.h.
"""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from runtime_arm.netdef import Array

_MOST = 2**31 - 1
_EXP_MINUS_EIGHTH, _THIRD = 1895147668, 715827883  # exp(-1/8) and 1/3 in Q0.31
# exp(-2**k) in Q0.31 for k = -2 to 4.
_EXP_MINUS_POWERS = ((-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401),
                     (4, 242))
_48_17THS, _MINUS_32_17THS = 1515870810, -1010580540  # in Q2.29


def high_product(a: Any, b: Any) -> Array:
    """The high half of 2 a b, rounded half up and saturated: a product of fixed-point numbers."""
    return np.asarray(np.minimum((np.asarray(a, np.int64) * b + (1 << 30)) >> 31, _MOST))


def divide_by_power(values: Array, exponent: Any) -> Array:
    """values / 2**exponent, rounded half away from zero."""
    exponent = np.asarray(exponent, np.int64)
    half = (np.int64(1) << exponent) >> 1
    return np.asarray((values + half - ((values < 0) & (exponent > 0))) >> exponent)


def multiply_by_power(values: Array, exponent: int) -> Array:
    """values * 2**exponent, saturated."""
    return np.asarray(np.clip(values << exponent, -(2**31), _MOST))


def _exp_of_quarter(a: Array) -> Array:
    """exp(a) for a in [-1/4, 0), both Q0.31: Taylor's polynomial of degree 4 around -1/8."""
    x = a + (1 << 28)
    square = high_product(x, x)
    cube, fourth = high_product(square, x), high_product(square, square)
    rest = divide_by_power(high_product(divide_by_power(fourth, 2) + cube, _THIRD) + square, 1)
    return np.asarray(_EXP_MINUS_EIGHTH + high_product(_EXP_MINUS_EIGHTH, x + rest))


def exp_of_negative(a: Array) -> Array:
    """exp(a) in Q0.31 of numbers a <= 0 in Q5.26."""
    quarter = 1 << 24
    rest = (a & (quarter - 1)) - quarter
    result, whole = _exp_of_quarter(multiply_by_power(rest, 5)), rest - a
    for power, factor in _EXP_MINUS_POWERS:
        result = np.where(whole & (1 << (26 + power)), high_product(result, factor), result)
    return np.where(a == 0, _MOST, result)


def _reciprocal_of_one_plus(a: Array) -> Array:
    """1 / (1 + a) in Q0.31 for a in [0, 1), by three of Newton's steps from a line."""
    total = a + _MOST
    half_denominator = (total + 1) >> 1
    x = _48_17THS + high_product(half_denominator, _MINUS_32_17THS)
    for _ in range(3):
        error = (1 << 29) - high_product(half_denominator, x)
        x = x + multiply_by_power(high_product(x, error), 2)
    return multiply_by_power(x, 1)


def reciprocal(x: Array, integer_bits: int) -> Tuple[Array, Array]:
    """1 / x of positive numbers with that many bits above the point: a mantissa in Q0.31, and by how many bits it is to
    be shifted to the right."""
    bits = np.frexp(x.astype(np.float64))[1].astype(np.int64)  # 32 less the leading zeros
    mantissa = _reciprocal_of_one_plus((x << (32 - bits)) - (1 << 31))
    return mantissa, integer_bits - (32 - bits)
