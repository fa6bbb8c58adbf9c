"""Scales and zero points: which ones an operator accepts, and the float32 arithmetic of quantised operators.

A quantised blob of integers q stands for the reals  scale * (q - zero_point).  Scale and zero point are inputs of the
operators that use them, with one element, or one per index of an axis. Divisions and multiplications are single float32
operations, as in onnxruntime.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import require
from runtime_arm.registry.specs import Quantization, TensorSpec

EIGHT_BITS = (np.dtype(np.uint8), np.dtype(np.int8))
SIXTEEN_BITS = (np.dtype(np.uint16), np.dtype(np.int16))


class Parameters(NamedTuple):
    """The content of a scale and its zero point: float32 and int32 arrays of one shape, () for a whole blob."""

    scale: Array
    zero_point: Array


def stated_quantization(op: OperatorDef) -> Quantization:
    """Y_scale (1) and Y_zero_point (0), by which Caffe2's operators state the quantisation of their output."""
    scale = op.get_float("Y_scale", 1.0)
    if not 0 < scale < np.inf:
        raise ArgumentError(op, f"Y_scale must be positive and finite, got {scale}")
    return Quantization(scale, op.get_int("Y_zero_point", 0))


def check_scale(op: OperatorDef, what: str, scale: Array) -> None:
    """ArgumentError unless every element is finite and positive."""
    values = np.asarray(scale)
    bad = ~(np.isfinite(values) & (values > 0))
    if bool(np.any(bad)):
        raise ArgumentError(op, f"the scale of {what} must be positive and finite, got {values[bad].reshape(-1)[0]}")


def parameters(op: OperatorDef, what: str, scale: Array, zero_point: Optional[Array] = None) -> Parameters:
    """The content of a scale and its zero point (0 if left out), checked. A single element has the shape ()."""
    check_scale(op, what, scale)
    zero = np.zeros((), np.int32) if zero_point is None else np.asarray(zero_point, np.int32)
    return Parameters(*(p.reshape(()) if p.size == 1 else p for p in (np.asarray(scale, np.float32), zero)))


def require_parameters(
    op: OperatorDef,
    what: str,
    blob_dtype: Any,
    scale: Optional[TensorSpec],
    zero_point: Optional[TensorSpec] = None,
    channels: int = 1,
    of: str = "",
) -> None:
    """ShapeError unless a scale and zero point fit a blob of this dtype.

    Both hold one element, or one per channel; the scale is float32, the zero point has the blob's dtype. ``of`` names
    the channels. A scale whose content is known must be positive.
    """
    require(op, scale is not None, f"the scale of {what} is required")
    assert scale is not None
    rule = f"must hold one element{f', or {channels}, one {of}' if of else ''}"
    require(op, scale.dtype == np.float32, f"the scale of {what} must be float32", scale)
    require(op, scale.ndim <= 1 and scale.size in (1, channels), f"the scale of {what} {rule}", scale)
    if zero_point is not None:
        require(
            op,
            zero_point.dtype == blob_dtype,
            f"the zero point of {what} must have the blob's type, {np.dtype(blob_dtype).name}",
            zero_point,
        )
        fits = zero_point.ndim <= 1 and zero_point.size in (1, channels)
        require(op, fits, f"the zero point of {what} {rule}", zero_point)
    if scale.value is not None:
        check_scale(op, what, scale.value)


def require_dtype(op: OperatorDef, what: str, spec: TensorSpec, allowed: Sequence[Any]) -> None:
    """ShapeError unless the blob has one of the dtypes."""
    names = " or ".join(np.dtype(dtype).name for dtype in allowed)
    require(op, spec.dtype in [np.dtype(dtype) for dtype in allowed], f"{what} must be {names}", spec)


def all_known(specs: Sequence[Optional[TensorSpec]]) -> bool:
    """Whether the content of every input that is given is known before running."""
    return all(spec is None or spec.value is not None for spec in specs)


def dequantized(values: Array, quantization: Parameters) -> Array:
    """scale * (values - zero_point) in float32."""
    shifted = values.astype(np.int32) - quantization.zero_point if quantization.zero_point.any() else values
    reals = np.array(shifted, np.float32)
    return np.multiply(reals, quantization.scale, out=reals)


def saturated(rounded: Array, dtype: Any) -> Array:
    """Floats that are whole numbers as integers of the dtype, clipped to its range. NaN becomes the lowest."""
    limits = np.iinfo(dtype)
    low, high = rounded.dtype.type(limits.min), rounded.dtype.type(limits.max)
    result: Array = np.fmin(np.fmax(rounded, low), high).astype(dtype)
    return result


def quantized(reals: Array, quantization: Parameters, dtype: Any) -> Array:
    """saturate(round(reals / scale) + zero_point), ties to even, in float32."""
    steps = np.rint(reals.astype(np.float32) / quantization.scale)
    return saturated(steps + quantization.zero_point.astype(np.float32), dtype)
