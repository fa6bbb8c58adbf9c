"""TensorFlow Lite's quantised SOFTMAX: exponentials in fixed point, exact to the last bit.

For an X of int16 see softmax_int16.py. Else X is 8-bit, Y is 8-bit or int16. Differences to the row's maximum, times
X_scale * beta, are numbers in Q5.26; those below -2**5 count as 0. The sum of their exponentials is in Q12.19.
Source: LiteRT, tflite/kernels/activations.cc and internal/reference/softmax.h.
"""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef, dtypes
from runtime_arm.operators.quantised.fixed_point import divide_by_power, exp_of_negative, high_product, reciprocal
from runtime_arm.operators.quantised.rounding import fixed_point
from runtime_arm.operators.quantised.tflite.parameters import (
    UP_TO_SIXTEEN_BITS,
    affine,
    limits_of,
    multiplied,
    quantised,
)
from runtime_arm.operators.quantised.tflite.softmax_int16 import softmax_of
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import require
from runtime_arm.registry.specs import TensorSpec

FRACTION_BITS, SUM_BITS = 26, 12


class Exponentials(NamedTuple):
    """The exponentials of differences 0, -1, ... -255: in Q0.31, and as added to the sum, in Q12.19."""

    values: Array
    terms: Array


def exponentials(op: OperatorDef, scale: Any, beta: float) -> Exponentials:
    """The exponentials for this scale and beta. ArgumentError if one step is too small for the fixed point."""
    step = min(np.float64(scale) * np.float64(beta) * (1 << FRACTION_BITS), 2.0**31 - 1)
    fixed = fixed_point(step)
    if not int(fixed.exponent) > 0:
        raise ArgumentError(op, f"X_scale times beta must be at least 2**-26, got {scale} times {beta}")
    differences = -np.arange(256, dtype=np.int64)
    left = int(fixed.exponent)
    farthest = int(np.floor(((1 << 5) - 1) * 2.0 ** (FRACTION_BITS - left)))
    counted = differences >= -farthest
    values = np.where(counted, exp_of_negative(multiplied(np.where(counted, differences, 0), step)), 0)
    return Exponentials(values, divide_by_power(values, SUM_BITS))


def _to(op: OperatorDef, x: Any) -> np.dtype[Any]:
    return np.dtype(np.int16) if op.get_int("to", 0) == dtypes.INT16 else np.dtype(x.dtype)


@quantised("QuantizedSoftmax", dtypes=UP_TO_SIXTEEN_BITS)
def quantized_softmax(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = exp(beta X) / sum of exp(beta X) over the last dimension.

    0 is Y's lowest integer, and 1 lies one step above its highest: Y_scale is 2**-8 (for int16 2**-15, with zero point
    0).
    """
    require(op, x.ndim > 0 and x.shape[-1] > 0, "X must have a last dimension that is not empty", x)
    scale = affine(op, "X", x.dtype).scale
    if x.dtype != np.int16:
        exponentials(op, scale, op.get_float("beta", 1.0))
    return [TensorSpec(x.shape, _to(op, x))]


@quantized_softmax.reference
def quantized_softmax_reference(op: OperatorDef, x: Array) -> List[Any]:
    scale, beta, dtype = affine(op, "X", x.dtype).scale, op.get_float("beta", 1.0), _to(op, x)
    if x.dtype == np.int16:
        return [softmax_of(x, scale, beta).astype(dtype)]
    table = exponentials(op, scale, beta)
    return [_softmax(table, x.astype(np.int64), dtype).astype(dtype)]


def _softmax(table: Exponentials, x: Array, dtype: Any) -> Array:
    below = x.max(-1, keepdims=True) - x
    mantissa, bits = reciprocal(table.terms[below].sum(-1, keepdims=True), SUM_BITS)
    values, limits = table.values[below], limits_of(dtype)
    found = divide_by_power(high_product(mantissa, values), bits + 31 - 8 * dtype.itemsize)
    return np.where(values > 0, np.minimum(found + limits.low, limits.high), limits.low)


def _rows(shape: Sequence[int]) -> int:
    """The number of rows in a block."""
    return max(1, BLOCK // shape[-1])


def row_buffers(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    """For a block of rows: indices into a table, what they find there, and a column of indices."""
    shape = outputs[0].shape
    block = (min(_rows(shape), outputs[0].size // shape[-1]), shape[-1])
    return [TensorSpec(block, np.intp), TensorSpec(block, np.int64), TensorSpec((block[0], 1), np.intp)]


def row_parts(call: Call) -> List[Tuple[Array, Array]]:
    """X and Y in blocks of rows."""
    (x,), (y,), count = call.inputs, call.outputs, _rows(call.inputs[0].shape)
    rows, out = x.reshape(-1, x.shape[-1]), y.reshape(-1, x.shape[-1])
    return [(rows[i : i + count], out[i : i + count]) for i in range(0, len(rows), count)]


def differences_into(x: Array, below: Array, largest: Array) -> None:
    """Write each row's maximum and how far the elements lie below it, as indices."""
    np.copyto(below, x)
    np.maximum.reduce(below, axis=-1, out=largest, keepdims=True)
    np.subtract(largest, below, out=below)


@quantized_softmax.kernel("NUMPY", scratch=row_buffers)
def quantized_softmax_numpy(call: Call) -> Run:
    """Works in blocks of rows, because the reciprocal allocates arrays of their length, for int16 of blocks."""
    x, dtype = call.inputs[0], call.outputs[0].dtype
    scale, beta = affine(call.op, "X", x.dtype).scale, call.op.get_float("beta", 1.0)
    table = None if x.dtype == np.int16 else exponentials(call.op, scale, beta)
    parts = row_parts(call)

    def run() -> None:
        for source, target in parts:
            if table is None:
                np.copyto(target, softmax_of(source, scale, beta), casting="unsafe")
                continue
            _softmax_into(table, source, target, [buffer[: len(source)] for buffer in call.scratch], dtype)

    return run


def _softmax_into(table: Exponentials, x: Array, y: Array, scratch: Sequence[Array], dtype: Any) -> None:
    below, values, largest = scratch
    limits = limits_of(dtype)
    differences_into(x, below, largest)
    np.take(table.terms, below, out=values, mode="clip")
    mantissa, bits = reciprocal(np.add.reduce(values, axis=-1, keepdims=True), SUM_BITS)
    np.take(table.values, below, out=values, mode="clip")
    np.multiply(values, mantissa, out=values)  # the high product of non-negative numbers
    np.add(values, 1 << 30, out=values)
    np.right_shift(values, 31, out=values)
    shift = bits + 31 - 8 * dtype.itemsize
    np.add(values, (np.int64(1) << shift) >> 1, out=values)
    np.right_shift(values, shift, out=values)
    np.add(values, limits.low, out=values)
    np.minimum(values, limits.high, out=values)
    np.copyto(y, values, casting="unsafe")
