"""TensorFlow Lite's LOG_SOFTMAX of int8 and L2_NORMALIZATION of rows. (SOFTMAX is in softmax.py.)

Both are exact to the last bit. Differences to a row's maximum have few values, so their logarithms are computed once
for each. Source: LiteRT, internal/reference/integer_ops/log_softmax.h, integer_ops/l2normalization.h and
reference/l2normalization.h.
"""

from __future__ import annotations

from typing import Any, Callable, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.fixed_point import divide_by_power, high_product, inverse_square_root, log_of_sum
from runtime_arm.operators.quantised.rounding import fixed_point
from runtime_arm.operators.quantised.tflite.parameters import EIGHT_BITS, affine, limits_of, multiplied, quantised
from runtime_arm.operators.quantised.tflite.softmax import FRACTION_BITS, SUM_BITS, exponentials
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import require
from runtime_arm.registry.specs import TensorSpec

RowTable = Callable[[Array], Array]  # (a row of X) -> the row of Y
_OUTPUT_SHIFT = 22  # from Q5.26 to the output's scale, 1/16
_MIDDLE, _UNIT_SHIFT = 128, 7  # zero point of a normalised row of uint8; bits of the integer that stands for 1


class _Logarithms(NamedTuple):
    """The values of the differences 0, -1, ... -255 to the maximum."""

    terms: Array  # their exponentials, as added to the sum, Q12.19
    scaled: Array  # the differences, Q5.26
    counted: int  # the number of differences that count
    back: float  # from Q5.26 to differences


def _logarithms(op: OperatorDef, scale: Any) -> _Logarithms:
    terms = exponentials(op, scale, 1.0).terms
    step = min(np.float64(scale) * (1 << FRACTION_BITS), 2.0**31 - 1)
    fixed, differences = fixed_point(step), -np.arange(256, dtype=np.int64)
    farthest = int(np.floor(((1 << 5) - 1) * 2.0 ** (FRACTION_BITS - int(fixed.exponent))))
    back = np.ldexp(1.0, 31 - int(fixed.exponent)) / float(fixed.mantissa)
    return _Logarithms(terms, multiplied(np.maximum(differences, -farthest), step), farthest, back)


def _log_softmax_row(table: _Logarithms, row: Array) -> Array:
    below = int(row.max()) - row.astype(np.intp)
    total = log_of_sum(table.terms.take(below).sum(keepdims=True), SUM_BITS)
    least = max(-table.counted - 1, int(multiplied(total - 2**31, table.back)[0]))
    values = divide_by_power(table.scaled - total, _OUTPUT_SHIFT) + 127
    values = np.where(-np.arange(256) > least, np.clip(values, -128, 127), -128)
    return np.asarray(values.astype(np.int8).take(below))


def _by_row(op: OperatorDef, x: Array, of_row: RowTable) -> Array:
    rows = x.reshape(-1, x.shape[-1])
    results: Array = np.array([of_row(row) for row in rows], x.dtype).reshape(x.shape)
    return results


@quantised("QuantizedLogSoftmax", dtypes=("int8",))
def quantized_log_softmax(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """LOG_SOFTMAX over the last dimension. Y has scale 1/16 and zero point 127."""
    require(op, x.ndim > 0 and x.shape[-1] > 0, "X must have a last dimension that is not empty", x)
    _logarithms(op, affine(op, "X", x.dtype).scale)
    return [x]


@quantized_log_softmax.reference
def quantized_log_softmax_reference(op: OperatorDef, x: Array) -> List[Any]:
    table = _logarithms(op, affine(op, "X", x.dtype).scale)
    return [_by_row(op, x, lambda row: _log_softmax_row(table, row))]


@quantised("QuantizedL2Normalize", dtypes=EIGHT_BITS)
def quantized_l2_normalize(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """L2_NORMALIZATION of rows: Y = X / sqrt(sum of X**2). Y has scale 1/128 and zero point 0 (uint8: 128)."""
    require(op, x.ndim > 0 and x.shape[-1] > 0, "X must have a last dimension that is not empty", x)
    affine(op, "X", x.dtype)
    return [x]


def _normalised_row(zero_point: int, middle: int, row: Array) -> Array:
    centred = row.astype(np.int64) - zero_point
    mantissa, exponent = inverse_square_root(int((centred**2).sum()))
    unit = _UNIT_SHIFT if row.dtype == np.uint8 else max(exponent + _UNIT_SHIFT, 0)  # bits that are shifted first
    steps = divide_by_power(high_product(centred << unit, mantissa), unit - _UNIT_SHIFT - exponent)
    return np.asarray(np.clip(steps + middle, *limits_of(row.dtype)), row.dtype)


@quantized_l2_normalize.reference
def quantized_l2_normalize_reference(op: OperatorDef, x: Array) -> List[Any]:
    zero_point, middle = affine(op, "X", x.dtype).zero_point, 0 if x.dtype == np.int8 else _MIDDLE
    return [_by_row(op, x, lambda row: _normalised_row(zero_point, middle, row))]
