"""ONNX's pools with options that Caffe2's lack: ceil_mode, dilation, auto_pad, indices; and MaxUnpool."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import require_at_least
from runtime_arm.operators.pool.caffe2 import (
    average_pool_reference,
    float_pool_shape,
    fold,
    max_pool_reference,
    pool_of,
    pool_shape,
)
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.schema import integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("MaxPool", domain="onnx", outputs=(1, 2), kind=Kind.MAX_POOL)
def onnx_max_pool(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y[n, c, o] = the maximum of X[n, c, o * stride + k * dilation - pad] over k within the image, 1-D to N-D.

    The second output is its index in the flattened X, int64; of equal ones, the first in the order of the kernel. With
    storage_order 1 the index counts column by column within an image. Other attributes: see ``onnx_window``.
    """
    require(op, x.dtype.kind in "iuf", "X must hold numbers", x)
    (y,) = pool_shape(op, x)
    return [y, TensorSpec(y.shape, np.int64)]


@onnx_max_pool.reference
def onnx_max_pool_reference(op: OperatorDef, x: Array) -> Sequence[Any]:
    pool = pool_of(op, TensorSpec.known(x))
    image = pool.window.image
    order = "F" if op.get_int("storage_order", 0) else "C"
    positions = np.arange(math.prod(image)).reshape(image, order=order)  # type: ignore[call-overload]
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2])
    (y,) = max_pool_reference(op, x)
    found = np.zeros(y.shape, bool)
    indices = np.zeros(y.shape, np.int64)
    for tap in pool.window.taps():
        first = (x[tap.image] == y[tap.out]) & ~found[tap.out]
        indices[tap.out] = np.where(first, positions[tap.image], indices[tap.out])
        found[tap.out] |= first
    return [y, indices + planes.reshape(*planes.shape, *[1] * len(image)) * math.prod(image)]


@operator("AveragePool", domain="onnx", kind=Kind.AVERAGE_POOL)
def onnx_average_pool(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y[n, c, o] = the mean of X[n, c, o * stride + k * dilation - pad] over k within the image, 1-D to N-D.

    With count_include_pad, k also counts padding. Other attributes: see ``onnx_window``.
    """
    return float_pool_shape(op, x)


onnx_average_pool.reference(average_pool_reference)


@operator("LpPool", domain="onnx")
def onnx_lp_pool(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y[n, c, o] = (sum of |X[n, c, o * stride + k * dilation - pad]| ** p over k within the image) ** (1 / p).

    p is an integer and defaults to 2. Other attributes: see ``onnx_window``.
    """
    require_at_least(op, "p", [op.get_int("p", 2)], 1)
    return float_pool_shape(op, x)


@onnx_lp_pool.reference
def onnx_lp_pool_reference(op: OperatorDef, x: Array) -> Sequence[Any]:
    p = op.get_int("p", 2)
    sums = fold(pool_of(op, TensorSpec.known(x)), np.abs(x.astype(np.float64)) ** p, 0, np.add)
    return [(sums ** (1 / p)).astype(x.dtype)]


@operator("GlobalLpPool", domain="onnx")
def global_lp_pool(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y[n, c, 1...] = (sum of |X[n, c, ...]| ** p) ** (1 / p); p is an integer and defaults to 2."""
    require(op, x.dtype.kind == "f" and x.ndim >= 3, "X must be images of floats", x)
    require_at_least(op, "p", [op.get_int("p", 2)], 1)
    return [x.with_shape((*x.shape[:2], *[1] * (x.ndim - 2)))]


@global_lp_pool.reference
def global_lp_pool_reference(op: OperatorDef, x: Array) -> Sequence[Any]:
    p = op.get_int("p", 2)
    sums = (np.abs(x.astype(np.float64)) ** p).sum(tuple(range(2, x.ndim)), keepdims=True)
    return [(sums ** (1 / p)).astype(x.dtype)]


@operator("MaxUnpool", domain="onnx", inputs=(2, 3))
def max_unpool(
    op: OperatorDef, x: TensorSpec, indices: TensorSpec, output_shape: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Y is zero except at the places where MaxPool found its maxima: Y.flat[i] = X there.

    The indices count in the flattened tensor of the size that kernel_shape, strides and pads imply. output_shape may
    make Y larger.
    """
    require(op, x.ndim >= 3 and indices.shape == x.shape, "X and the indices must have one shape", x, indices)
    require(op, indices.dtype == np.int64, "the indices must be int64", indices)
    if output_shape is None:
        return [x.with_shape(_unpooled(op, x))]
    shape = integers_of(op, output_shape, "output_shape")
    require(op, len(shape) == x.ndim, f"output_shape must have {x.ndim} values", output_shape)
    implied = _unpooled(op, x)
    require(op, all(n >= m for n, m in zip(shape, implied)), f"output_shape {shape} is smaller than {list(implied)}")
    return [x.with_shape(shape)]


def _unpooled(op: OperatorDef, x: TensorSpec) -> Sequence[int]:
    kernel = op.get_ints("kernel_shape")
    strides, pads = op.get_ints("strides", [1] * len(kernel)), op.get_ints("pads", [0] * 2 * len(kernel))
    if (len(kernel), len(strides), len(pads)) != (x.ndim - 2, x.ndim - 2, 2 * (x.ndim - 2)):
        raise ArgumentError(
            op,
            f"kernel_shape {list(kernel)}, strides {list(strides)} and pads {list(pads)} must fit "
            f"{x.ndim - 2} dimensions",
        )
    sizes = zip(x.shape[2:], strides, kernel, pads, pads[len(kernel) :])
    return (*x.shape[:2], *[(n - 1) * s + k - head - tail for n, s, k, head, tail in sizes])


@max_unpool.reference
def max_unpool_reference(
    op: OperatorDef, x: Array, indices: Array, output_shape: Optional[Array] = None
) -> Sequence[Any]:
    y = np.zeros(_unpooled(op, TensorSpec.known(x)), x.dtype)
    require(
        op,
        not x.size or (indices.min() >= 0 and indices.max() < y.size),
        f"the indices must be less than {y.size}, the number of elements that X was pooled from",
    )
    y.reshape(-1)[indices.reshape(-1)] = x.reshape(-1)
    if output_shape is None:
        return [y]
    larger = np.zeros([int(n) for n in output_shape], x.dtype)
    larger[tuple(slice(n) for n in y.shape)] = y
    return [larger]
