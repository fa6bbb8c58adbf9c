"""gemmlowp's 32-bit fixed-point arithmetic on int64 arrays, exact to the last bit: exp, log, reciprocals, roots.

A number in Qn.m has m bits after the binary point. Functions here take and return its raw integer. Source: gemmlowp's
fixedpoint/fixedpoint.h.
"""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from runtime_arm.netdef import Array

MOST = 2**31 - 1
EXP_MINUS_EIGHTH, THIRD = 1895147668, 715827883  # exp(-1/8) and 1/3 in Q0.31
# exp(-2**k) in Q0.31 for k = -2 to 4.
EXP_MINUS_POWERS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)
FORTY_EIGHT_17THS, MINUS_32_17THS = 1515870810, -1010580540  # in Q2.29


def high_product(a: Any, b: Any) -> Array:
    """The high half of 2 a b, rounded half up and saturated: the product of two fixed-point numbers."""
    return np.asarray(np.minimum((np.asarray(a, np.int64) * b + (1 << 30)) >> 31, MOST))


def divide_by_power(values: Array, exponent: Any) -> Array:
    """values / 2**exponent, ties away from zero."""
    exponent = np.asarray(exponent, np.int64)
    half = (np.int64(1) << exponent) >> 1
    return np.asarray((values + half - ((values < 0) & (exponent > 0))) >> exponent)


def multiply_by_power(values: Array, exponent: int) -> Array:
    """values * 2**exponent, saturated."""
    return np.asarray(np.clip(values << exponent, -(2**31), MOST))


def _exp_of_quarter(a: Array) -> Array:
    """exp(a) for a in [-1/4, 0), both in Q0.31: the Taylor polynomial of degree 4 around -1/8."""
    x = a + (1 << 28)
    square = high_product(x, x)
    cube, fourth = high_product(square, x), high_product(square, square)
    rest = divide_by_power(high_product(divide_by_power(fourth, 2) + cube, THIRD) + square, 1)
    return np.asarray(EXP_MINUS_EIGHTH + high_product(EXP_MINUS_EIGHTH, x + rest))


def exp_of_negative(a: Array) -> Array:
    """exp(a) in Q0.31, for a <= 0 in Q5.26."""
    quarter = 1 << 24
    rest = (a & (quarter - 1)) - quarter
    result, whole = _exp_of_quarter(multiply_by_power(rest, 5)), rest - a
    for power, factor in EXP_MINUS_POWERS:
        result = np.where(whole & (1 << (26 + power)), high_product(result, factor), result)
    return np.where(a == 0, MOST, result)


def _reciprocal_of_one_plus(a: Array) -> Array:
    """1 / (1 + a) in Q0.31 for a in [0, 1): three Newton steps from a linear estimate."""
    total = a + MOST
    half_denominator = (total + 1) >> 1
    x = FORTY_EIGHT_17THS + high_product(half_denominator, MINUS_32_17THS)
    for _ in range(3):
        error = (1 << 29) - high_product(half_denominator, x)
        x = x + multiply_by_power(high_product(x, error), 2)
    return multiply_by_power(x, 1)


def _bits(x: Array) -> Array:
    """How many bits positive numbers below 2**53 have."""
    return np.frexp(x.astype(np.float64))[1].astype(np.int64)


def reciprocal(x: Array, integer_bits: int) -> Tuple[Array, Array]:
    """1 / x of positive numbers with ``integer_bits`` bits before the point: a mantissa in Q0.31, and a right shift."""
    bits = _bits(x)
    mantissa = _reciprocal_of_one_plus((x << (32 - bits)) - (1 << 31))
    return mantissa, integer_bits - (32 - bits)


def leading_zeros(x: Array) -> Array:
    """The number of leading zeros of positive numbers in 32 bits."""
    return np.asarray(32 - _bits(x))


_LOG_2, _ROOT_OF_HALF, _FOURTH_ROOT_OF_HALF = 1488522236, 1518500250, 1805811301  # in Q0.31
# With the fourth root of two r: 11/240 r, 1/20 r, 2/r - r, 1/4 r, in Q0.31.
_LOG_NUMERATOR, _LOG_SQUARE, _LOG_CONSTANT, _LOG_LINEAR = 117049297, 127690142, 1057819769, 638450708


def log_of_sum(x: Array, integer_bits: int) -> Array:
    """log(x) in Q5.26, for x >= 1 with ``integer_bits`` bits before the point.

    x is 2**power times a mantissa near the fourth root of 1/2. The mantissa is that of x or of x times the square root
    of 1/2, whichever is nearer. Its logarithm is a quotient of polynomials. Source: LiteRT, kernels/internal/common.h.
    """
    quarter, unit = 1 << 23, 25  # in Q6.25
    zeros = leading_zeros(x)
    first = multiply_by_power(high_product(_shifted(x, zeros - 1), _ROOT_OF_HALF), 1)
    first_power = ((integer_bits - zeros) << unit) + quarter
    room = leading_zeros(high_product(x, _ROOT_OF_HALF)) - 1
    second, second_power = _shifted(x, room), ((integer_bits - room) << unit) - quarter
    mantissa, power = np.minimum(first, second), np.maximum(first_power, second_power)
    middle = (mantissa + _FOURTH_ROOT_OF_HALF + 1) >> 1
    offset = (mantissa - _FOURTH_ROOT_OF_HALF) * 2
    square = high_product(offset, offset)
    numerator = high_product(offset, mantissa) + high_product(high_product(offset, square), _LOG_NUMERATOR)
    factor = _LOG_CONSTANT + offset + high_product(_LOG_SQUARE, square)
    divisor = _reciprocal_of_one_plus(high_product(middle, factor) + high_product(_LOG_LINEAR, offset))
    quotient = high_product(divide_by_power(numerator, 6), divisor)
    return multiply_by_power(high_product(power, _LOG_2) + quotient, 1)


def _shifted(x: Array, exponents: Array) -> Array:
    """x * 2**exponents, saturated."""
    return np.asarray(np.clip(x << exponents, -(2**31), MOST))


def inverse_square_root(x: Array) -> Tuple[Array, Array]:
    """1 / sqrt(x) of whole numbers: mantissas in Q0.31 and the powers of two to multiply them by, at most 0.

    Numbers below 2 count as 1. Five Newton steps from 1. Source: LiteRT, kernels/internal/common.h.
    """
    whole = np.maximum(np.asarray(x, np.int64), 2)
    bits = _bits(whole)
    quarters = np.maximum((bits - 28) // 2, 0)  # until fewer than 30 bits are left
    pairs = (31 - bits) // 2 + quarters - 1
    whole, right = (whole >> 2 * quarters) << 2 * pairs, 11 + quarters - pairs
    half = divide_by_power(whole >> 1, 1)
    estimate = np.full(half.shape, 1 << 28, np.int64)  # 1 in Q3.28
    for _ in range(5):
        cube = multiply_by_power(high_product(high_product(estimate, estimate), estimate), 6)
        estimate = multiply_by_power(high_product(3 << 27, estimate) - high_product(half, cube), 3)
    mantissa = high_product(estimate, _ROOT_OF_HALF) << np.maximum(-right, 0)
    return np.where(x <= 1, MOST, mantissa), np.where(x <= 1, 0, np.minimum(-right, 0))
