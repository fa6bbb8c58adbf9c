"""Conventions of TensorFlow Lite's quantised operators: scales and zero points as arguments, fused activations.

Domain "tflite". Blobs are plain arrays of integers; image blobs are (N, H, W, C). An integer q of an operand P stands
for the real  P_scale * (q - P_zero_point). Both are arguments of every operator that needs them; scales are float32.
The output has the integer type of X unless the operator says otherwise. ``activation`` is NONE, RELU, RELU6 or
RELU_N1_TO_1: it clips the output's integers. Results equal TensorFlow Lite's reference kernels (of LiteRT's BUILTIN_REF
resolver) to the last bit. Source: LiteRT, tflite/kernels.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.parameters import check_scale
from runtime_arm.operators.quantised.rounding import RULES, Requantizer
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import Operator, ShapeFunction, operator

DOMAIN = "tflite"
RULE = "tflite_ref"
WIDE_RULE = "tflite_wide"
EIGHT_BITS = ("int8", "uint8")
UP_TO_SIXTEEN_BITS = ("int8", "uint8", "int16")

_ACTIVATIONS: Dict[str, Tuple[float, float]] = {
    "NONE": (-math.inf, math.inf),
    "RELU": (0, math.inf),
    "RELU6": (0, 6),
    "RELU_N1_TO_1": (-1, 1),
    "RELU_0_TO_1": (0, 1),
}


class Affine(NamedTuple):
    """real = scale * (integer - zero_point). The scale is float32, as products and quotients of scales are."""

    scale: np.float32
    zero_point: int


class Range(NamedTuple):
    """The integers at which results saturate, both included."""

    low: int
    high: int


def quantised(type: str, **schema: Any) -> Callable[[ShapeFunction], Operator]:
    """``@operator`` in TensorFlow Lite's domain."""
    return operator(type, domain=DOMAIN, **schema)


def affine(op: OperatorDef, what: str, dtype: Any) -> Affine:
    """The arguments ``what``_scale and ``what``_zero_point (0) for a blob of the dtype. ArgumentError if wrong."""
    scale, zero_point = np.float32(op.get_float(f"{what}_scale")), op.get_int(f"{what}_zero_point", 0)
    check_scale(op, what, scale)
    limits = np.iinfo(dtype)
    if not limits.min <= zero_point <= limits.max:
        raise ArgumentError(op, f"{what}_zero_point must be {limits.min} to {limits.max}, got {zero_point}")
    return Affine(scale, zero_point)


def limits_of(dtype: Any) -> Range:
    """The range of an integer dtype."""
    limits = np.iinfo(dtype)
    return Range(int(limits.min), int(limits.max))


def away_from_zero(values: Any) -> Array:
    """Rounded to nearest, ties away from zero, in the precision of the values."""
    values = np.asarray(values)
    whole = np.trunc(values)
    return np.asarray(whole + np.copysign(np.abs(values - whole) >= 0.5, values), values.dtype)


def activation_range(op: OperatorDef, dtype: Any, y: Affine) -> Range:
    """The range to which the fused activation clips the output."""
    name = op.get_str("activation", "NONE")
    if name not in _ACTIVATIONS:
        raise ArgumentError(op, f"activation must be one of {', '.join(_ACTIVATIONS)}, got {name!r}")
    (least, most), (low, high) = _ACTIVATIONS[name], limits_of(dtype)
    return Range(
        max(low, _quantised_real(least, y)) if math.isfinite(least) else low,
        min(high, _quantised_real(most, y)) if math.isfinite(most) else high,
    )


def _quantised_real(real: float, y: Affine) -> int:
    return y.zero_point + int(away_from_zero(np.float32(real) / y.scale))


def requantised(sums: Array, multiplier: Any, zero_point: int, limits: Range, dtype: Any, rule: str = RULE) -> Array:
    """saturate(round(sums * multiplier) + zero_point) as a fresh array. ``sums`` are integers."""
    result = np.empty(sums.shape, dtype)
    work = [np.empty(sums.shape, name) for name in RULES[rule].work_dtypes]
    Requantizer(rule, multiplier, zero_point, *limits)(sums, result, work)
    return result


def multiplied(integers: Array, multiplier: Any, rule_name: str = RULE) -> Array:
    """round(integers * multiplier) by a rule of TensorFlow Lite's, int64."""
    rule = RULES[rule_name]
    work = np.empty(integers.shape, np.int64), np.empty(integers.shape, np.int64)
    rule.scale(integers, rule.prepare(multiplier), work)
    return work[0]


def require_below_one(op: OperatorDef, what: str, multiplier: Any) -> Any:
    """The multiplier. ArgumentError unless it is less than 1, as TensorFlow Lite requires."""
    if not multiplier < 1:
        raise ArgumentError(op, f"{what} must be less than 1, got {multiplier}")
    return np.float64(multiplier)
