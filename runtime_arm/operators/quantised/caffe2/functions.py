"""Caffe2's functions of single quantised bytes, as tables of 256 values, and Int8Softmax. Source: QNNPACK."""

from __future__ import annotations

from functools import partial
from typing import Any, List

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.tables import bind_lookup, lookup_scratch
from runtime_arm.operators.layout.reshape import product
from runtime_arm.operators.quantised.caffe2.conversion import (
    LARGEST,
    output_quantization,
    output_spec,
    quantization_of,
    require_kept_quantization,
    scale_ratio,
)
from runtime_arm.operators.quantised.parameters import saturated
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import Operator, operator, require
from runtime_arm.registry.specs import Quantization, QuantizedTensor, TensorSpec

_BYTES = np.arange(LARGEST + 1)
_UINT32_MAX = 2**32 - 1
_SOFTMAX_UNIT = 2**23 - 1  # the largest number in QNNPACK's table of exponentials


def _require_unit_output(op: OperatorDef) -> None:
    """ArgumentError unless the output's 256 values divide 0..1 evenly."""
    stated = output_quantization(op)
    if stated != Quantization(1 / 256, 0):
        raise ArgumentError(op, f"Y_scale must be 1/256 and Y_zero_point 0, got {stated.scale} and {stated.zero_point}")


@operator("Int8Relu", inplace={0: 0})
def int8_relu(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = max(X, zero point). Y is quantised like X."""
    require_kept_quantization(op, x)
    return [output_spec(op, x.shape)]


@int8_relu.reference
def int8_relu_reference(op: OperatorDef, x: QuantizedTensor) -> List[Any]:
    return [np.maximum(x.values, np.uint8(x.zero_point))]


@int8_relu.kernel("NUMPY")
def int8_relu_numpy(call: Call) -> Run:
    zero_point = np.uint8(output_quantization(call.op).zero_point)
    return partial(np.maximum, call.inputs[0], zero_point, out=call.outputs[0])


@operator("Int8LeakyRelu", inplace={0: 0})
def int8_leaky_relu(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X, or alpha X (alpha 0.01) for negative X, requantised; 0 < alpha < 1."""
    quantization_of(op, "X", x)
    _leaky_relu_table(op, x)
    return [output_spec(op, x.shape)]


def _leaky_relu_table(op: OperatorDef, x: TensorSpec) -> Array:
    """Y for every value of X, computed in float32."""
    given, stated = quantization_of(op, "X", x), output_quantization(op)
    alpha = op.get_float("alpha", 0.01)
    if not 0 < alpha < 1:
        raise ArgumentError(op, f"alpha must be between 0 and 1, got {alpha}")
    steps = (_BYTES - given.zero_point).astype(np.float32) * scale_ratio(op, given.scale, stated.scale, 2**-8, 2**8)
    steps = np.where(steps < 0, steps * np.float32(alpha), steps)
    return saturated(np.rint(steps) + np.float32(stated.zero_point), np.uint8)


@operator("Int8Sigmoid", inplace={0: 0})
def int8_sigmoid(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = 1 / (1 + exp(-X)). Y_scale must be 1/256, Y_zero_point 0."""
    quantization_of(op, "X", x)
    _require_unit_output(op)
    return [output_spec(op, x.shape)]


def _sigmoid_table(op: OperatorDef, x: TensorSpec) -> Array:
    """Y for every value of X, computed in float32."""
    given = quantization_of(op, "X", x)
    reals = np.float32(given.scale) * (_BYTES - given.zero_point).astype(np.float32)
    steps = np.float32(256) / (np.float32(1) + np.exp(-reals.astype(np.float64)).astype(np.float32))
    return saturated(np.rint(steps), np.uint8)


def _add_table_kernels(schema: Operator, table: Any) -> None:
    @schema.reference
    def reference(op: OperatorDef, x: QuantizedTensor) -> List[Any]:
        return [table(op, TensorSpec.known(x))[x.values]]

    @schema.kernel("NUMPY", scratch=lambda op, inputs, outputs: lookup_scratch([outputs[0].shape]))
    def numpy(call: Call) -> Run:
        return bind_lookup(call.inputs[0], table(call.op, call.in_specs[0]), call.outputs[0], call.scratch)


_add_table_kernels(int8_leaky_relu, _leaky_relu_table)
_add_table_kernels(int8_sigmoid, _sigmoid_table)


@operator("Int8Softmax", inplace={0: 0})
def int8_softmax(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = exp(X) / the sum of its row. A row is everything after the first dimension, for any ``axis``.

    Exponentials are integers from a table, indexed by the distance to the row's maximum. Quotients are rounded half up.
    Y_scale must be 1/256, Y_zero_point 0.
    """
    quantization_of(op, "X", x)
    _require_unit_output(op)
    require(op, x.ndim > 0, "X must have a dimension", x)
    return [output_spec(op, x.shape)]


@int8_softmax.reference
def int8_softmax_reference(op: OperatorDef, x: QuantizedTensor) -> List[Any]:
    width = product(x.values.shape[1:])
    if not x.values.size:
        return [x.values.copy()]
    unit = min(_UINT32_MAX / width, _SOFTMAX_UNIT)
    table = np.rint(unit * np.exp((_BYTES - LARGEST) * float(np.float32(x.scale)))).astype(np.int64)
    rows = x.values.reshape(-1, width).astype(np.int64)
    exponentials = table[rows + (LARGEST - rows.max(1, keepdims=True))]
    sums = exponentials.sum(1, keepdims=True)
    quotients = (exponentials * 256 + sums // 2) // sums
    return [np.minimum(quotients, LARGEST).astype(np.uint8).reshape(x.values.shape)]
