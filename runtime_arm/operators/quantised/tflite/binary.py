"""TensorFlow Lite's quantised operators of two operands, which broadcast: sums, products, comparisons, PRELU.

A and B have one 8-bit type, so there are 65,536 pairs: the fast kernel looks the output up in a table of all of them,
which the formula fills. Source: LiteRT, tflite/kernels/add.cc, sub.cc, mul.cc, comparisons.cc, squared_difference.cc
and activations.cc, with the reference kernels that they call.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, List, NamedTuple, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import broadcast
from runtime_arm.operators.quantised.tflite.parameters import (
    EIGHT_BITS,
    Affine,
    activation_range,
    affine,
    multiplied,
    quantised,
    require_below_one,
)
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


def _binary(type: str, formula: Formula, contract: str) -> Operator:
    """Declares the operator. The type of its outputs is that of the formula's results."""

    def shape(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
        require(op, a.dtype == b.dtype, "A and B must have one type", a, b)
        outcome = formula(op, a.dtype, np.zeros(1, np.int64), np.zeros(1, np.int64))
        return [TensorSpec(broadcast(op, [a, b]), outcome.dtype)]

    shape.__doc__ = contract
    schema = quantised(type, inputs=2, dtypes=EIGHT_BITS)(shape)

    @schema.reference
    def reference(op: OperatorDef, a: Array, b: Array) -> List[Any]:
        pairs = np.broadcast_arrays(a.astype(np.int64), b.astype(np.int64))
        return [formula(op, a.dtype, *pairs)]

    @schema.kernel("TABLE", scratch=_index, splits_work=True)
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

    return schema


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

SUM_SHIFT = 20  # bits after the binary point while adding


def _sum(sign: int) -> Formula:
    def formula(op: OperatorDef, dtype: Any, a: Array, b: Array) -> Array:
        of = _Operands.of(op, dtype)
        twice = np.float64(2 * max(of.a.scale, of.b.scale))
        left, right = (
            multiplied((values - of_.zero_point) << SUM_SHIFT, np.float64(of_.scale) / twice)
            for values, of_ in ((a, of.a), (b, of.b))
        )
        ratio = require_below_one(
            op, "the larger scale over Y_scale * 2**19", twice / np.float64(np.float32(1 << SUM_SHIFT) * of.y.scale)
        )
        return _limited(op, dtype, of.y, multiplied(left + sign * right, ratio))

    return formula


_FIXED = "A and B are rescaled to 2 * max(A_scale, B_scale) / 2**20, rounded, "
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
quantized_prelu = _binary("QuantizedPRelu", _prelu, "PRELU: Y = A where A >= 0, else A * B.")
quantized_squared_difference = _binary(
    "QuantizedSquaredDifference",
    _squared_difference,
    "SQUARED_DIFFERENCE: Y = (A - B)**2, A and B at the scale 2 * max(A_scale, B_scale) / 2**7.",
)


# Comparisons


def _comparison(compare: np.ufunc) -> Formula:
    def formula(op: OperatorDef, dtype: Any, a: Array, b: Array) -> Array:
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
        f"{_type.upper()}: Y = {_compare.__name__}(A, B), bool, compared as multiples of 2**-8, rounded.",
    )
