"""INT8: Caffe2's Int8Conv, Int8ConvRelu and Int8FC by float32 GEMM, exact as ``onnx.py`` explains.

Convolutions differ from TensorFlow Lite's only in the rounding rule and in where scales and zero points are stored: the
same kernels run them, INT8_DEPTHWISE the depthwise ones.
"""

from __future__ import annotations

from functools import partial
from typing import List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.integers import tflite, tflite_depthwise
from runtime_arm.engines.integers.onnx_matmul import Factors, IntegerProduct
from runtime_arm.engines.integers.tflite_rows import PRODUCTS
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.layout.reshape import product
from runtime_arm.operators.quantised.caffe2.conversion import LARGEST, lowest, output_quantization, quantization_of
from runtime_arm.operators.quantised.caffe2.products import int8_conv, int8_fc, multiplier_of
from runtime_arm.operators.quantised.parameters import all_known
from runtime_arm.operators.quantised.rounding import requantizer
from runtime_arm.operators.quantised.tflite.parameters import Affine, Range
from runtime_arm.operators.quantised.tflite.products import Products
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn, shaped

CONSTANTS = "the weights and the bias must be constants"


def products_of(op: OperatorDef, x: TensorSpec, w: TensorSpec, filters: int) -> Products:
    """The quantisation of an Int8Conv or an Int8FC."""
    of_x, of_w, of_y = quantization_of(op, "X", x), quantization_of(op, "the weights", w), output_quantization(op)
    y = Affine(np.float32(of_y.scale), of_y.zero_point)
    multiplier = np.array([multiplier_of(op, x, w)], np.float64)
    limits = Range(lowest(op, y.zero_point), LARGEST)
    return Products(Affine(np.float32(of_x.scale), of_x.zero_point), of_w.zero_point, multiplier, y, limits, "gemmlowp")


PRODUCTS[int8_conv.domain] = products_of
for _engine, _of in (("INT8_DEPTHWISE", tflite_depthwise), ("INT8", tflite)):
    int8_conv.kernel(_engine, supports=_of.supports, scratch=_of.scratch, splits_work=True)(_of.bind)


def _known(inputs: Specs) -> Tuple[TensorSpec, TensorSpec, TensorSpec]:
    x, w, b = inputs
    assert x is not None
    assert w is not None
    assert b is not None
    return x, w, b


def _product(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> IntegerProduct:
    x, w, b = _known(inputs)
    assert w.value is not None
    assert b.value is not None
    terms = product(x.shape[1:])
    products = products_of(op, x, w, len(w.value))
    zero_points = [TensorSpec.known(np.uint8(zero)) for zero in (products.x.zero_point, products.w_zero_point)]
    weights = TensorSpec.known(w.value.reshape(-1, terms).T)
    factors = Factors(TensorSpec((x.shape[0], terms), np.uint8), zero_points[0], weights, zero_points[1])
    return IntegerProduct(factors, outputs[0], int(np.abs(b.value.astype(np.int64)).max(initial=0)))


def _supports_fc(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return None if all_known(inputs[1:]) else CONSTANTS


def _fc_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    matrix = _product(op, inputs, outputs)
    return [*matrix.scratch(), *[TensorSpec((matrix.sums,), np.float64)] * 2]


@int8_fc.kernel("INT8", supports=_supports_fc, scratch=_fc_scratch)
def int8_fully_connected(call: Call) -> Run:
    matrix = _product(call.op, call.in_specs, call.out_specs)
    x, w, _ = _known(call.in_specs)
    products, bias = products_of(call.op, x, w, matrix.columns), call.inputs[2]
    reach = matrix.terms * LARGEST * LARGEST + matrix.offset
    requantize = requantizer(products.rule, products.multiplier, products.y.zero_point, *products.limits, reach)

    def finish(sums: Array, work: Array, y: Array) -> List[Step]:
        buffers = [
            shaped(buffer.view(dtype), *y.shape) for buffer, dtype in zip(call.scratch[-2:], requantize.work_dtypes)
        ]
        return [partial(np.add, sums, bias, sums, casting="same_kind"), partial(requantize, sums, y, buffers)]

    zero_points = [np.asarray(zero, np.uint8) for zero in (products.x.zero_point, products.w_zero_point)]
    factors = Factors(
        call.inputs[0].reshape(-1, matrix.terms),
        zero_points[0],
        call.inputs[1].reshape(-1, matrix.terms).T,
        zero_points[1],
    )
    return in_turn(matrix.steps(call, factors, finish))
