"""Every rounding rule against its source's definition, in Python's unbounded integers and fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runtime_arm.operators.quantised.rounding import (
    RULES,
    FixedPointRequantizer,
    Requantizer,
    fixed_point,
    requantize,
    requantizer,
)
from tests.support.allocation import NUMPY_NBYTES, nbytes_of_second_run

INT32 = st.integers(-(2**31), 2**31 - 1)
EDGES = [0, 1, -1, 2, -2, 3, -3, 127, -128, 2**23 + 1, 2**24 + 1, -(2**24) - 1, 2**30, -(2**30), 2**31 - 1, -(2**31)]


def nearest(value: Fraction, even: bool) -> int:
    """Rounds to nearest, ties to even or away from zero."""
    low = math.floor(value)
    rest = value - low
    if rest != Fraction(1, 2):
        return low + (rest > Fraction(1, 2))
    if even:
        return low + low % 2
    return low + (value > 0)


def decompose(multiplier: float) -> tuple[int, int]:
    """TensorFlow Lite's QuantizeMultiplier."""
    if multiplier == 0:
        return 0, 0
    fraction, exponent = math.frexp(multiplier)
    mantissa = nearest(Fraction(fraction) * 2**31, even=False)
    if mantissa == 2**31:
        mantissa, exponent = 2**30, exponent + 1
    return (0, 0) if exponent < -31 else (mantissa, exponent)


def high_multiply(a: int, b: int) -> int:
    """gemmlowp's SaturatingRoundingDoublingHighMul: C's division truncates."""
    if a == b == -(2**31):
        return 2**31 - 1
    product = a * b
    nudged = product + (2**30 if product >= 0 else 1 - 2**30)
    return nudged // 2**31 if nudged >= 0 else -(-nudged // 2**31)


def divide_by_power(value: int, exponent: int) -> int:
    """gemmlowp's RoundingDivideByPOT."""
    mask = (1 << exponent) - 1
    return (value >> exponent) + ((value & mask) > (mask >> 1) + (value < 0))


def expected(rule: str, total: int, multiplier: float) -> int:
    if rule == "onnx_even":
        return nearest(Fraction(float(np.float32(total) * np.float32(multiplier))), even=True)
    if rule == "tflite_real":
        product = Fraction(float(total) * multiplier)
        return int(math.copysign(math.floor(abs(product) + Fraction(1, 2)), product))
    mantissa, exponent = decompose(multiplier)
    if rule == "tflite_wide":
        narrow = min((mantissa + 2**15) // 2**16, 2**15 - 1)
        return math.floor(Fraction(total * narrow, 2 ** (15 - exponent)) + Fraction(1, 2))
    shifted = min(max(total << max(exponent, 0), -(2**31)), 2**31 - 1)
    return divide_by_power(high_multiply(shifted, mantissa), max(-exponent, 0))


def scaled(rule: str, sums: object, multiplier: object, dtype: str = "int64") -> list[int]:
    total = np.array(sums, dtype)
    chosen = RULES[rule]
    work = [np.full(total.shape, 77, name) for name in chosen.work_dtypes]
    chosen.scale(total, chosen.prepare(multiplier), work)
    return [int(value) for value in work[0].reshape(-1)]


@pytest.mark.parametrize("rule", RULES)
@given(total=INT32, multiplier=st.floats(2**-40, 0.9999999, width=64))
def test_rule_is_exact_below_one(rule: str, total: int, multiplier: float) -> None:
    assert scaled(rule, [total], multiplier) == [expected(rule, total, multiplier)]


@pytest.mark.parametrize("rule", ["onnx_even", "tflite_ref", "tflite_real"])
@given(total=INT32, multiplier=st.floats(1.0, 2.0**20, width=64))
def test_rule_is_exact_above_one(rule: str, total: int, multiplier: float) -> None:
    assert scaled(rule, [total], multiplier) == [expected(rule, total, multiplier)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("multiplier", [0.5, 0.25, 2.0**-31, 2.0**-32, 2.0**-33, 1 - 2.0**-32, 1 - 2.0**-31, 0.1, 0.0])
def test_rule_at_the_edges(rule: str, multiplier: float) -> None:
    if rule == "gemmlowp" and multiplier == 1 - 2.0**-32:
        with pytest.raises(ValueError, match="less than 1"):
            scaled(rule, EDGES, multiplier)  # its mantissa rounds up to 1
        return
    assert scaled(rule, EDGES, multiplier) == [expected(rule, total, multiplier) for total in EDGES]


def test_the_rule_of_wide_sums() -> None:
    """TensorFlow Lite's MultiplyByQuantizedMultiplier of int64: sums of 48 bits, multipliers below 2**14."""
    sums = [2**47 - 1, -(2**47), 2**40 + 12345, -(2**40) - 1]
    for multiplier in (2.0**-20 * 1.37, 0.1, 3.7, 2.0**14 * 0.99999):
        assert scaled("tflite_wide", sums, multiplier) == [expected("tflite_wide", one, multiplier) for one in sums]
    with pytest.raises(ValueError, match="less than 2"):
        scaled("tflite_wide", sums, 2.0**14)


def test_rules_differ_on_ties() -> None:
    assert scaled("tflite_wide", [1, 3, 5, -1, -3], 0.5) == [1, 2, 3, 0, -1]
    assert scaled("onnx_even", [1, 3, 5, -1, -3], 0.5) == [0, 2, 2, 0, -2]
    assert scaled("tflite_real", [1, 3, 5, -1, -3], 0.5) == [1, 2, 3, -1, -2]
    assert scaled("gemmlowp", [1, 3, 5, -1, -3], 0.5) == [1, 2, 3, 0, -1]  # the high multiply rounds -0.5 up
    assert scaled("gemmlowp", [2, 6, 10, -2, -6], 0.25) == [1, 2, 3, -1, -2]  # the shift rounds away from zero


@pytest.mark.parametrize("rule", RULES)
def test_one_multiplier_per_channel_and_sums_of_any_dtype(rule: str) -> None:
    rng = np.random.default_rng(5)
    sums = rng.integers(-(2**23), 2**23, (7, 31))
    multipliers = rng.uniform(2.0**-20, 0.9, (7, 1))
    wanted = [expected(rule, int(total), float(m)) for row, (m,) in zip(sums, multipliers) for total in row]
    for dtype in ("int32", "int64", "float32", "float64"):
        assert scaled(rule, sums, multipliers, dtype) == wanted


def test_sums_may_be_the_work_buffer() -> None:
    sums = np.arange(-50, 50, dtype=np.float32)
    out = np.empty(100, np.int8)
    Requantizer("onnx_even", 0.5, 3, -128, 127)(sums, out, [sums])
    np.testing.assert_array_equal(out, requantize(np.arange(-50, 50), 0.5, 3, np.int8))


@pytest.mark.parametrize(("dtype", "low", "high"), [("uint8", 0, 255), ("int8", -128, 127), ("uint16", 0, 65535)])
def test_requantize_adds_the_zero_point_and_saturates(dtype: str, low: int, high: int) -> None:
    sums = np.array([-(2**31), -10, 0, 10, 2**31 - 1])
    assert requantize(sums, 1.0, 5, dtype).tolist() == [low, max(-5, low), 5, 15, high]


def test_a_fused_activation_saturates_earlier() -> None:
    sums, out = np.array([-9, -1, 0, 1, 9], np.int32), np.empty(5, np.uint8)
    Requantizer("tflite_ref", 1.0, 10, 10, 16)(sums, out, [np.empty(5, np.int64), np.empty(5, np.int64)])
    assert out.tolist() == [10, 10, 10, 11, 16]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("multiplier", [-0.5, math.nan, math.inf])
def test_impossible_multipliers_are_refused(rule: str, multiplier: float) -> None:
    if rule.startswith("tflite") and multiplier == -0.5:
        assert requantize(np.array([4, -4]), multiplier, 0, np.int8, rule).tolist() == [-2, 2]
        return
    with pytest.raises(ValueError, match="multiplier"):
        requantize(np.zeros(1, np.int32), multiplier, 0, np.int8, rule)


def test_gemmlowp_refuses_multipliers_of_one_or_more() -> None:
    with pytest.raises(ValueError, match="less than 1"):
        requantize(np.zeros(1, np.int32), [0.5, 1.0], 0, np.int8, "gemmlowp")


@given(st.floats(2**-31, 2.0**30))
def test_fixed_point_is_the_nearest(multiplier: float) -> None:
    fixed = fixed_point(multiplier)
    assert (int(fixed.mantissa), int(fixed.exponent)) == decompose(multiplier)
    assert abs(float(fixed.mantissa) * 2.0 ** (float(fixed.exponent) - 31) - multiplier) <= multiplier * 2.0**-31


@given(
    multiplier=st.floats(2.0**-15, 3.0),
    dtype=st.sampled_from(["int8", "uint8", "int16"]),
    reach=st.integers(1, 2**24),
    data=st.data(),
)
def test_fixed_point_in_float64_is_exact_at_every_step(
    multiplier: float, dtype: str, reach: int, data: st.DataObject
) -> None:
    rule = "tflite_ref"
    """Tests around every sum at which the output changes, and at the ends."""
    limits = np.iinfo(dtype)
    zero_point = data.draw(st.integers(int(limits.min), int(limits.max)))
    low = data.draw(st.sampled_from([int(limits.min), zero_point]))
    fast = FixedPointRequantizer.fitting(rule, multiplier, zero_point, low, int(limits.max), reach)
    assume(fast is not None)
    assert fast is not None
    steps = np.arange(max(low, -300), min(int(limits.max), 300) + 1) - zero_point
    around = np.rint((steps[:, None] + [-0.5, 0.5]) / multiplier)[..., None] + np.arange(-3, 4)
    sums = np.concatenate([around.reshape(-1), [reach, -reach, 0, 1, -1]])
    sums = sums[np.abs(sums) <= reach].astype(np.int64)
    results = []
    for requantizer_ in (fast, Requantizer(rule, multiplier, zero_point, low, int(limits.max))):
        result, work = np.empty(sums.shape, dtype), [np.empty(sums.shape, name) for name in requantizer_.work_dtypes]
        requantizer_(sums, result, work)
        results.append(result)
    np.testing.assert_array_equal(results[0], results[1])


def test_float64_is_not_used_if_53_bits_may_not_suffice() -> None:
    assert isinstance(requantizer("tflite_ref", 0.01, 0, -128, 127, 1 << 20), FixedPointRequantizer)
    assert isinstance(requantizer("tflite_ref", 2.0**-20 * 0.7, 0, -128, 127, 1 << 30), Requantizer)
    assert isinstance(requantizer("tflite_ref", 3.0, 0, -128, 127, 1 << 30), Requantizer)
    assert isinstance(requantizer("onnx_even", 0.01, 0, -128, 127, 1 << 20), Requantizer)


@pytest.mark.parametrize("rule", RULES)
def test_blocks_are_requantised_without_new_memory(rule: str) -> None:
    channels = 1 << 17
    multipliers = np.random.default_rng(0).uniform(1e-3, 0.9, channels)
    if rule not in ("gemmlowp", "onnx_even"):
        multipliers[::2] *= 20
    requantize = Requantizer(rule, multipliers, 3, -128, 127)
    sums, y = np.arange(2 * channels, dtype=np.int32).reshape(2, channels) - channels, np.zeros((2, channels), np.int8)
    work = [np.zeros(sums.shape, dtype) for dtype in requantize.work_dtypes]
    assert nbytes_of_second_run(partial(requantize, sums, y, work)) < NUMPY_NBYTES
