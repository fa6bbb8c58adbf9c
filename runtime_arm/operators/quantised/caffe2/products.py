"""Caffe2's sums of products of quantised bytes, requantised like gemmlowp: Int8Conv, Int8FC, Int8ConvTranspose.

    Y = clamp(round(sum of (X - x_zero)(W - w_zero) + b) * (x_scale * w_scale / Y_scale)) + Y_zero_point)

b is int32, and its scale is always taken as x_scale * w_scale, even if it states another. The multiplier, float32, must
be less than 1. Operators whose names end in Relu clamp at the output's zero point.
"""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import fully_connected, per_input, per_output
from runtime_arm.operators.conv.convolution import convolution_of, convolve
from runtime_arm.operators.conv.transposed import conv_transpose_reference, transposed_of
from runtime_arm.operators.layout.reshape import product
from runtime_arm.operators.quantised.caffe2.conversion import (
    LARGEST,
    lowest,
    output_quantization,
    output_spec,
    quantization_of,
    require_channels_last,
)
from runtime_arm.operators.quantised.rounding import Requantizer
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import QuantizedTensor, TensorSpec


def _require_factors(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: TensorSpec, filters: int) -> None:
    multiplier_of(op, x, w)
    fits = b is not None and b.dtype == np.int32 and b.shape == (filters,)
    require(op, fits, f"the bias must be int32, one for each of {filters} filters", b)


def multiplier_of(op: OperatorDef, x: TensorSpec, w: TensorSpec) -> np.float32:
    """The multiplier of the sums, float32. ArgumentError unless it is less than 1."""
    scales = [np.float32(quantization_of(op, what, spec).scale) for what, spec in (("X", x), ("the weights", w))]
    multiplier: np.float32 = scales[0] * scales[1] / np.float32(output_quantization(op).scale)
    if not multiplier < 1:
        raise ArgumentError(
            op,
            f"Y_scale must be larger than the product of the scales of X and the weights, "
            f"{scales[0] * scales[1]}, got {op.get_float('Y_scale', 1.0)}",
        )
    return multiplier


def requantizer_of(op: OperatorDef, x: TensorSpec, w: TensorSpec) -> Requantizer:
    """The Requantizer from sums to the operator's output."""
    zero_point = output_quantization(op).zero_point
    return Requantizer("gemmlowp", multiplier_of(op, x, w), zero_point, lowest(op, zero_point), LARGEST)


def _requantized(op: OperatorDef, x: QuantizedTensor, w: QuantizedTensor, b: QuantizedTensor, sums: Array) -> Array:
    y = np.empty(sums.shape, np.uint8)
    work = np.empty(sums.shape, np.int64), np.empty(sums.shape, np.int64)
    biases = b.values if isinstance(b, QuantizedTensor) else b
    requantizer_of(op, TensorSpec.known(x), TensorSpec.known(w))(sums.astype(np.int64) + biases, y, work)
    return y


def _centred(x: QuantizedTensor) -> Array:
    """The blob minus its zero point, in float64, which holds every sum of products exactly."""
    return x.values.astype(np.float64) - x.zero_point


@operator("Int8Conv", inputs=3, multiply_adds=per_output())
def int8_conv(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """Conv over X (N, H, W, C) with W (M, kh, kw, C/group), in integers. Arguments as for Conv, order NHWC."""
    require_channels_last(op)
    convolution = convolution_of(op, x, w)
    _require_factors(op, x, w, b, convolution.filters)
    return [output_spec(op, convolution.output_shape)]


@int8_conv.reference
def int8_conv_reference(op: OperatorDef, x: QuantizedTensor, w: QuantizedTensor, b: QuantizedTensor) -> List[Any]:
    convolution = convolution_of(op, TensorSpec.known(x), TensorSpec.known(w))
    return [_requantized(op, x, w, b, convolve(convolution, _centred(x), _centred(w), None))]


int8_conv.alias("Int8ConvRelu")


@operator("Int8FC", inputs=3, multiply_adds=fully_connected())
def int8_fc(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """Y (M, N) = X W^T + b in integers, for X (M, ...) and W (N, ...), both with K elements per row."""
    require(op, x.ndim > 0 and w.ndim > 0, "X and the weights must have a dimension", x, w)
    terms = product(x.shape[1:]), product(w.shape[1:])
    require(op, terms[0] == terms[1], f"X has {terms[0]} elements per row, but the weights have {terms[1]}", x, w)
    _require_factors(op, x, w, b, w.shape[0])
    return [output_spec(op, (x.shape[0], w.shape[0]))]


@int8_fc.reference
def int8_fc_reference(op: OperatorDef, x: QuantizedTensor, w: QuantizedTensor, b: QuantizedTensor) -> List[Any]:
    terms = product(x.values.shape[1:])
    rows, filters = (_centred(factor).reshape(factor.values.shape[0], terms) for factor in (x, w))
    return [_requantized(op, x, w, b, rows @ filters.T)]


int8_fc.alias("Int8FCRelu")


@operator("Int8ConvTranspose", inputs=3, multiply_adds=per_input)
def int8_conv_transpose(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """ConvTranspose over X (N, H, W, C) with W (C, kh, kw, M), in integers.

    Arguments as for ConvTranspose, order NHWC, group 1.
    """
    require_channels_last(op)
    transposed = transposed_of(op, x, w)
    require(op, transposed.group == 1, f"there must be one group, got {transposed.group}")
    _require_factors(op, x, w, b, transposed.filters)
    return [output_spec(op, transposed.output_shape)]


@int8_conv_transpose.reference
def int8_conv_transpose_reference(
    op: OperatorDef, x: QuantizedTensor, w: QuantizedTensor, b: QuantizedTensor
) -> List[Any]:
    return [_requantized(op, x, w, b, conv_transpose_reference(op, _centred(x), _centred(w))[0])]
