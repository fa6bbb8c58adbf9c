"""TensorFlow Lite's quantised operators of two operands, which broadcast: sums, products, comparisons, PRELU.

A and B have one type. There are 65,536 pairs of 8-bit numbers: the fast kernel looks the output up in a table of all of
them, which the formula fills. For int16 it computes the formula in blocks.

Source: LiteRT, tflite/kernels/add.cc, sub.cc, mul.cc, comparisons.cc, squared_difference.cc
and activations.cc, with the reference kernels that they call.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import broadcast
from runtime_arm.operators.quantised.fixed_point import divide_by_power, high_product, leading_zeros, reciprocal
from runtime_arm.operators.quantised.rounding import fixed_point
from runtime_arm.operators.quantised.tflite.interpolation import power_of_two
from runtime_arm.operators.quantised.tflite.parameters import (
    EIGHT_BITS,
    UP_TO_SIXTEEN_BITS,
    Affine,
    activation_range,
    affine,
    limits_of,
    multiplied,
    quantised,
    require_below_one,
)
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import block_size, cut
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import Operator, require
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn

Formula = Callable[[OperatorDef, Any, Array, Array], Array]  # (op, dtype, A, B as int64) -> outputs
PAIRS = 1 << 16


class _Operands(NamedTuple):
    a: Affine
    b: Affine
    y: Affine

    @staticmethod
    def of(op: OperatorDef, dtype: Any) -> _Operands:
        return _Operands(*(affine(op, what, dtype) for what in "ABY"))


def _binary(type: str, formula: Formula, contract: str, dtypes: Sequence[str] = UP_TO_SIXTEEN_BITS) -> Operator:
    """Declares the operator. The type of its outputs is that of the formula's results."""

    def shape(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
        narrow = type == "QuantizedPRelu" and a.dtype == np.int16
        require(op, narrow or a.dtype == b.dtype, "A and B must have one type", a, b)
        require(op, not narrow or b.dtype == np.int8, "the slopes of int16 must be int8", a, b)
        outcome = formula(op, a.dtype, np.zeros(1, np.int64), np.zeros(1, np.int64))
        return [TensorSpec(broadcast(op, [a, b]), outcome.dtype)]

    shape.__doc__ = contract
    schema = quantised(type, inputs=2, dtypes=dtypes)(shape)

    @schema.reference
    def reference(op: OperatorDef, a: Array, b: Array) -> List[Any]:
        pairs = np.broadcast_arrays(a.astype(np.int64), b.astype(np.int64))
        return [formula(op, a.dtype, *pairs)]

    @schema.kernel("TABLE", supports=_has_a_table, scratch=_index, splits_work=True)
    def table(call: Call) -> Run:
        dtype = call.inputs[0].dtype
        every = np.arange(PAIRS, dtype=np.uint16).view(np.uint8).reshape(PAIRS, 2).view(dtype).astype(np.int64)
        outcomes = formula(call.op, dtype, every[:, 0], every[:, 1])
        return in_turn(
            [
                step
                for a, b, y in call.mine(cut(call.inputs, call.outputs[0]))
                for step in _look_up(outcomes, a, b, y, call.scratch)
            ]
        )

    @schema.kernel("NUMPY", supports=_has_no_table, scratch=_wide_blocks, splits_work=True)
    def blocks(call: Call) -> Run:
        dtype = call.inputs[0].dtype
        return in_turn(
            [
                partial(_computed, partial(formula, call.op, dtype), a, b, y, call.scratch)
                for a, b, y in call.mine(cut(call.inputs, call.outputs[0]))
            ]
        )

    return schema


def _has_a_table(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return None if inputs[0] is not None and inputs[0].dtype.itemsize == 1 else "there are too many pairs for a table"


def _has_no_table(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return "a table is faster" if _has_a_table(op, inputs, outputs) is None else None


def _wide_blocks(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    return [TensorSpec((block_size(outputs[0].shape),), np.int64)] * 2


def _computed(formula: Callable[[Array, Array], Array], a: Array, b: Array, y: Array, scratch: Sequence[Array]) -> None:
    left, right = (buffer[: y.size].reshape(y.shape) for buffer in scratch)
    np.copyto(left, a)
    np.copyto(right, b)
    np.copyto(y, formula(left, right))


def _index(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    """Pairs of blocks, their indices into the table, and buffers for outputs that are not contiguous."""
    size = block_size(outputs[0].shape)
    return [TensorSpec((size, 2), np.uint8), TensorSpec((size,), np.intp), TensorSpec((size,), outputs[0].dtype)]


def _look_up(table: Array, a: Array, b: Array, y: Array, scratch: Sequence[Array]) -> List[Step]:
    pairs, index, found = (buffer[: y.size] for buffer in scratch)
    target = y if y.flags.c_contiguous else found.reshape(y.shape)
    parts = pairs.reshape(*y.shape, 2)
    steps: List[Step] = [
        partial(np.copyto, parts[..., 0], a.view(np.uint8)),
        partial(np.copyto, parts[..., 1], b.view(np.uint8)),
        partial(np.copyto, index, pairs.reshape(-1).view(np.uint16)),
        partial(np.take, table, index.reshape(y.shape), out=target, mode="clip"),
    ]
    return steps if target is y else [*steps, partial(np.copyto, y, target)]


def _limited(op: OperatorDef, dtype: Any, y: Affine, values: Array) -> Array:
    return np.asarray(np.clip(values + y.zero_point, *activation_range(op, dtype, y)), dtype)


# Sums

SUM_SHIFT, WIDE_SUM_SHIFT = 20, 15  # bits after the binary point while adding, and for int16


def _sum(sign: int) -> Formula:
    def formula(op: OperatorDef, dtype: Any, a: Array, b: Array) -> Array:
        of = _Operands.of(op, dtype)
        if dtype == np.int16 and all(power_of_two(one.scale)[1] for one in of):
            return _sum_of_powers(op, of, sign, a, b)
        shift = WIDE_SUM_SHIFT if dtype == np.int16 else SUM_SHIFT
        twice = np.float64(2 * max(of.a.scale, of.b.scale))
        left, right = (
            multiplied((values - of_.zero_point) << shift, np.float64(of_.scale) / twice)
            for values, of_ in ((a, of.a), (b, of.b))
        )
        ratio = twice / np.float64(np.float32(1 << shift) * of.y.scale)
        require_below_one(op, f"the larger scale over Y_scale * 2**{shift - 1}", ratio)
        return _limited(op, dtype, of.y, multiplied(left + sign * right, ratio))

    return formula


def _sum_of_powers(op: OperatorDef, of: _Operands, sign: int, a: Array, b: Array) -> Array:
    """int16 whose scales are powers of two: the operand of the finer scale is rounded to Y's, the other has it."""
    shifts = [power_of_two(of.y.scale)[0] - power_of_two(one.scale)[0] for one in (of.a, of.b)]
    if min(shifts) != 0:
        raise ArgumentError(op, f"of int16 and powers of two, the larger scale must be Y's, got {of}")
    left, right = (divide_by_power(values, shift) for values, shift in zip((a, b), shifts))
    total = np.clip(left + sign * right, *limits_of(np.int16))
    return np.asarray(np.clip(total, *activation_range(op, np.int16, of.y)), np.int16)


_FIXED = "A and B are rescaled to 2 * max(A_scale, B_scale) / 2**20 (int16: 2**15), rounded, "
quantized_add = _binary("QuantizedAdd", _sum(1), f"ADD: Y = A + B. {_FIXED}added, and requantised.")
quantized_sub = _binary("QuantizedSub", _sum(-1), f"SUB: Y = A - B. {_FIXED}subtracted, and requantised.")


# Products


def _product(op: OperatorDef, dtype: Any, a: Array, b: Array) -> Array:
    of = _Operands.of(op, dtype)
    product = (a - of.a.zero_point) * (b - of.b.zero_point)
    return _limited(op, dtype, of.y, multiplied(product, of.a.scale * of.b.scale / of.y.scale))


def _prelu(op: OperatorDef, dtype: Any, a: Array, b: Array) -> Array:
    of = _Operands.of(op, dtype)
    x, slope = a - of.a.zero_point, b - of.b.zero_point
    kept = multiplied(x, of.a.scale / of.y.scale)
    return _limited(
        op, dtype, of.y, np.where(x >= 0, kept, multiplied(x * slope, of.a.scale * of.b.scale / of.y.scale))
    )


def _squared_difference(op: OperatorDef, dtype: Any, a: Array, b: Array) -> Array:
    of, shift = _Operands.of(op, dtype), 7
    twice = np.float64(2 * max(of.a.scale, of.b.scale))
    left, right = (
        multiplied((values - of_.zero_point) << shift, np.float64(of_.scale) / twice)
        for values, of_ in ((a, of.a), (b, of.b))
    )
    ratio = twice * twice / np.float64(np.float32(1 << 2 * shift) * of.y.scale)
    return _limited(op, dtype, of.y, multiplied((left - right) ** 2, ratio))


quantized_mul = _binary(
    "QuantizedMul", _product, "MUL: Y = A * B, with the float32 multiplier A_scale * B_scale / Y_scale."
)
quantized_prelu = _binary("QuantizedPRelu", _prelu, "PRELU: Y = A where A >= 0, else A * B. If A is int16, B is int8.")
quantized_squared_difference = _binary(
    "QuantizedSquaredDifference",
    _squared_difference,
    "SQUARED_DIFFERENCE: Y = (A - B)**2, A and B at the scale 2 * max(A_scale, B_scale) / 2**7.",
    EIGHT_BITS,
)


# Quotients


def _quotient(op: OperatorDef, dtype: Any, a: Array, b: Array) -> Array:
    of = _Operands.of(op, dtype)
    dividend, divisor = a - of.a.zero_point, b - of.b.zero_point
    dividend, divisor = dividend * np.where(divisor < 0, -1, 1), np.maximum(np.abs(divisor), 1)
    inverse, shift = reciprocal(divisor, 31)
    headroom = leading_zeros(np.maximum(np.abs(dividend) - (dividend < 0), 1)) - 1
    headroom = np.where(np.abs(dividend) - (dividend < 0) == 0, 31, headroom)
    found = high_product(dividend << headroom, inverse)
    fixed = fixed_point(of.a.scale / (of.b.scale * of.y.scale))
    right = shift + headroom - int(fixed.exponent)
    steps = divide_by_power(high_product(found, int(fixed.mantissa)), np.clip(right, 0, 62))
    return _limited(op, dtype, of.y, steps)


quantized_div = _binary(
    "QuantizedDiv", _quotient, "DIV: Y = A / B, by the reciprocal of B in fixed point. Where B is 0, it counts as 1."
)


# Comparisons


def _comparison(compare: np.ufunc) -> Formula:
    def formula(op: OperatorDef, dtype: Any, a: Array, b: Array) -> Array:
        if dtype == np.int16 and compare not in (np.equal, np.not_equal):
            return np.asarray(compare(a, b))
        left, right = (
            multiplied((values - of.zero_point) << 8, require_below_one(op, f"{what}_scale", of.scale))
            for what, values, of in (("A", a, affine(op, "A", dtype)), ("B", b, affine(op, "B", dtype)))
        )
        return np.asarray(compare(left, right))

    return formula


for _type, _compare in (
    ("Equal", np.equal),
    ("NotEqual", np.not_equal),
    ("Less", np.less),
    ("LessEqual", np.less_equal),
    ("Greater", np.greater),
    ("GreaterEqual", np.greater_equal),
):
    _binary(
        f"Quantized{_type}",
        _comparison(_compare),
        f"{_type.upper()}: Y = {_compare.__name__}(A, B), bool, compared as multiples of 2**-8, rounded; "
        "the order of int16 is that of the integers, whatever the scales are.",
    )
