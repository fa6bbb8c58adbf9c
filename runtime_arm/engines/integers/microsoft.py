"""INT8: onnxruntime's products of 8-bit matrices, computed as ``onnx_matmul.py`` computes those of ONNX."""

from __future__ import annotations

from functools import partial
from typing import List, Optional, Sequence

import numpy as np

from runtime_arm.engines.integers.onnx_matmul import Factors, Finish, IntegerProduct, requantized
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.microsoft.products import (
    dynamic_quantize_matmul,
    matmul_integer_to_float,
    qgemm,
    qgemm_multiplier,
    transposed,
)
from runtime_arm.operators.quantised.onnx.conversion import dynamic_parameters
from runtime_arm.operators.quantised.parameters import all_known, parameters
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn


def scaled(scale: Array, bias: Optional[Array]) -> Finish:
    """Finish with sums * scale + bias in float32. scale: (1, one or N), read while running; bias: (N) or None."""

    def finish(sums: Array, work: Array, y: Array) -> List[Step]:
        steps: List[Step] = [partial(np.multiply, sums, scale, y, dtype=np.float32, casting="same_kind")]
        return steps if bias is None else [*steps, partial(np.add, y, bias, y)]

    return finish


# QGemm


def _qgemm(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> IntegerProduct:
    a, a_zero_point, b, b_zero_point = Factors.at(inputs, 0, 2, 3, 5)
    c = inputs[6] if len(inputs) > 6 else None
    a, b = transposed(op, a, b)
    offset = 0 if c is None else 1 << 31
    if c is not None and c.value is not None:
        offset = int(np.abs(c.value.astype(np.int64)).max(initial=0))
    return IntegerProduct(Factors(a, a_zero_point, b, b_zero_point), outputs[0], offset)


def _refuse_qgemm(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    c = inputs[6] if len(inputs) > 6 else None
    if not all_known([spec for i, spec in enumerate(inputs) if i in (1, 4, 7, 8)]):
        return "scales and the zero point of Y must be constants"
    if c is not None and c.ndim == 2 and c.shape[0] != 1:
        return "C must be the same for all rows"
    return _qgemm(op, inputs, outputs).refusal(inputs[1], inputs[4])


@qgemm.kernel("INT8", supports=_refuse_qgemm, scratch=lambda op, inputs, outputs: _qgemm(op, inputs, outputs).scratch())
def qgemm_int8(call: Call) -> Run:
    c, y_scale, y_zero_point = (*call.inputs[6:], None, None, None)[:3]
    multiplier = qgemm_multiplier(call.op, call.inputs[1], call.inputs[4], y_scale)
    to_y = scaled(multiplier.reshape(1, -1), None) if y_zero_point is None else requantized(multiplier, y_zero_point)

    def finish(sums: Array, work: Array, y: Array) -> List[Step]:
        steps = to_y(sums, work, y)
        return steps if c is None else [partial(np.add, sums, c, sums, casting="same_kind"), *steps]

    a, a_zero_point, b, b_zero_point = Factors.at(call.inputs, 0, 2, 3, 5)
    a, b = transposed(call.op, a, b)
    product = _qgemm(call.op, call.in_specs, call.out_specs)
    return in_turn(product.steps(call, Factors(a, a_zero_point, b, b_zero_point), finish))


# MatMulIntegerToFloat


def _to_float(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> IntegerProduct:
    return IntegerProduct(Factors.at(inputs, 0, 4, 1, 5), outputs[0])


@matmul_integer_to_float.kernel(
    "INT8",
    supports=lambda op, inputs, outputs: _to_float(op, inputs, outputs).refusal(inputs[2], inputs[3]),
    scratch=lambda op, inputs, outputs: _to_float(op, inputs, outputs).scratch(),
)
def matmul_integer_to_float_int8(call: Call) -> Run:
    a_scale, b_scale = call.inputs[2], call.inputs[3]
    scale = np.empty((1, b_scale.size), np.float32)

    def set_scale() -> None:
        scale[...] = parameters(call.op, "A", a_scale).scale * parameters(call.op, "B", b_scale).scale

    bias = call.inputs[6] if len(call.inputs) > 6 else None
    product = _to_float(call.op, call.in_specs, call.out_specs)
    return in_turn([set_scale, *product.steps(call, Factors.at(call.inputs, 0, 4, 1, 5), scaled(scale, bias))])


# DynamicQuantizeMatMul


def _dynamic(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> IntegerProduct:
    a, _, b, b_zero_point = Factors.at(inputs, 0, 0, 1, 3)
    return IntegerProduct(Factors(a.with_dtype(np.uint8), TensorSpec((), np.uint8), b, b_zero_point), outputs[0])


@dynamic_quantize_matmul.kernel(
    "INT8",
    supports=lambda op, inputs, outputs: _dynamic(op, inputs, outputs).refusal(b_scale=inputs[2]),
    scratch=lambda op, inputs, outputs: _dynamic(op, inputs, outputs).scratch(),
)
def dynamic_quantize_matmul_int8(call: Call) -> Run:
    a, b_scale = call.inputs[0], call.inputs[2]
    scale = np.empty((1, b_scale.size), np.float32)
    a_scale, low, high = np.zeros((3, 1), np.float32)

    def set_parameters() -> None:
        found = dynamic_parameters(a)
        a_scale[0], low[0], high[0] = found.scale, -found.zero_point, 255 - found.zero_point
        scale[...] = found.scale * parameters(call.op, "B", b_scale).scale

    def fill(rows: Array, factor: Array) -> List[Step]:
        """Rows of A as integers less their zero point."""
        return [
            partial(np.divide, rows, a_scale, factor),
            partial(np.rint, factor, factor),
            partial(np.fmax, factor, low, factor),
            partial(np.fmin, factor, high, factor),
        ]

    bias = call.inputs[4] if len(call.inputs) > 4 else None
    product = _dynamic(call.op, call.in_specs, call.out_specs)
    factors = Factors.at(call.inputs, 0, len(call.inputs), 1, 3)
    return in_turn([set_parameters, *product.steps(call, factors, scaled(scale, bias), fill)])
