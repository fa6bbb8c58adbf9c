"""TensorFlow Lite's LOG_SOFTMAX and L2_NORMALIZATION of rows. (SOFTMAX is in softmax.py.)

Both are exact to the last bit. Differences to a row's maximum have few values, so the result of LOG_SOFTMAX is computed
once for each. Source: LiteRT, internal/reference/integer_ops/log_softmax.h, integer_ops/l2normalization.h and
reference/l2normalization.h.
"""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.fixed_point import divide_by_power, high_product, inverse_square_root, log_of_sum
from runtime_arm.operators.quantised.rounding import fixed_point
from runtime_arm.operators.quantised.tflite.parameters import (
    EIGHT_BITS,
    Range,
    affine,
    limits_of,
    multiplied,
    quantised,
)
from runtime_arm.operators.quantised.tflite.softmax import (
    FRACTION_BITS,
    SUM_BITS,
    differences_into,
    exponentials,
    row_buffers,
    row_parts,
)
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import require
from runtime_arm.registry.specs import TensorSpec

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


def _farthest(table: _Logarithms, total: Array) -> Array:
    """The differences at which Y is its lowest integer, for the logarithms (rows, 1) of the sums."""
    return np.minimum(table.counted + 1, -multiplied(total - 2**31, table.back))


@quantised("QuantizedLogSoftmax", dtypes=EIGHT_BITS)
def quantized_log_softmax(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """LOG_SOFTMAX over the last dimension. Y has scale 1/16 and zero point 127 (uint8: 255)."""
    require(op, x.ndim > 0 and x.shape[-1] > 0, "X must have a last dimension that is not empty", x)
    _logarithms(op, affine(op, "X", x.dtype).scale)
    return [x]


@quantized_log_softmax.reference
def quantized_log_softmax_reference(op: OperatorDef, x: Array) -> List[Any]:
    table, limits = _logarithms(op, affine(op, "X", x.dtype).scale), limits_of(x.dtype)
    below = x.max(-1, keepdims=True).astype(np.intp) - x
    total = log_of_sum(table.terms[below].sum(-1, keepdims=True), SUM_BITS)
    steps = divide_by_power(table.scaled[below] - total, _OUTPUT_SHIFT) + limits.high
    return [np.where(below < _farthest(table, total), np.clip(steps, *limits), limits.low).astype(x.dtype)]


def _buffers(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    buffers = row_buffers(op, inputs, outputs)
    return [*buffers, buffers[0].with_dtype(bool)]


@quantized_log_softmax.kernel("NUMPY", scratch=_buffers)
def quantized_log_softmax_numpy(call: Call) -> Run:
    """Works in blocks of rows, because the logarithms allocate arrays of their length."""
    dtype, parts = call.inputs[0].dtype, row_parts(call)
    table, limits = _logarithms(call.op, affine(call.op, "X", dtype).scale), limits_of(dtype)

    def run() -> None:
        for x, y in parts:
            _log_softmax_into(table, x, y, [buffer[: len(x)] for buffer in call.scratch], limits)

    return run


def _log_softmax_into(table: _Logarithms, x: Array, y: Array, scratch: Sequence[Array], limits: Range) -> None:
    below, values, largest, far = scratch
    differences_into(x, below, largest)
    np.take(table.terms, below, out=values, mode="clip")
    total = log_of_sum(np.add.reduce(values, axis=-1, keepdims=True), SUM_BITS)
    np.greater_equal(below, _farthest(table, total), out=far)
    np.take(table.scaled, below, out=values, mode="clip")
    np.subtract(values, total, out=values)
    np.add(values, (1 << _OUTPUT_SHIFT - 1) - 1, out=values)  # none is above 0: ties go away from it
    np.right_shift(values, _OUTPUT_SHIFT, out=values)
    np.add(values, limits.high, out=values)
    np.clip(values, limits.low, limits.high, out=values)
    np.copyto(values, limits.low, where=far)
    np.copyto(y, values, casting="unsafe")


@quantised("QuantizedL2Normalize", dtypes=EIGHT_BITS)
def quantized_l2_normalize(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """L2_NORMALIZATION of rows: Y = X / sqrt(sum of X**2). Y has scale 1/128 and zero point 0 (uint8: 128)."""
    require(op, x.ndim > 0 and x.shape[-1] > 0, "X must have a last dimension that is not empty", x)
    affine(op, "X", x.dtype)
    return [x]


def _factors(squares: Array, dtype: Any) -> Tuple[Array, Array, Array]:
    """What rows are multiplied by, for the sums (rows, 1) of their squares: bits by which they are shifted to the left
    first, a mantissa in Q0.31, and bits by which they are shifted to the right."""
    mantissa, exponent = inverse_square_root(squares)
    unit = np.full_like(exponent, _UNIT_SHIFT) if dtype == np.uint8 else np.maximum(exponent + _UNIT_SHIFT, 0)
    return unit, mantissa, unit - _UNIT_SHIFT - exponent


def _middle(dtype: Any) -> int:
    return _MIDDLE if dtype == np.uint8 else 0


@quantized_l2_normalize.reference
def quantized_l2_normalize_reference(op: OperatorDef, x: Array) -> List[Any]:
    centred = x.astype(np.int64) - affine(op, "X", x.dtype).zero_point
    unit, mantissa, right = _factors((centred**2).sum(-1, keepdims=True), x.dtype)
    steps = divide_by_power(high_product(centred << unit, mantissa), right) + _middle(x.dtype)
    return [np.clip(steps, *limits_of(x.dtype)).astype(x.dtype)]


def _normalising_buffers(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    _, values, _ = row_buffers(op, inputs, outputs)
    return [values, values, values.with_dtype(bool)]


@quantized_l2_normalize.kernel("NUMPY", scratch=_normalising_buffers)
def quantized_l2_normalize_numpy(call: Call) -> Run:
    """Works in blocks of rows, because the roots allocate arrays of their length."""
    zero_point, parts = affine(call.op, "X", call.inputs[0].dtype).zero_point, row_parts(call)

    def run() -> None:
        for x, y in parts:
            _normalise_into(x, y, zero_point, [buffer[: len(x)] for buffer in call.scratch])

    return run


def _normalise_into(x: Array, y: Array, zero_point: int, scratch: Sequence[Array]) -> None:
    values, squares, negative = scratch
    np.subtract(x, zero_point, out=values, dtype=np.int64)
    np.multiply(values, values, out=squares)
    unit, mantissa, right = _factors(np.add.reduce(squares, axis=-1, keepdims=True), x.dtype)
    np.left_shift(values, unit, out=values)
    np.multiply(values, mantissa, out=values)  # the high product of numbers that are too small to saturate
    np.add(values, 1 << 30, out=values)
    np.right_shift(values, 31, out=values)
    np.logical_and(np.less(values, 0, out=negative), right > 0, out=negative)
    np.add(values, (np.int64(1) << right) >> 1, out=values)
    np.subtract(values, negative, out=values)
    np.right_shift(values, right, out=values)
    np.add(values, _middle(x.dtype), out=values)
    np.clip(values, *limits_of(x.dtype), out=values)
    np.copyto(y, values, casting="unsafe")
