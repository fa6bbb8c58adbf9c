"""TensorFlow Lite's conversions between floats and quantised integers, and between integers of different scales.

Source: LiteRT, tflite/kernels/quantize.cc, dequantize.cc, concatenation.cc and reference/requantize.h.
"""

from __future__ import annotations

from functools import partial
from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef, dtypes
from runtime_arm.operators.common.tables import bind_lookup, lookup_scratch, table_of
from runtime_arm.operators.quantised.tflite.parameters import (
    EIGHT_BITS,
    UP_TO_SIXTEEN_BITS,
    affine,
    away_from_zero,
    limits_of,
    multiplied,
    quantised,
)
from runtime_arm.registry.blocks import block_size, cut
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn

FURTHEST = 2.0**30  # larger quotients saturate with any zero point


def _to(op: OperatorDef) -> np.dtype[Any]:
    """The integer type in the argument ``to``."""
    dtype = dtypes.dtype_of(op.get_int("to"))
    allowed = (*UP_TO_SIXTEEN_BITS, "int32")
    if dtype is None or dtype.name not in allowed:
        raise ArgumentError(op, f"to must name one of {', '.join(allowed)}, got type {op.get_int('to')}")
    return dtype


@quantised("Quantize", dtypes=("float32",))
def quantize(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """QUANTIZE of floats: Y = saturate(round(X / Y_scale) + Y_zero_point), ties away from zero, of type ``to``.

    The quotient is float32. NaN gives the lowest integer; in TensorFlow Lite it is undefined.
    """
    affine(op, "Y", _to(op))
    return [TensorSpec(x.shape, _to(op))]


@quantize.reference
def quantize_reference(op: OperatorDef, x: Array) -> List[Any]:
    dtype = _to(op)
    y = affine(op, "Y", dtype)
    steps = away_from_zero(np.fmin(np.fmax(x / y.scale, np.float32(-FURTHEST)), np.float32(FURTHEST)))
    return [np.clip(steps.astype(np.int64) + y.zero_point, *limits_of(dtype)).astype(dtype)]


def _three_blocks(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    size = (block_size(outputs[0].shape),)
    return [TensorSpec(size, np.float32), TensorSpec(size, np.float64), TensorSpec(size, np.float64)]


@quantize.kernel("NUMPY", scratch=_three_blocks)
def quantize_numpy(call: Call) -> Run:
    """Halves are added in float64, where no sum is rounded."""
    dtype = call.outputs[0].dtype
    of_y = affine(call.op, "Y", dtype)
    low, high = (np.float64(limit - of_y.zero_point) for limit in limits_of(dtype))
    steps: List[Step] = []
    for x, y in cut(call.inputs, call.outputs[0]):
        quotient, work, half = (buffer[: x.size].reshape(x.shape) for buffer in call.scratch)
        steps += [
            partial(np.divide, x, of_y.scale, quotient),
            partial(np.copyto, work, quotient),
            partial(np.copysign, 0.5, work, half),
            partial(np.add, work, half, work),
            partial(np.trunc, work, work),
            partial(np.fmax, work, low, work),
            partial(np.fmin, work, high, work),
            partial(np.add, work, np.float64(of_y.zero_point), work),
            partial(np.copyto, y, work, casting="unsafe"),
        ]
    return in_turn(steps)


@quantised("Dequantize", dtypes=UP_TO_SIXTEEN_BITS)
def dequantize(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """DEQUANTIZE: Y = X_scale (X - X_zero_point), float32."""
    affine(op, "X", x.dtype)
    return [TensorSpec(x.shape, np.float32)]


@dequantize.reference
def dequantize_reference(op: OperatorDef, x: Array) -> List[Any]:
    of_x = affine(op, "X", x.dtype)
    return [(np.float64(of_x.scale) * (x.astype(np.int64) - of_x.zero_point)).astype(np.float32)]


@dequantize.kernel("NUMPY")
def dequantize_numpy(call: Call) -> Run:
    (x,), (y,) = call.inputs, call.outputs
    of_x = affine(call.op, "X", x.dtype)
    return in_turn(
        [
            partial(np.copyto, y, x),
            partial(np.subtract, y, np.float32(of_x.zero_point), y),
            partial(np.multiply, y, of_x.scale, y),
        ]
    )


@quantised("Requantize", dtypes=(*UP_TO_SIXTEEN_BITS, "int32"))
def requantize(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """QUANTIZE of integers: Y = saturate(round((X - X_zero_point) (X_scale / Y_scale)) + Y_zero_point), of type ``to``.

    The quotient of the scales is a double.
    """
    affine(op, "X", x.dtype)
    affine(op, "Y", _to(op))
    return [TensorSpec(x.shape, _to(op))]


@requantize.reference
def requantize_reference(op: OperatorDef, x: Array) -> List[Any]:
    dtype = _to(op)
    of_x, of_y = affine(op, "X", x.dtype), affine(op, "Y", dtype)
    steps = multiplied(x.astype(np.int64) - of_x.zero_point, np.float64(of_x.scale) / np.float64(of_y.scale))
    return [np.clip(steps + of_y.zero_point, *limits_of(dtype)).astype(dtype)]


def _index(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    return lookup_scratch([outputs[0].shape], outputs[0].dtype.itemsize)


def _has_a_table(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return None if inputs[0] is not None and inputs[0].dtype.itemsize < 4 else "there are too many numbers for a table"


@requantize.kernel("TABLE", supports=_has_a_table, scratch=_index)
def requantize_table(call: Call) -> Run:
    (x,), (y,) = call.inputs, call.outputs
    table: Array = table_of(x.dtype, lambda values: np.asarray(requantize_reference(call.op, values)[0]))
    return bind_lookup(x, table, y, call.scratch)


@quantised("RescaleOperand", dtypes=EIGHT_BITS, inplace={0: 0})
def rescale_operand(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """How CONCATENATION of uint8 rescales an operand whose scale is not the output's, in float32:

    Y = saturate(round(X ratio - X_zero_point ratio) + Y_zero_point) for ratio = X_scale (1 / Y_scale).
    """
    affine(op, "X", x.dtype)
    affine(op, "Y", x.dtype)
    return [x]


@rescale_operand.reference
def rescale_operand_reference(op: OperatorDef, x: Array) -> List[Any]:
    of_x, of_y = affine(op, "X", x.dtype), affine(op, "Y", x.dtype)
    ratio = of_x.scale * (np.float32(1) / of_y.scale)
    steps = away_from_zero(x.astype(np.float32) * ratio + np.float32(-of_x.zero_point) * ratio)
    return [np.clip(steps.astype(np.int64) + of_y.zero_point, *limits_of(x.dtype)).astype(x.dtype)]


@rescale_operand.kernel("TABLE", scratch=_index)
def rescale_operand_table(call: Call) -> Run:
    (x,), (y,) = call.inputs, call.outputs
    table: Array = table_of(x.dtype, lambda values: np.asarray(rescale_operand_reference(call.op, values)[0]))
    return bind_lookup(x, table, y, call.scratch)
