"""TensorFlow Lite's quantised functions of one number.

An 8-bit X has 256 values, an X of int16 65,536: the fast kernel looks the output up in a table of all of them, which
the formula fills. Functions of int16 that are not in fixed point are interpolated, see interpolation.py.
Source: LiteRT, tflite/kernels/activations.cc and elementwise.cc, with the reference kernels that they call.
"""

from __future__ import annotations

import math
from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.tables import bind_lookup, lookup_scratch, table_of
from runtime_arm.operators.quantised.fixed_point import divide_by_power, high_product, inverse_square_root
from runtime_arm.operators.quantised.rounding import fixed_point
from runtime_arm.operators.quantised.tflite import interpolation
from runtime_arm.operators.quantised.tflite.parameters import (
    EIGHT_BITS,
    UP_TO_SIXTEEN_BITS,
    Affine,
    activation_range,
    affine,
    away_from_zero,
    limits_of,
    multiplied,
    quantised,
)
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import Operator
from runtime_arm.registry.specs import TensorSpec

_ROOT_BITS = 20  # bits after the binary point of inverse square roots
_ROOT_OF_TWO_OVER_PI, _ROOT_OF_HALF = np.float32(math.sqrt(2 / math.pi)), np.float32(math.sqrt(0.5))
_erfc = np.vectorize(math.erfc, otypes=[np.float64])

Formula = Callable[
    [OperatorDef, Affine, Affine, Array], Array
]  # (op, X's parameters, Y's parameters, X as int64) -> outputs, not clipped


def _unary(type: str, formula: Formula, contract: str, of_int16: Optional[Formula] = None) -> Operator:
    """Declares the operator of an 8-bit X, and of int16 if it has a formula for that. Y has X's type."""

    def shape(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
        compute(op, np.zeros(1, x.dtype))
        return [x]

    def compute(op: OperatorDef, x: Array) -> Array:
        of_x, of_y = affine(op, "X", x.dtype), affine(op, "Y", x.dtype)
        chosen = of_int16 if of_int16 is not None and x.dtype == np.int16 else formula
        values = chosen(op, of_x, of_y, x.astype(np.int64))
        return np.asarray(np.clip(values, *activation_range(op, x.dtype, of_y)), x.dtype)

    shape.__doc__ = contract
    schema = quantised(type, dtypes=UP_TO_SIXTEEN_BITS if of_int16 else EIGHT_BITS, inplace={0: 0})(shape)

    @schema.reference
    def reference(op: OperatorDef, x: Array) -> List[Any]:
        return [compute(op, x)]

    @schema.kernel("TABLE", scratch=_index)
    def table(call: Call) -> Run:
        (x,), (y,) = call.inputs, call.outputs
        return bind_lookup(x, table_of(x.dtype, lambda values: compute(call.op, values)), y, call.scratch)

    return schema


def _index(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    return lookup_scratch([outputs[0].shape], outputs[0].dtype.itemsize)


def _of_reals(function: Callable[[Array], Array]) -> Formula:
    """round(function(real X) / Y_scale) + Y_zero_point, ties away from zero. The inverse of Y_scale is a float32.

    The real numbers are float32. The function gets them as float64 and rounds to float32 where TensorFlow Lite does.
    """

    def formula(op: OperatorDef, of_x: Affine, of_y: Affine, x: Array) -> Array:
        reals = of_x.scale * (x - of_x.zero_point).astype(np.float32)
        with np.errstate(all="ignore"):
            found = function(reals.astype(np.float64)).astype(np.float32)
            steps = away_from_zero(found * (np.float32(1) / of_y.scale))
        return _moved(steps, of_y)

    return formula


def _moved(steps: Array, of_y: Affine) -> Array:
    """Steps of Y's scale as Y's integers, not clipped. NaN becomes the lowest."""
    return np.asarray(np.fmin(np.fmax(steps, -(2.0**30)), 2.0**30) + of_y.zero_point)


def _interpolated(function: Callable[[Array], Array], beyond: Optional[int] = None) -> Formula:
    """For int16. ``beyond``: Y's integer where X is not positive."""

    def formula(op: OperatorDef, of_x: Affine, of_y: Affine, x: Array) -> Array:
        def defined(reals: Array) -> Array:
            if beyond is None:
                return function(reals)
            return np.where(reals <= 0, of_y.scale * np.float32(beyond - of_y.zero_point), function(reals))

        return interpolation.looked_up(interpolation.table_of(defined, of_x, of_y), x)

    return formula


def _sqrt(op: OperatorDef, of_x: Affine, of_y: Affine, x: Array) -> Array:
    with np.errstate(all="ignore"):
        roots = np.sqrt(of_x.scale * (x - of_x.zero_point).astype(np.float32))
        return _moved(np.trunc(roots / of_y.scale), of_y)


def _relu(op: OperatorDef, of_x: Affine, of_y: Affine, x: Array) -> Array:
    return multiplied(x - of_x.zero_point, of_x.scale / of_y.scale) + of_y.zero_point


def _leaky_relu(op: OperatorDef, of_x: Affine, of_y: Affine, x: Array) -> Array:
    slope, centred = np.float32(op.get_float("alpha")), x - of_x.zero_point
    positive = multiplied(centred, of_x.scale / of_y.scale)
    negative = np.sign(slope) * multiplied(centred, of_x.scale * np.abs(slope) / of_y.scale)
    return np.asarray(np.where(centred >= 0, positive, negative) + of_y.zero_point, np.int64)


def _sixteen_bits(multiplier: Any) -> Any:
    """The mantissa of a multiplier in 16 bits, and its exponent."""
    fixed = fixed_point(multiplier)
    return min((int(fixed.mantissa) + (1 << 15)) >> 16, 32767), int(fixed.exponent)


def _high(a: Array, b: Any) -> Array:
    """The high half of 2 a b in 16 bits, rounded half up, saturated."""
    return np.asarray(np.minimum((a * b + (1 << 14)) >> 15, 32767))


def _saturated(values: Array) -> Array:
    return np.asarray(np.clip(values, -32768, 32767))


def _divided(values: Array, exponent: int) -> Array:
    """values / 2**exponent, ties away from zero."""
    return (values + ((1 << exponent) >> 1) - ((values < 0) & (exponent > 0))) >> exponent


def _hard_swish(op: OperatorDef, of_x: Affine, of_y: Affine, x: Array) -> Array:
    fine_scale = np.float32(1 / 128) * of_x.scale
    mantissa, exponent = _sixteen_bits(fine_scale / of_y.scale)
    if exponent > 0:
        raise ArgumentError(op, f"X_scale / 128 must be less than Y_scale, got {of_x.scale} and {of_y.scale}")
    gate_mantissa, gate_exponent = _sixteen_bits(fine_scale / (np.float32(3) / np.float32(32768)))
    fine = (x - of_x.zero_point) << 7
    gate = _saturated(fine << max(gate_exponent - 1, 0))
    gate = _high(gate, gate_mantissa)
    gate = _saturated(gate << 1) if gate_exponent > 0 else _divided(gate, -gate_exponent)
    gate = (gate + (1 << 15)) >> 1
    product = gate * _high(fine, mantissa)
    halved = np.minimum(np.sign(product) * (np.abs(product) >> 15), 32767)
    return _divided(halved, -exponent) + of_y.zero_point


def _absolute(op: OperatorDef, of_x: Affine, of_y: Affine, x: Array) -> Array:
    size = np.abs(x - of_x.zero_point)
    scaled = size if of_x.scale == of_y.scale else multiplied(size, of_x.scale / of_y.scale)
    return scaled + of_y.zero_point


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (np.float32(1) + np.exp(-x).astype(np.float32)))


def _gelu_of(fast: bool) -> Callable[[Array], Array]:
    """GELU, each step rounded to float32 as in LiteRT's reference/gelu.h."""

    def function(reals: Array) -> Array:
        x = reals.astype(np.float32)
        if fast:
            inner = _ROOT_OF_TWO_OVER_PI * (x + np.float32(0.044715) * x * x * x)
            tail = np.float32(1) + np.tanh(inner.astype(np.float64)).astype(np.float32)
        else:
            tail = _erfc((x * -_ROOT_OF_HALF).astype(np.float64)).astype(np.float32)
        return np.asarray(np.float32(0.5) * x * tail)

    return function


def _gelu(op: OperatorDef, of_x: Affine, of_y: Affine, x: Array) -> Array:
    return _of_reals(_gelu_of(op.get_bool("approximate")))(op, of_x, of_y, x)


def _gelu_int16(op: OperatorDef, of_x: Affine, of_y: Affine, x: Array) -> Array:
    return _interpolated(_gelu_of(op.get_bool("approximate")))(op, of_x, of_y, x)


def _negated(op: OperatorDef, of_x: Affine, of_y: Affine, x: Array) -> Array:
    return np.where(x == limits_of(np.int8).low, x, -x)


def _negated_int16(op: OperatorDef, of_x: Affine, of_y: Affine, x: Array) -> Array:
    return np.where(x == limits_of(np.int16).low, x, -x)


def _rsqrt(op: OperatorDef, of_x: Affine, of_y: Affine, x: Array) -> Array:
    centred = x - of_x.zero_point
    scale = 1 / float(np.sqrt(of_x.scale) * of_y.scale)
    steps = multiplied(_inverse_roots(centred), scale / 2**_ROOT_BITS) + of_y.zero_point
    return np.where(centred > 0, steps, np.where(centred < 0, -(1 << 30), 1 << 30))


def _inverse_roots(values: Array) -> Array:
    """1 / sqrt(values) in fixed point; results of values that are not positive are not used."""
    mantissa, exponent = inverse_square_root(values)
    shift = exponent + _ROOT_BITS
    return divide_by_power(high_product(np.int64(1) << np.maximum(shift, 0), mantissa), np.maximum(-shift, 0))


def _elu(x: Array) -> Array:
    return np.where(x < 0, np.expm1(x), x)


_REALS = "of the real numbers that X stands for, in float32, rounded to Y, ties away from zero; int16 is interpolated."
_LEAST, _MOST = limits_of(np.int16)
quantized_relu = _unary(
    "QuantizedRelu",
    _relu,
    "RELU, RELU6, RELU_N1_TO_1, by ``activation``: X requantised by X_scale / Y_scale, clipped.",
    _relu,
)
quantized_leaky_relu = _unary(
    "QuantizedLeakyRelu", _leaky_relu, "LEAKY_RELU: Y = X where X >= 0, else alpha X.", _leaky_relu
)
quantized_hard_swish = _unary(
    "QuantizedHardSwish", _hard_swish, "HARD_SWISH: Y = X clip(X + 3, 0, 6) / 6 in fixed point of 16 bits."
)
quantized_abs = _unary("QuantizedAbs", _absolute, "ABS: Y = abs(X), requantised.", _absolute)
quantized_gelu = _unary(
    "QuantizedGelu", _gelu, f"GELU, with ``approximate`` its approximation by tanh, {_REALS}", _gelu_int16
)
quantized_neg = _unary(
    "QuantizedNeg", _negated, "NEG: Y = -X of the integers themselves; the lowest stays as it is.", _negated_int16
)
quantized_sqrt = _unary(
    "QuantizedSqrt",
    _sqrt,
    "SQRT of the real numbers that X stands for, in float32, rounded towards zero to Y.",
    _sqrt,
)
quantized_rsqrt = _unary(
    "QuantizedRsqrt",
    _rsqrt,
    "RSQRT: Y = 1 / sqrt(X) in fixed point, int16 interpolated; the highest integer for 0.",
    _interpolated(lambda reals: 1 / np.sqrt(reals), beyond=_MOST),
)
quantized_logistic = _unary("QuantizedLogistic", _of_reals(_logistic), f"LOGISTIC {_REALS}", interpolation.sigmoid)
quantized_tanh = _unary("QuantizedTanh", _of_reals(np.tanh), f"TANH {_REALS}", interpolation.tanh)
quantized_elu = _unary("QuantizedElu", _of_reals(_elu), f"ELU {_REALS}")
quantized_exp = _unary("QuantizedExp", _of_reals(np.exp), f"EXP {_REALS}", _interpolated(np.exp))
quantized_log = _unary("QuantizedLog", _of_reals(np.log), f"LOG {_REALS}", _interpolated(np.log, beyond=_LEAST))
