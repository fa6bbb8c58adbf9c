"""How integer sums become 8-bit values: the requantisation rules of the systems whose nets are run, as named data.

A sum of products of quantised values has the scale s_x * s_w, the output has s_y. Requantisation multiplies the sums by
the real number m = s_x * s_w / s_y, rounds, adds the output's zero point and saturates. The systems differ in how they
multiply and round:

    onnx_even   float32(sum) * float32(m), rounded half to even. ONNX; onnxruntime's kernels.
    gemmlowp    m = mantissa * 2**(exponent - 31) with 2**30 <= mantissa < 2**31 and exponent <= 0, that is m < 1.
                The high half of 2 * sum * mantissa, rounded half up and saturated, is divided by 2**-exponent, rounded
                half away from zero. Caffe2's Int8 operators; gemmlowp's SaturatingRoundingDoublingHighMul and
                RoundingDivideByPOT.
    tflite_ref  the same for any m: if exponent > 0, the sum is first shifted left by it (saturated here; undefined
                in C). TensorFlow Lite's reference kernels, MultiplyByQuantizedMultiplier with double rounding.
    tflite_real float64(sum) * float64(m), rounded half away from zero. LiteRT's fully connected layers.
    tflite_wide m = mantissa * 2**(exponent - 15), the mantissa rounded to 16 bits: sum * mantissa, divided by
                2**(15 - exponent), rounded half up. Sums of up to 48 bits; TensorFlow Lite's layers of int16.

Multipliers of TensorFlow Lite's rules may be negative.

All are exact: in integers where the rule is stated in integers, in single operations where it is stated in floats.
``requantizer`` chooses float64 for tflite_ref and gemmlowp if its 53 bits hold every number that occurs; this takes
half the time.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Union

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_SMALLEST_EXPONENT = -31
_ALMOST_HALF = np.nextafter(0.5, 0)  # added to a number that is truncated then, rounds halves away from zero


class FixedPoint(NamedTuple):
    """Real multipliers as mantissa * 2**(exponent - 31); int64 arrays."""

    mantissa: Array
    exponent: Array


def fixed_point(multiplier: Any) -> FixedPoint:
    """The fixed-point form of real multipliers. The mantissa is rounded half away from zero to 31 bits.

    Magnitudes below 2**-32 count as 0. Source: TensorFlow Lite, QuantizeMultiplier. ValueError if one is not finite.
    """
    fraction, power = np.frexp(_float64(multiplier))
    mantissa = np.copysign(np.floor(np.abs(fraction) * 2.0**31 + 0.5), fraction).astype(np.int64)
    overflow = mantissa == 2**31
    mantissa = np.where(overflow, 2**30, mantissa)
    exponent = power.astype(np.int64) + overflow
    vanishes = exponent < _SMALLEST_EXPONENT
    return FixedPoint(np.where(vanishes, 0, mantissa), np.where(vanishes, 0, exponent))


def _float32(multiplier: Any) -> Array:
    single = np.asarray(multiplier, np.float32)
    if not bool(np.all(np.isfinite(single) & (single >= 0))):
        raise ValueError(f"a multiplier must be finite and not negative, got {multiplier}")
    return single


def _float64(multiplier: Any) -> Array:
    double = np.asarray(multiplier, np.float64)
    if not bool(np.all(np.isfinite(double))):
        raise ValueError(f"a multiplier must be finite, got {multiplier}")
    return double


class Shifts(NamedTuple):
    """Multipliers in fixed-point form, and what of them each block needs: left shifts, None if there are none; right
    shifts; 1 where a right shift moves something, else 0, None if it does everywhere; half of what it divides by."""

    mantissa: Array
    exponent: Array
    left: Optional[Array]
    right: Array
    moves: Optional[Array]
    half: Array


def _shifts(fixed: FixedPoint, right: Array) -> Shifts:
    left, moves = np.maximum(fixed.exponent, 0), (right > 0).astype(np.int64)
    half = np.asarray((np.int64(1) << right) >> 1)
    return Shifts(*fixed, left if left.any() else None, right, None if moves.all() else moves, half)


def double_rounding(fixed: FixedPoint) -> Shifts:
    """The prepared multipliers of the rules tflite_ref and gemmlowp that are given in fixed-point form."""
    return _shifts(fixed, np.maximum(-fixed.exponent, 0))


def _reference_fixed_point(multiplier: Any) -> Shifts:
    return double_rounding(fixed_point(multiplier))


def _fixed_point_below_one(multiplier: Any) -> Shifts:
    fixed = fixed_point(multiplier)
    if np.any(fixed.mantissa < 0):
        raise ValueError(f"for the rule gemmlowp, a multiplier must not be negative, got {np.min(multiplier)}")
    if np.any(fixed.exponent > 0):
        raise ValueError(
            f"for the rule gemmlowp, multipliers rounded to 31 bits must be less than 1, got {np.max(multiplier)}"
        )
    return double_rounding(fixed)


def _scale_float32(sums: Array, multiplier: Array, work: Sequence[Array]) -> None:
    result = work[0]
    np.multiply(sums, multiplier, out=result, dtype=np.float32, casting="same_kind")
    np.rint(result, out=result)


def _scale_fixed_point(sums: Array, multiplier: Shifts, work: Sequence[Array]) -> None:
    """high(2 * saturate(sums << left) * mantissa), half up; then / 2**right, half away from zero. In place in int64."""
    result, sign = work
    np.copyto(result, sums, casting="unsafe")
    if multiplier.left is not None:
        np.left_shift(result, multiplier.left, out=result)
        np.clip(result, _INT32_MIN, _INT32_MAX, out=result)
    np.multiply(result, multiplier.mantissa, out=result)
    np.add(result, 1 << 30, out=result)
    np.right_shift(result, 31, out=result)
    np.right_shift(result, 63, out=sign)  # -1 where negative: half away from zero is half up of one unit less
    if multiplier.moves is not None:
        np.multiply(sign, multiplier.moves, out=sign)
    np.add(result, sign, out=result)
    np.add(result, multiplier.half, out=result)
    np.right_shift(result, multiplier.right, out=result)


def _sixteen_bits(multiplier: Any) -> Shifts:
    """The mantissa in 16 bits, rounded half up, at most 32767. ValueError if a multiplier is 2**14 or more."""
    fixed = fixed_point(multiplier)
    if np.any(fixed.exponent > 14):
        raise ValueError(f"for the rule tflite_wide, a multiplier must be less than 2**14, got {np.max(multiplier)}")
    mantissa = np.minimum((fixed.mantissa + (1 << 15)) >> 16, (1 << 15) - 1)
    return _shifts(FixedPoint(mantissa, fixed.exponent), 15 - fixed.exponent)


def _scale_wide(sums: Array, multiplier: Shifts, work: Sequence[Array]) -> None:
    result = work[0]
    np.copyto(result, sums, casting="unsafe")
    np.multiply(result, multiplier.mantissa, out=result)
    np.add(result, multiplier.half, out=result)
    np.right_shift(result, multiplier.right, out=result)


def _scale_float64(sums: Array, multiplier: Array, work: Sequence[Array]) -> None:
    result, half = work
    np.copyto(result, sums)
    np.multiply(result, multiplier, out=result)
    np.copysign(_ALMOST_HALF, result, out=half)
    np.add(result, half, out=result)
    np.trunc(result, out=result)


class RoundingRule(NamedTuple):
    """One rule: ``scale(sums, prepare(multiplier), work)`` writes round(sums * multiplier) to ``work[0]``.

    ``work`` has one buffer of the shape of ``sums`` per dtype in ``work_dtypes``. ``sums`` holds integers, in an
    integer or a float dtype. The first buffer may be ``sums`` itself.
    """

    name: str
    work_dtypes: Tuple[str, ...]
    prepare: Callable[[Any], Any]
    scale: Callable[[Array, Any, Sequence[Array]], None]


RULES: Dict[str, RoundingRule] = {
    rule.name: rule
    for rule in (
        RoundingRule("onnx_even", ("float32",), _float32, _scale_float32),
        RoundingRule("gemmlowp", ("int64", "int64"), _fixed_point_below_one, _scale_fixed_point),
        RoundingRule("tflite_ref", ("int64", "int64"), _reference_fixed_point, _scale_fixed_point),
        RoundingRule("tflite_real", ("float64", "float64"), _float64, _scale_float64),
        RoundingRule("tflite_wide", ("int64", "int64"), _sixteen_bits, _scale_wide),
    )
}


class Requantizer:
    """saturate(round(sums * multiplier) + zero_point) by one rule, ready to be applied to many blocks of sums.

    multiplier: real numbers that broadcast to a block of sums. low, high: where the output saturates, both included:
    the range of the output's dtype, or less for a fused activation.
    """

    def __init__(self, rule: str, multiplier: Any, zero_point: int, low: int, high: int):
        self.rule = RULES[rule]
        self._multiplier = self.rule.prepare(multiplier)
        self.work_dtypes = self.rule.work_dtypes
        dtype = np.dtype(self.work_dtypes[0]).type
        self._zero_point = dtype(zero_point)
        self._low, self._high = dtype(low - zero_point), dtype(high - zero_point)

    def __call__(self, sums: Array, out: Array, work: Sequence[Array]) -> None:
        """Requantises one block into ``out``, allocating nothing of its size."""
        self.rule.scale(sums, self._multiplier, work)
        result = work[0]
        np.clip(result, self._low, self._high, out=result)
        if self._zero_point:
            np.add(result, self._zero_point, out=result)
        np.copyto(out, result, casting="unsafe")


def _times_power(x: Any, exponents: Any) -> Any:
    """x * 2**exponents. NumPy accepts exponents of more than 32 bits only on 64-bit machines."""
    return np.ldexp(x, np.asarray(exponents).astype(np.intc))


class FixedPointRequantizer:
    """A Requantizer by the rules tflite_ref and gemmlowp, computed in float64, in which every product and sum is exact.

    With m = mantissa * 2**(exponent - 31) and the divisor 2**right, the two roundings equal one rounding
    half up of  sum * m  moved away from zero by 2**-(right + 1), because what the first of them adds is less than that.
    Made by ``FixedPointRequantizer.fitting``.
    """

    work_dtypes = ("float64", "float64")

    def __init__(self, fixed: FixedPoint, zero_point: int, low: int, high: int, limit: Optional[Array]):
        lift = -min(low, 0)  # shifts to non-negative numbers, for which a cast to an integer rounds down
        self._scale = np.asarray(_times_power(fixed.mantissa.astype(np.float64), fixed.exponent - 31))
        self._limit = limit
        nudge = np.where(fixed.exponent < 0, _times_power(0.5, fixed.exponent), 0.0)
        self._nudge = np.asarray(nudge) if low < zero_point and bool(nudge.any()) else None
        self._offset = np.asarray(0.5 + zero_point + lift + (nudge if self._nudge is None else 0.0))
        self._low, self._high = np.array(low + lift, np.float64), np.array(high + lift, np.float64)
        kinds = [kind for kind in _UNSIGNED.values() if 0 < lift <= np.iinfo(kind).max]
        self._lift = {kind: np.array(lift, kind) for kind in kinds}

    @classmethod
    def fitting(
        cls, rule: str, multiplier: Any, zero_point: int, low: int, high: int, reach: int
    ) -> Optional[FixedPointRequantizer]:
        """For sums of magnitude up to ``reach``. None if 53 bits may not suffice, and for other rules."""
        if rule not in ("tflite_ref", "gemmlowp"):
            return None
        fixed = RULES[rule].prepare(multiplier)
        if not bool(np.all(fixed.mantissa > 0)) or reach << max(int(fixed.exponent.max()), 0) > _INT32_MAX:
            return None
        scale = _times_power(fixed.mantissa.astype(np.float64), fixed.exponent - 31)
        span = max(abs(low - zero_point), abs(high - zero_point)) + 2  # larger multipliers saturate
        for limit in (None, np.ceil(span / scale)):
            largest = (reach if limit is None else np.minimum(limit, reach)) * scale
            largest = largest + abs(zero_point) + abs(min(low, 0)) + 2
            if bool(np.all(_times_power(largest, 31 - fixed.exponent) < 2.0**53)):
                return cls(fixed, zero_point, low, high, limit)
        return None

    def __call__(self, sums: Array, out: Array, work: Sequence[Array]) -> None:
        """Requantises one block into ``out``, allocating nothing of its size."""
        result, signed = work
        np.copyto(result, sums)
        if self._limit is not None:
            np.maximum(result, -self._limit, out=result)
            np.minimum(result, self._limit, out=result)
        np.multiply(result, self._scale, out=result)
        if self._nudge is not None:
            np.copysign(self._nudge, result, out=signed)
            np.add(result, signed, out=result)
        np.add(result, self._offset, out=result)
        np.maximum(result, self._low, out=result)
        np.minimum(result, self._high, out=result)
        kind = _UNSIGNED[out.dtype.itemsize]
        bits = out.view(kind) if self._lift else out
        np.copyto(bits, result, casting="unsafe")
        if self._lift:
            np.subtract(bits, self._lift[kind], out=bits)


_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def requantizer(
    rule: str, multiplier: Any, zero_point: int, low: int, high: int, reach: int
) -> Union[Requantizer, FixedPointRequantizer]:
    """The fastest exact Requantizer for sums of magnitude up to ``reach``."""
    fast = FixedPointRequantizer.fitting(rule, multiplier, zero_point, low, high, reach)
    return fast or Requantizer(rule, multiplier, zero_point, low, high)


def requantize(sums: Array, multiplier: Any, zero_point: int, dtype: Any, rule: str = "onnx_even") -> Array:
    """saturate(round(sums * multiplier) + zero_point) as a fresh array of an 8- or 16-bit integer dtype."""
    limits = np.iinfo(dtype)
    result = np.empty(sums.shape, dtype)
    work = [np.empty(sums.shape, name) for name in RULES[rule].work_dtypes]
    Requantizer(rule, multiplier, zero_point, int(limits.min), int(limits.max))(sums, result, work)
    return result
