"""Caffe2's sums of two quantised blobs: Int8Add, Int8Sum, and both with ReLU. Source: QNNPACK."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.quantised.caffe2.conversion import (
    LARGEST,
    lowest,
    output_quantization,
    output_spec,
    quantization_of,
    scale_ratio,
)
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import QuantizedTensor, TensorSpec

_BITS = 22  # of the larger multiplier


@operator("Int8Add", inputs=2, inplace={0: (0, 1)})
def int8_add(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """Y = round(((A - a_zero) a_scale + (B - b_zero) b_scale) / Y_scale) + Y_zero_point. A and B have one shape.

    a_scale / Y_scale and b_scale / Y_scale become integers that share a power of two. The sum of the products is
    divided by it; ties are rounded away from zero.
    """
    for what, spec in (("A", a), ("B", b)):
        quantization_of(op, what, spec)
    require(op, a.shape == b.shape, "both inputs must have the same shape", a, b)
    multipliers(op, a, b)
    return [output_spec(op, a.shape)]


def multipliers(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> Tuple[int, int, int]:
    """The integers that A and B are multiplied by, and the power of two that the sum is divided by."""
    scale = output_quantization(op).scale
    ratios = [
        scale_ratio(op, quantization_of(op, what, spec).scale, scale, 2**-14, 2**8)
        for what, spec in (("A", a), ("B", b))
    ]
    shift = _BITS - int(np.frexp(max(ratios))[1])
    first, second = (int(np.rint(np.ldexp(ratio, shift))) for ratio in ratios)
    return first, second, shift


@int8_add.reference
def int8_add_reference(op: OperatorDef, a: QuantizedTensor, b: QuantizedTensor) -> List[Any]:
    first, second, shift = multipliers(op, TensorSpec.known(a), TensorSpec.known(b))
    sums = (a.values.astype(np.int64) - a.zero_point) * first + (b.values.astype(np.int64) - b.zero_point) * second
    rounded = (sums - (sums < 0) + (1 << (shift - 1))) >> shift
    zero_point = output_quantization(op).zero_point
    return [np.clip(rounded + zero_point, lowest(op, zero_point), LARGEST).astype(np.uint8)]


int8_add.alias("Int8AddRelu", "Int8Sum", "Int8SumRelu")
