"""TensorFlow Lite's pools of integers, and quantised means and sums: AVERAGE_POOL_2D, MAX_POOL_2D, MEAN, SUM.

Source: LiteRT, tflite/kernels/internal/reference/integer_ops/pooling.h, reference/pooling.h, reference/reduce.h.
"""

from __future__ import annotations

from functools import partial
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window, onnx_window
from runtime_arm.operators.pool.caffe2 import max_pool_reference
from runtime_arm.operators.quantised.rounding import RULES, FixedPoint, double_rounding, fixed_point
from runtime_arm.operators.quantised.tflite.parameters import (
    UP_TO_SIXTEEN_BITS,
    activation_range,
    affine,
    limits_of,
    quantised,
)
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, require
from runtime_arm.registry.specs import Shape, TensorSpec
from runtime_arm.registry.steps import Step, in_turn


def pool_window(op: OperatorDef, x: TensorSpec) -> Window:
    """The window over X (N, H, W, C). kernel_shape, strides, auto_pad and pads as in ONNX."""
    require(op, x.ndim == 4, "X must be (N, H, W, C)", x)
    window = onnx_window(op, x.shape[1:3])
    require(op, int(window.counts().min(initial=1)) > 0, "a window without pixels", x)
    return window


@quantised("QuantizedAveragePool", dtypes=UP_TO_SIXTEEN_BITS)
def quantized_average_pool(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """AVERAGE_POOL_2D: the mean of the pixels inside the image, ties away from zero, clipped by ``activation``.

    X and Y (N, H, W, C) share Y_scale and Y_zero_point.
    """
    activation_range(op, x.dtype, affine(op, "Y", x.dtype))
    return [TensorSpec((x.shape[0], *pool_window(op, x).output, x.shape[3]), x.dtype)]


@quantized_average_pool.reference
def quantized_average_pool_reference(op: OperatorDef, x: Array) -> List[Any]:
    window = pool_window(op, TensorSpec.known(x))
    pixels, sums = np.moveaxis(x, -1, 1).astype(np.int64), np.zeros((x.shape[0], x.shape[3], *window.output), np.int64)
    for tap in window.taps():
        sums[tap.out] += pixels[tap.image]
    counts = window.counts()
    means = np.sign(sums) * ((np.abs(sums) + counts // 2) // counts)
    limits = activation_range(op, x.dtype, affine(op, "Y", x.dtype))
    return [np.moveaxis(np.clip(means, *limits), 1, -1).astype(x.dtype)]


@quantised("QuantizedMaxPool", dtypes=UP_TO_SIXTEEN_BITS)
def quantized_max_pool(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """MAX_POOL_2D: the maximum of the pixels inside the image. X and Y (N, H, W, C) share one scale and zero point."""
    return [TensorSpec((x.shape[0], *pool_window(op, x).output, x.shape[3]), x.dtype)]


quantized_max_pool.reference(max_pool_reference)


# MEAN and SUM


def _axes(op: OperatorDef, x: TensorSpec) -> Tuple[int, ...]:
    axes = {axis_of(op, axis, x.ndim) for axis in op.get_ints("axes", range(x.ndim))}
    return tuple(sorted(axes))


def _count(shape: Shape, axes: Sequence[int]) -> int:
    return int(np.prod([shape[axis] for axis in axes], dtype=np.int64))


def _reduced(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    axes = _axes(op, x)
    multiplier_of(op, x.dtype, 1)
    keep = op.get_bool("keepdims")
    return [
        TensorSpec([1 if axis in axes else n for axis, n in enumerate(x.shape) if keep or axis not in axes], x.dtype)
    ]


def exact_multiplier(op: OperatorDef, dtype: Any) -> Optional[np.float64]:
    """X_scale / Y_scale where sums are rounded once, half away from zero; None where they are in fixed point.

    LiteRT's reference kernel gives no sums of int8 and int16; those of its optimised kernel are rounded once.
    """
    once = op.type == "QuantizedSum" and dtype != np.uint8
    return np.float64(affine(op, "X", dtype).scale) / np.float64(affine(op, "Y", dtype).scale) if once else None


def multiplier_of(op: OperatorDef, dtype: Any, count: int) -> FixedPoint:
    """X_scale / Y_scale. For a mean, its mantissa is divided by the count, rounding down."""
    fixed = fixed_point(np.float64(affine(op, "X", dtype).scale) / np.float64(affine(op, "Y", dtype).scale))
    if op.type == "QuantizedSum":
        return fixed
    shift = min(count.bit_length() - 1, 32, 31 + int(fixed.exponent))
    return FixedPoint((fixed.mantissa << shift) // count, fixed.exponent - shift)


def _work_dtype(op: OperatorDef, dtype: Any) -> Any:
    return np.int64 if exact_multiplier(op, dtype) is None else np.float64


def _finish(op: OperatorDef, sums: Array, count: int, dtype: Any, work: Sequence[Array]) -> Array:
    """From sums of X to outputs, not yet in their type, by way of differences to the zero point; in ``work``.

    Without elements it is the integer 0, for any zero point.
    """
    if not count:
        work[0].fill(0)
        return work[0]
    np.subtract(sums, affine(op, "X", dtype).zero_point * count, out=sums)
    exact = exact_multiplier(op, dtype)
    if exact is None:
        RULES["tflite_ref"].scale(sums, double_rounding(multiplier_of(op, dtype, count)), work)
    else:
        RULES["tflite_real"].scale(sums, exact, work)
    np.add(work[0], affine(op, "Y", dtype).zero_point, out=work[0])
    limits = limits_of(dtype)
    np.clip(work[0], limits.low, limits.high, out=work[0])
    return work[0]


@quantised("QuantizedMean", dtypes=UP_TO_SIXTEEN_BITS)
def quantized_mean(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """MEAN over ``axes`` (all), which stay as 1 with ``keepdims``, requantised from X_scale to Y_scale."""
    return _reduced(op, x)


@quantised("QuantizedSum", dtypes=UP_TO_SIXTEEN_BITS)
def quantized_sum(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """SUM over ``axes`` (all), which stay as 1 with ``keepdims``, requantised from X_scale to Y_scale."""
    return _reduced(op, x)


@quantized_mean.reference
@quantized_sum.reference
def reduced_reference(op: OperatorDef, x: Array) -> List[Any]:
    axes = _axes(op, TensorSpec.known(x))
    sums = np.asarray(x.sum(axes, dtype=np.int64, keepdims=op.get_bool("keepdims")))
    work = [np.empty(sums.shape, _work_dtype(op, x.dtype)) for _ in range(2)]
    return [_finish(op, sums, _count(x.shape, axes), x.dtype, work).astype(x.dtype)]


def _sums(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    shape, dtype = outputs[0].shape, outputs[0].dtype
    return [TensorSpec(shape, np.int64), *[TensorSpec(shape, _work_dtype(op, dtype))] * 2]


@quantized_mean.kernel("NUMPY", scratch=_sums)
@quantized_sum.kernel("NUMPY", scratch=_sums)
def reduced_numpy(call: Call) -> Run:
    (x,), (y,), (sums, *work) = call.inputs, call.outputs, call.scratch
    assert call.in_specs[0] is not None
    axes, keep = _axes(call.op, call.in_specs[0]), call.op.get_bool("keepdims")
    count = _count(x.shape, axes)
    steps: List[Step] = [
        lambda: np.add.reduce(x, axis=axes, dtype=np.int64, out=sums, keepdims=keep),
        partial(_finish, call.op, sums, count, x.dtype, work),
        partial(np.copyto, y, work[0], casting="unsafe"),
    ]
    return in_turn(steps)
