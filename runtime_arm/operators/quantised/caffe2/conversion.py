"""Caffe2's Int8Quantize and Int8Dequantize, and the requirements of all Int8 operators for quantised blobs.

Such a blob is uint8 and carries its scale and zero point; images are (N, H, W, C). An operator states the quantisation
of its output by the arguments Y_scale (1) and Y_zero_point (0). Results are exact in integers. Source:
caffe2/operators/quantized and QNNPACK, which it calls.
"""

from __future__ import annotations

from functools import partial
from typing import Any, List, Optional

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.quantised.parameters import Parameters, dequantized, stated_quantization
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import Quantization, QuantizedTensor, Shape, TensorSpec
from runtime_arm.registry.steps import Step, in_turn

LARGEST = 255
_TOO_LARGE = 2.0**31  # too large for an integer of 32 bits


def quantization_of(op: OperatorDef, what: str, spec: Optional[TensorSpec]) -> Quantization:
    """Scale and zero point of an operand. ShapeError unless it is a quantised blob of uint8."""
    require(op, spec is not None, f"{what} is required")
    assert spec is not None
    require(op, spec.quantization is not None and spec.dtype == np.uint8, f"{what} must be quantised uint8", spec)
    assert spec.quantization is not None
    require(
        op,
        0 <= spec.quantization.zero_point <= LARGEST,
        f"the zero point of {what} must be 0 to {LARGEST}, got {spec.quantization.zero_point}",
    )
    return spec.quantization


def output_quantization(op: OperatorDef) -> Quantization:
    """The quantisation of the operator's output. ArgumentError unless the zero point is a byte."""
    stated = stated_quantization(op)
    if not 0 <= stated.zero_point <= LARGEST:
        raise ArgumentError(op, f"Y_zero_point must be 0 to {LARGEST}, got {stated.zero_point}")
    return stated


def output_spec(op: OperatorDef, shape: Shape) -> TensorSpec:
    """The spec of a quantised output of this shape."""
    return TensorSpec(shape, np.uint8, None, output_quantization(op))


def require_kept_quantization(op: OperatorDef, x: Optional[TensorSpec]) -> Quantization:
    """The quantisation of X. ArgumentError unless the output has the same."""
    given, stated = quantization_of(op, "X", x), output_quantization(op)
    if (np.float32(given.scale), given.zero_point) != (np.float32(stated.scale), stated.zero_point):
        raise ArgumentError(
            op,
            f"the output must be quantised like X, with scale {given.scale} and zero point "
            f"{given.zero_point}, got Y_scale {stated.scale} and Y_zero_point {stated.zero_point}",
        )
    return given


def require_channels_last(op: OperatorDef) -> None:
    """ArgumentError unless the argument ``order`` is NHWC."""
    order = op.get_str("order", "NCHW")
    if order != "NHWC":
        raise ArgumentError(op, f"order must be NHWC, got {order!r}")


def lowest(op: OperatorDef, zero_point: int) -> int:
    """The lower limit of the output: the zero point if the operator's name ends in Relu, else 0."""
    return zero_point if op.type.endswith("Relu") else 0


def scale_ratio(op: OperatorDef, scale: float, other: float, low: float, high: float) -> np.float32:
    """scale / other in float32. ArgumentError unless it is in [low, high), the range of QNNPACK's kernels."""
    ratio: np.float32 = np.float32(scale) / np.float32(other)
    if not low <= ratio < high:
        raise ArgumentError(op, f"scale {scale} divided by scale {other} must be in [{low}, {high}), got {ratio}")
    return ratio


def _parameters(quantization: Quantization) -> Parameters:
    return Parameters(np.asarray(quantization.scale, np.float32), np.asarray(quantization.zero_point, np.int32))


@operator("Int8Quantize", dtypes=("float32",))
def int8_quantize(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = saturate(round(X / Y_scale) + Y_zero_point), ties to even, uint8.

    Quotients of 2**31 or more, and NaN, give 0, as in the recorded runs of Caffe2: they do not fit into an integer
    there.
    """
    return [output_spec(op, x.shape)]


@int8_quantize.reference
def int8_quantize_reference(op: OperatorDef, x: Any) -> List[Any]:
    scale, zero_point = output_quantization(op)
    steps = np.rint(x / np.float32(scale)).astype(np.float64)
    return [np.clip(np.where(steps < _TOO_LARGE, steps + zero_point, 0), 0, LARGEST).astype(np.uint8)]


@int8_quantize.kernel(
    "NUMPY",
    scratch=lambda op, inputs, outputs: [TensorSpec(outputs[0].shape, dtype) for dtype in (np.float32, np.bool_)],
)
def int8_quantize_numpy(call: Call) -> Run:
    (x,), (y,), (work, large) = call.inputs, call.outputs, call.scratch
    scale, zero_point = output_quantization(call.op)
    steps: List[Step] = [
        partial(np.divide, x, np.float32(scale), work),
        partial(np.rint, work, work),
        partial(np.greater_equal, work, np.float32(_TOO_LARGE), large),
        partial(np.copyto, work, np.float32(-np.inf), where=large),
        partial(np.add, work, np.float32(zero_point), work),
        partial(np.fmax, work, np.float32(0), out=work),
        partial(np.fmin, work, np.float32(LARGEST), out=work),
        partial(np.copyto, y, work, casting="unsafe"),
    ]
    return in_turn(steps)


@operator("Int8Dequantize")
def int8_dequantize(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = scale (X - zero_point), float32, with the scale and zero point that X carries."""
    quantization_of(op, "X", x)
    return [TensorSpec(x.shape, np.float32)]


@int8_dequantize.reference
def int8_dequantize_reference(op: OperatorDef, x: QuantizedTensor) -> List[Any]:
    return [dequantized(x.values, _parameters(Quantization(x.scale, x.zero_point)))]


@int8_dequantize.kernel("NUMPY")
def int8_dequantize_numpy(call: Call) -> Run:
    (x,), (y,) = call.inputs, call.outputs
    scale, zero_point = quantization_of(call.op, "X", call.in_specs[0])
    return in_turn([partial(np.subtract, x, np.float32(zero_point), y), partial(np.multiply, y, np.float32(scale), y)])


@operator("Int8GenQuantParams", inputs=2)
def int8_gen_quant_params(op: OperatorDef, x: TensorSpec, scheme: TensorSpec) -> List[TensorSpec]:
    """Always refused: its second input is a quantisation scheme, which is not a tensor and is in no net file."""
    require(op, False, "the second input must be a quantisation scheme, not a tensor", scheme)
    return []
