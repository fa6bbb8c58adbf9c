"""Caffe2's pools of quantised images (N, H, W, C): Int8MaxPool and Int8AveragePool, also with ReLU. Source: QNNPACK."""

from __future__ import annotations

import math
from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.pool.caffe2 import fold, pool_of
from runtime_arm.operators.quantised.caffe2.conversion import (
    LARGEST,
    lowest,
    output_quantization,
    output_spec,
    quantization_of,
    require_channels_last,
    require_kept_quantization,
    scale_ratio,
)
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import QuantizedTensor, TensorSpec


@operator("Int8MaxPool")
def int8_max_pool(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """MaxPool of bytes. Arguments as there, order NHWC. Y is quantised like X."""
    require_channels_last(op)
    require_kept_quantization(op, x)
    return [output_spec(op, pool_of(op, x).output_shape)]


@int8_max_pool.reference
def int8_max_pool_reference(op: OperatorDef, x: QuantizedTensor) -> List[Any]:
    return [fold(pool_of(op, TensorSpec.known(x)), x.values, lowest(op, x.zero_point), np.maximum)]


int8_max_pool.alias("Int8MaxPoolRelu")


@operator("Int8AveragePool")
def int8_average_pool(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = round(sum of (X - x_zero) under the kernel * (x_scale / (Y_scale * kernel size))) + Y_zero_point.

    Padding counts, as zeros. The multiplier is float32; ties are rounded away from zero. Arguments as for AveragePool,
    order NHWC.
    """
    require_channels_last(op)
    given = quantization_of(op, "X", x)
    scale_ratio(op, given.scale, output_quantization(op).scale, 2**-8, 2**8)
    return [output_spec(op, pool_of(op, x).output_shape)]


@int8_average_pool.reference
def int8_average_pool_reference(op: OperatorDef, x: QuantizedTensor) -> List[Any]:
    pool, stated = pool_of(op, TensorSpec.known(x)), output_quantization(op)
    sums = fold(pool, x.values.astype(np.int64) - x.zero_point, 0, np.add)
    size = np.float32(math.prod(pool.window.kernel))
    rounded = _scaled(sums, np.float32(x.scale) / (np.float32(stated.scale) * size)) + stated.zero_point
    return [np.clip(rounded, lowest(op, stated.zero_point), LARGEST).astype(np.uint8)]


def _scaled(sums: Array, multiplier: np.float32) -> Array:
    """round(sums * multiplier), ties away from zero, exactly."""
    fraction, exponent = np.frexp(multiplier)
    shift = 24 - int(exponent)
    products = sums * int(fraction * 2**24)
    return (products - (products < 0) + (1 << (shift - 1))) >> shift


int8_average_pool.alias("Int8AveragePoolRelu")
