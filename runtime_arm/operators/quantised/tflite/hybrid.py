"""TensorFlow Lite's dynamic-range ("hybrid") layers: float blobs, 8-bit weights, products of integers.

X is quantised while the net runs, each sample (or row) by itself. The integers are multiplied and added exactly, and
the sums are converted back to floats, one rounding after the other as in TensorFlow Lite's reference kernels:

    asymmetric  q = clip(round(X / s + z), -128, 127),  s = (max(X, 0) - min(X, 0)) / 255, z the integer of zero
    symmetric   q = clip(round(X / s), -127, 127),      s = max(|X|) / 127, z = 0

round is to nearest, ties away from zero. ``W_scales`` holds one scale, or one per filter. Domain "tflite". Results
equal LiteRT's BUILTIN_REF kernels to the last bit. Source: LiteRT, kernels/internal/reference/portable_tensor_utils.cc,
reference/conv.h (HybridConvPerChannel), reference/integer_ops/depthwise_conv_hybrid.h, kernels/fully_connected.cc.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import fully_connected, per_output
from runtime_arm.operators.conv.convolution import Convolution, convolution_of, convolve
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

_ALMOST_HALF = np.float32(0.49999997)  # the float32 before 0.5: adding it and truncating rounds ties away from zero
SMALLEST = np.float32(1e-36)  # range of values that are not all zeros
Range = Tuple[np.float32, np.float32, int]  # the value of a quantised 1, the multiplier of X, and the integer of 0


def asymmetric_range(low: Any, high: Any) -> Range:
    """Scale, inverse and zero point to quantise values from ``low`` to ``high``, float32, to -128..127.

    0 becomes an integer exactly.
    """
    low, high = min(low, np.float32(0)), max(high, np.float32(0))
    if high - low < SMALLEST:
        return np.float32(1), np.float32(0), 0
    scale = float(high - low) / 255
    below, above = float(low) / scale, float(high) / scale
    zero = -128 - below if 128 + abs(below) < 127 + abs(above) else 127 - above
    single = np.float32(scale)
    return single, np.float32(1) / single, int(np.clip(np.trunc(zero + np.copysign(0.5, zero)), -128, 127))


def symmetric_range(low: Any, high: Any) -> Range:
    """Scale, inverse and zero point (0) to quantise values from ``low`` to ``high``, float32, to -127..127.

    Values so small that the inverse would be infinite count as zeros.
    """
    largest = max(abs(low), abs(high))
    if largest < SMALLEST:
        return np.float32(1), np.float32(0), 0
    return np.float32(largest / np.float32(127)), np.float32(127) / np.float32(largest), 0


def rounded(x: Array, inverse: Any, zero: Any, least: int, q: Array, work: Array) -> None:
    """q = clip(round(x * inverse + zero), least, 127) - zero, float32 integers. ``work`` has the shape of ``q``."""
    np.multiply(x, inverse, out=q)
    np.add(q, zero, out=q)
    np.copysign(_ALMOST_HALF, q, out=work)
    np.add(q, work, out=q)
    np.trunc(q, out=q)
    np.clip(q, np.float32(least), np.float32(127), out=q)
    np.subtract(q, zero, out=q)


def weight_scales(op: OperatorDef, filters: int) -> Array:
    """``W_scales``, checked: one, or one per filter, of any sign."""
    scales = np.array(op.get_floats("W_scales"), np.float32)
    if not bool(np.all(np.isfinite(scales))):
        raise ArgumentError(op, "W_scales must be finite")
    if len(scales) not in (1, filters):
        raise ArgumentError(op, f"W_scales must hold one scale or {filters}, one per filter, got {len(scales)}")
    return scales


def hybrid_convolution(op: OperatorDef, x: TensorSpec, w: TensorSpec) -> Convolution:
    """The convolution that the operator computes in integers. Its arguments are those of Caffe2's Conv."""
    return convolution_of(as_conv(op), x, w)


def as_conv(op: OperatorDef) -> OperatorDef:
    """The operator as a Conv of the quantised values."""
    kept = tuple(arg for arg in op.arg if arg.name != "W_scales")
    return op.replace(type="Conv", domain="", input=op.input[:2], arg=kept, engine="")


def _conv_shape(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec]) -> List[TensorSpec]:
    require(
        op,
        w.dtype == np.int8 and (b is None or b.dtype == np.float32),
        "the weights must be int8, the bias float32",
        x,
        w,
        b,
    )
    convolution = hybrid_convolution(op, x, w)
    require(op, not convolution.channels_last, "the order must be NCHW")
    require(op, b is None or b.shape == (convolution.filters,), "the bias must have one value per filter", w, b)
    weight_scales(op, convolution.filters)
    return [TensorSpec(convolution.output_shape, np.float32)]


@operator("HybridConv", domain="tflite", inputs=(2, 3), dtypes=("float32",), multiply_adds=per_output())
def hybrid_conv(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """CONV_2D of X (N, C, H, W) with int8 W (M, C / group, kh, kw), b float32 (M). Arguments: those of Caffe2's Conv.

    With one scale X is quantised symmetrically and  Y = sums (W_scale s) + b;  with several, asymmetrically and Y =
    (sums W_scales) s + b.
    """
    return _conv_shape(op, x, w, b)


@operator("HybridDepthwiseConv", domain="tflite", inputs=(2, 3), dtypes=("float32",), multiply_adds=per_output())
def hybrid_depthwise_conv(
    op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """DEPTHWISE_CONV_2D, as HybridConv with C groups. X is quantised asymmetrically and Y = sums (W_scales s) + b."""
    return _conv_shape(op, x, w, b)


def is_symmetric(op: OperatorDef, scales: Array) -> bool:
    """Whether a convolution quantises its samples symmetrically."""
    return op.type == "HybridConv" and len(scales) == 1


def factors(op: OperatorDef, scales: Array, scale: Any) -> List[Any]:
    """The multipliers of the sums, to be applied one after the other."""
    return [scales, scale] if op.type == "HybridConv" and len(scales) > 1 else [scales * scale]


@hybrid_conv.reference
@hybrid_depthwise_conv.reference
def hybrid_conv_reference(op: OperatorDef, x: Array, w: Array, b: Optional[Array] = None) -> List[Any]:
    convolution = hybrid_convolution(op, TensorSpec.known(x), TensorSpec.known(w))
    scales = weight_scales(op, convolution.filters)
    y = np.empty(convolution.output_shape, np.float32)
    one = convolution._replace(batch=1)
    for sample, result in zip(x, y):
        symmetric = is_symmetric(op, scales)
        scale, inverse, zero = (symmetric_range if symmetric else asymmetric_range)(*extremes(sample))
        q, work = np.empty_like(sample), np.empty_like(sample)
        rounded(sample, inverse, np.float32(zero), -127 if symmetric else -128, q, work)
        result[...] = convolve(one, q[np.newaxis].astype(np.float64), w.astype(np.float64), None)[0]
        for factor in factors(op, scales, scale):
            result *= np.reshape(factor, (-1, *[1] * (result.ndim - 1))) if np.ndim(factor) else factor
        if b is not None:
            result += b.reshape(-1, *[1] * (result.ndim - 1))
    return [y]


def extremes(x: Array) -> Tuple[Any, Any]:
    """The minimum and maximum, 0 for no elements."""
    return (x.min(), x.max()) if x.size else (np.float32(0), np.float32(0))


@operator("HybridFullyConnected", domain="tflite", inputs=(2, 3), dtypes=("float32",), multiply_adds=fully_connected())
def hybrid_fully_connected(
    op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """FULLY_CONNECTED: Y = sums (W_scales s) + b, for the rows of X (..., K), int8 W (M, K) and float32 b (M).

    Rows are quantised symmetrically, or with ``asymmetric`` asymmetrically.
    """
    require(
        op,
        w.ndim == 2 and w.dtype == np.int8 and x.ndim >= 1 and x.shape[-1] == w.shape[1],
        "X's rows must be as long as those of the weights, int8",
        x,
        w,
    )
    require(
        op,
        b is None or (b.shape == (w.shape[0],) and b.dtype == np.float32),
        "the bias must have one value per filter",
        w,
        b,
    )
    weight_scales(op, w.shape[0])
    return [x.with_shape((*x.shape[:-1], w.shape[0]))]


@hybrid_fully_connected.reference
def hybrid_fully_connected_reference(op: OperatorDef, x: Array, w: Array, b: Optional[Array] = None) -> List[Any]:
    scales, asymmetric = weight_scales(op, w.shape[0]), op.get_bool("asymmetric")
    rows = x.reshape(-1, x.shape[-1])
    y = np.zeros((len(rows), w.shape[0]), np.float32)
    for row, result in zip(rows, y):
        scale, inverse, zero = (asymmetric_range if asymmetric else symmetric_range)(*extremes(row))
        q, work = np.empty_like(row), np.empty_like(row)
        rounded(row, inverse, np.float32(zero), -128 if asymmetric else -127, q, work)
        sums = (w.astype(np.int64) @ q.astype(np.int64)).astype(np.float32)
        result[...] = sums * (scales * scale) + (np.float32(0) if b is None else b)
    return [y.reshape(*x.shape[:-1], w.shape[0])]
