"""INT8: TensorFlow Lite's quantised transposed convolution, one float32 GEMM per tap of the kernel.

The products of a tap with all pixels are added to its outputs, in float64 if the total may exceed 2**24.
"""

from __future__ import annotations

from functools import partial
from typing import List, NamedTuple, Optional, Sequence

import numpy as np

from runtime_arm.engines.integers.arithmetic import EXACT
from runtime_arm.engines.integers.tflite_rows import rule_of
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.parameters import all_known
from runtime_arm.operators.quantised.rounding import requantizer
from runtime_arm.operators.quantised.tflite.products import (
    Products,
    Transposed,
    products_of,
    quantized_conv_transpose,
    transposed_of,
)
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, copy, in_turn, multiply

BLOCK = 1 << 15  # sums that are requantised at once


class _Layer(NamedTuple):
    transposed: Transposed
    products: Products
    weights: Array  # float32 (for int16 float64) (M, kh, kw, C), less their zero point
    bias: Array  # int64 (M)
    tap_reach: int  # no sum of one tap has a larger magnitude
    reach: int  # nor any sum

    @property
    def wide(self) -> bool:
        return self.reach >= EXACT

    @property
    def exact(self) -> int:
        """The magnitude below which products of a tap are exact."""
        return EXACT if self.weights.dtype == np.float32 else 1 << 53


def _layer(op: OperatorDef, inputs: Specs) -> _Layer:
    x, w, size, b = (*inputs, None)[:4]
    assert x is not None
    assert w is not None
    assert w.value is not None
    transposed = transposed_of(op, x, w, size)
    products = products_of(op, x.dtype, transposed.filters)
    real = np.dtype(np.float64 if x.dtype.itemsize == 2 else np.float32)
    weights = w.value.astype(real) - real.type(products.w_zero_point)
    bias = np.zeros(transposed.filters, np.int64) if b is None or b.value is None else b.value.astype(np.int64)
    limits = np.iinfo(x.dtype)
    magnitude = max(int(limits.max) - products.x.zero_point, products.x.zero_point - int(limits.min))
    taps = np.abs(weights).sum(3, dtype=np.float64) * magnitude
    reach = taps.sum((1, 2)) + np.abs(bias)
    return _Layer(transposed, products, weights, bias, int(taps.max(initial=0)), int(reach.max(initial=0)))


def _supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if not all_known(inputs[1:]):
        return "the weights, the bias and the size must be constants"
    layer = _layer(op, inputs)
    return None if layer.tap_reach < layer.exact else "the sums of a tap may exceed 24 bits"


def _rows(layer: _Layer) -> int:
    """Output rows that are requantised at once."""
    return max(1, BLOCK // max(1, layer.transposed.output_shape[2] * layer.transposed.filters))


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    """Pixels of one image, the products of one tap, all sums of one image, two buffers to requantise in."""
    layer, x = _layer(op, inputs), inputs[0]
    assert x is not None
    _, height, width, filters = layer.transposed.output_shape
    block = min(_rows(layer), height) * width * filters
    return [
        TensorSpec(x.shape[1:], layer.weights.dtype),
        TensorSpec((*x.shape[1:3], filters), layer.weights.dtype),
        TensorSpec((height, width, filters), np.float64 if layer.wide else layer.weights.dtype),
        TensorSpec((block,), np.float64),
        TensorSpec((block,), np.float64),
    ]


@quantized_conv_transpose.kernel("INT8", supports=_supports, scratch=_scratch)
def quantized_transposed(call: Call) -> Run:
    layer = _layer(call.op, call.in_specs)
    pixels, products, sums = call.scratch[:3]
    channels, filters = pixels.shape[2], layer.transposed.filters
    taps = [
        (tap, np.ascontiguousarray(layer.weights[:, tap.kernel[1], tap.kernel[2]].T))
        for tap in layer.transposed.window.taps()
    ]
    bias = layer.bias.astype(sums.dtype)
    steps: List[Step] = []
    for image, out in zip(call.inputs[0], call.outputs[0]):
        zero = np.float32(layer.products.x.zero_point)
        steps += [copy(pixels, image), partial(np.subtract, pixels, zero, pixels), copy(sums, bias)]
        for tap, weights in taps:
            met = sums[tap.image[1:]]
            steps += [
                multiply(pixels.reshape(-1, channels), weights, products.reshape(-1, filters)),
                partial(np.add, met, products[tap.out[1:]], met),
            ]
        steps += _requantised(call, layer, sums, out)
    return in_turn(steps)


def _requantised(call: Call, layer: _Layer, sums: Array, out: Array) -> List[Step]:
    rule = rule_of(layer.products)
    requantize = requantizer(rule.name, rule.multiplier, rule.zero_point, rule.low, rule.high, layer.reach)
    steps: List[Step] = []
    for begin, end in ranges(len(sums), _rows(layer)):
        part = sums[begin:end]
        work = [
            buffer[: part.size].reshape(part.shape).view(dtype)
            for buffer, dtype in zip(call.scratch[3:], requantize.work_dtypes)
        ]
        steps.append(partial(requantize, part, out[begin:end], work))
    return steps
