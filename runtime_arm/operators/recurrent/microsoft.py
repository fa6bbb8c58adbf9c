"""onnxruntime's DynamicQuantizeLSTM: an LSTM whose weights, inputs and hidden states are rounded to 8 bits."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import per_row
from runtime_arm.operators.quantised.onnx.conversion import dynamic_parameters
from runtime_arm.operators.quantised.parameters import EIGHT_BITS, dequantized, quantized, require_dtype
from runtime_arm.operators.recurrent.onnx import MaybeSpec, Weights, checked, recurrent
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def plain(op: OperatorDef) -> OperatorDef:
    """The LSTM of ONNX with the same attributes."""
    return op.replace(type="LSTM", domain="onnx")


def _turned(x: TensorSpec) -> TensorSpec:
    """A weight as LSTM has it: float32, with the last two dimensions swapped."""
    return TensorSpec((*x.shape[:-2], *x.shape[:-3:-1]), np.float32)


@operator("DynamicQuantizeLSTM", domain="com.microsoft", inputs=12, outputs=(0, 3), multiply_adds=per_row(1, 2, dims=2))
def dynamic_quantize_lstm(
    op: OperatorDef,
    x: TensorSpec,
    w: TensorSpec,
    r: TensorSpec,
    b: MaybeSpec,
    lengths: MaybeSpec,
    initial_h: MaybeSpec,
    initial_c: MaybeSpec,
    p: MaybeSpec,
    w_scale: TensorSpec,
    w_zero_point: TensorSpec,
    r_scale: TensorSpec,
    r_zero_point: TensorSpec,
) -> List[TensorSpec]:
    """ONNX's LSTM with W (directions, in, 4 hidden) and R (directions, hidden, 4 hidden) of 8 bits, scaled a direction
    or a column, (directions) or (directions, 4 hidden).

    X as a whole, and the hidden states of each step, are rounded to 8 bits as DynamicQuantizeLinear does. Source:
    onnxruntime's ContribOperators.md.
    """
    require(op, w.ndim == r.ndim == 3, "W and R must have 3 dimensions", w, r)
    for what, weight, scale, zero_point in (("W", w, w_scale, w_zero_point), ("R", r, r_scale, r_zero_point)):
        require_dtype(op, what, weight, EIGHT_BITS)
        shapes = (weight.shape[:1], (weight.shape[0], weight.shape[2]))
        fits = scale.shape in shapes and zero_point.shape == scale.shape and zero_point.dtype == weight.dtype
        require(
            op,
            fits,
            f"scale and zero point of {what} must be (directions) or (directions, 4 hidden)",
            scale,
            zero_point,
        )
    return checked(plain(op), x, _turned(w), _turned(r), b, lengths, [initial_h, initial_c], p)


def _real(weight: Array, scale: Array, zero_point: Array) -> Array:
    """The weight as LSTM has it, float64."""
    shape = (weight.shape[0], 1, -1)
    real = (weight.astype(np.float64) - zero_point.reshape(shape)) * scale.astype(np.float64).reshape(shape)
    return np.swapaxes(real, 1, 2)


def rounded(x: Array) -> Array:
    """Floats, each of which 8 bits can say with one scale and one zero point, float64."""
    exact = np.asarray(x, np.float32)
    if not exact.size:
        return exact.astype(np.float64)
    found = dynamic_parameters(exact)
    return dequantized(quantized(exact, found, np.uint8), found).astype(np.float64)


class _RoundingMatrix:
    """A matrix whose left factor is rounded before the product."""

    __array_ufunc__ = None  # NumPy leaves products to __rmatmul__

    def __init__(self, matrix: Array):
        self._matrix = matrix

    def __rmatmul__(self, left: Array) -> Any:
        return rounded(left) @ self._matrix


def _rounding(weights: Weights) -> Weights:
    return weights._replace(r=_RoundingMatrix(weights.r))  # type: ignore[arg-type]


@dynamic_quantize_lstm.reference
def dynamic_quantize_lstm_reference(op: OperatorDef, x: Array, w: Array, r: Array, *rest: Optional[Array]) -> List[Any]:
    w_scale, w_zero_point, r_scale, r_zero_point = rest[5:9]
    assert w_scale is not None
    assert w_zero_point is not None
    assert r_scale is not None
    assert r_zero_point is not None
    weights = _real(w, w_scale, w_zero_point), _real(r, r_scale, r_zero_point)
    results = recurrent(plain(op), rounded(x), *weights, *rest[:5], change=_rounding)
    return [result.astype(x.dtype) for result in results]
