"""Fixed-point arithmetic of 64-bit integers as ONNX nodes: the rounding of Caffe2's and TFLite's integer operators.

ONNX divides integers towards zero and cannot shift signed integers. So a power of two is added to make a number
positive, the sum is divided, and the quotient of that power is subtracted. Rules: ``operators.quantised.rounding``.
"""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from exporter.to_onnx.call import Call
from runtime_arm.netdef import Array
from runtime_arm.operators.quantised.rounding import FixedPoint

PRODUCT_BITS, QUOTIENT_BITS = 62, 40  # magnitudes of products of two 32-bit numbers, and of their quotients
INT64 = np.dtype(np.int64)
FLOAT64 = np.dtype(np.float64)


def shifted(call: Call, number: str, addend: Any, bits: Any, room: int) -> str:
    """(number + addend) / 2 ** bits, rounded down; magnitudes stay below 2 ** room."""
    lifted = call.node("Add", number, call.constant(np.asarray(addend, np.int64) + (1 << room)))
    quotient = call.node("Div", lifted, call.constant(np.left_shift(np.int64(1), bits)))
    return call.node("Sub", quotient, call.constant(np.left_shift(np.int64(1), np.int64(room) - bits)))


def away_from_zero(call: Call, number: str, bits: Any, room: int = QUOTIENT_BITS) -> str:
    """number / 2 ** bits, halves rounded away from zero."""
    divided = np.asarray(bits) > 0
    if not divided.any():
        return number
    negative = call.node("Cast", call.node("Less", number, call.constant(0, np.int64)), to=INT64)
    if not divided.all():
        negative = call.node("Mul", negative, call.constant(divided.astype(np.int64)))
    half = np.left_shift(np.int64(1), bits) >> 1
    return shifted(call, call.node("Sub", number, negative), half, bits, max(room, int(np.max(bits))))


def high_product(call: Call, a: str, b: str) -> str:
    """The high half of 2 a b, rounded half up."""
    return shifted(call, call.node("Mul", a, b), 1 << 30, np.int64(31), PRODUCT_BITS)


def times_fixed_point(call: Call, sums: str, fixed: FixedPoint) -> str:
    """round(sums * multiplier) by the rules gemmlowp and tflite_ref; the multipliers broadcast."""
    left, right = np.maximum(fixed.exponent, 0), np.maximum(-fixed.exponent, 0)
    if np.any(left > 0):
        limits, wide = np.iinfo(np.int32), call.node("Mul", sums, call.constant(np.left_shift(np.int64(1), left)))
        sums = call.node("Clip", wide, call.constant(limits.min, np.int64), call.constant(limits.max, np.int64))
    return away_from_zero(call, high_product(call, sums, call.constant(fixed.mantissa)), right)


def times_real(call: Call, sums: str, multiplier: Array) -> str:
    """round(sums * multiplier) by the rule tflite_real."""
    product = call.node("Mul", call.node("Cast", sums, to=FLOAT64), call.constant(np.asarray(multiplier, np.float64)))
    half = call.constant(np.nextafter(0.5, 0), np.float64)
    whole = call.node("Floor", call.node("Add", call.node("Abs", product), half))
    return call.node("Cast", call.node("Mul", call.node("Sign", product), whole), to=INT64)


def stored(call: Call, numbers: str, zero_point: int, limits: Tuple[int, int], dtype: np.dtype[Any]) -> str:
    """64-bit integers as an output's integers: the zero point is added, and the limits are applied."""
    moved = call.node("Add", numbers, call.constant(zero_point, np.int64))
    low, high = (call.constant(limit, np.int64) for limit in limits)
    return call.node("Cast", call.node("Clip", moved, low, high), to=dtype)


def looked_up(call: Call, places: str, table: Array) -> str:
    """The table's entries at these indices."""
    return call.node("Gather", call.constant(table), places, axis=0)
