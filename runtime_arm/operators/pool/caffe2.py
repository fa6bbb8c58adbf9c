"""Caffe2's pools: the maximum, the mean or the p-norm of the pixels under a window."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import (
    Window,
    caffe2_list,
    caffe2_window,
    channels_last,
    image_shape,
    onnx_window,
)
from runtime_arm.records import NamedTuple
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


class Pool(NamedTuple):
    """What a pool computes, independent of the dialect of its arguments.

    X: (N, C, *image), Y: (N, C, *output); with ``channels_last`` X: (N, *image, C), Y: (N, *output, C).
    """

    window: Window
    channels_last: bool
    batch: int
    channels: int
    count_padding: bool

    @property
    def output_shape(self) -> Shape:
        return image_shape(self.batch, self.channels, self.window.output, self.channels_last)

    @property
    def divisors(self) -> Array:
        """The divisors of the sums, float64 (*output)."""
        return self.window.counts(self.count_padding, signed=True).astype(np.float64)


def pool_of(op: OperatorDef, x: TensorSpec) -> Pool:
    """Reads and checks the arguments of a pool of either domain."""
    require(op, x.ndim >= 3, "X needs a batch, channels and an image", x)
    if op.domain in ("onnx", "tflite"):
        last = op.domain == "tflite"
        window = onnx_window(op, x.shape[1:-1] if last else x.shape[2:])
        pads: Sequence[int] = op.get_ints("pads")
    else:
        last = channels_last(op)
        window = caffe2_window(op, x.shape[1:-1] if last else x.shape[2:], pool=True)
        pads = caffe2_list(op, "pad", "tlbr")
        if set(window.dilation) != {1}:
            raise ArgumentError(op, f"dilation must be 1 for a pool, got {list(window.dilation)}")
    require(op, min(window.image) > 0, "X has no pixels", x)
    reach = [d * (k - 1) + 1 for d, k in zip(window.dilation, window.kernel)]
    if any(pad >= r for pad, r in zip(pads, reach * 2)):
        raise ArgumentError(op, f"pads must be smaller than the kernel, got {list(pads)} for {list(window.kernel)}")
    channels = x.shape[-1] if last else x.shape[1]
    return Pool(window, last, x.shape[0], channels, op.get_bool("count_include_pad"))


def pool_shape(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The spec of a pool's output."""
    return [TensorSpec(pool_of(op, x).output_shape, x.dtype)]


def float_pool_shape(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The spec of the output of a pool that takes floats only."""
    require(op, x.dtype.kind == "f", "X must hold floats", x)
    return pool_shape(op, x)


@operator("MaxPool", kind=Kind.MAX_POOL)
def max_pool(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y[n, c, o] = the maximum of X[n, c, o * stride + k - pad] over k within the image; NCHW or NHWC, 1-D to N-D.

    Arguments: see ``caffe2_window``. Pads must be smaller than the kernel, and there is no dilation. A window without
    pixels (legacy_pad 3 makes some) gives the lowest finite number. Source: caffe2/operators/pool_op.cc.
    """
    return float_pool_shape(op, x)


@operator("AveragePool", kind=Kind.AVERAGE_POOL)
def average_pool(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y[n, c, o] = the mean of X[n, c, o * stride + k - pad] over k within the image. Arguments as for MaxPool.

    count_include_pad: the divisor is the size of the kernel.
    """
    return float_pool_shape(op, x)


@operator("LpPool")
def lp_pool(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y[n, c, o] = (sum of |X[n, c, o * stride + k - pad]| ** p over k within the image) ** (1 / p).

    p defaults to 2.0. Other arguments as for MaxPool. Source: caffe2/operators/lp_pool_op.cc.
    """
    op.get_float("p", 2.0)
    require(op, x.ndim == 4 and x.dtype == np.float32, "X must be a picture of four dimensions, of float32", x)
    return float_pool_shape(op, x)


def fold(pool: Pool, x: Array, start: Any, combine: Callable[[Array, Array], Array]) -> Array:
    """Combines the pixels under each window, tap by tap. X and Y have the pool's layout."""
    if pool.channels_last:
        x = np.moveaxis(x, -1, 1)
    y = np.full((*x.shape[:2], *pool.window.output), start, x.dtype)
    for tap in pool.window.taps():
        y[tap.out] = combine(y[tap.out], x[tap.image])
    return np.moveaxis(y, 1, -1) if pool.channels_last else y


def below_all(dtype: Any) -> Any:
    """The lowest number of the type; minus infinity for floats."""
    return np.iinfo(dtype).min if np.dtype(dtype).kind in "iu" else -np.inf


def of_no_pixel(dtype: Any) -> Any:
    """What MaxPool gives for a window without pixels: the lowest finite number."""
    return np.iinfo(dtype).min if np.dtype(dtype).kind in "iu" else np.finfo(dtype).min


@max_pool.reference
def max_pool_reference(op: OperatorDef, x: Array) -> Sequence[Any]:
    pool = pool_of(op, TensorSpec.known(x))
    y = fold(pool, x, below_all(x.dtype), np.maximum)
    counts = pool.window.counts()
    empty = (counts[..., None] if pool.channels_last else counts) == 0
    return [np.where(empty, x.dtype.type(of_no_pixel(x.dtype)), y)]


@average_pool.reference
def average_pool_reference(op: OperatorDef, x: Array) -> Sequence[Any]:
    pool = pool_of(op, TensorSpec.known(x))
    sums = fold(pool, x.astype(np.float64), 0, np.add)
    return [(sums / (pool.divisors[..., None] if pool.channels_last else pool.divisors)).astype(x.dtype)]


@lp_pool.reference
def lp_pool_reference(op: OperatorDef, x: Array) -> Sequence[Any]:
    p = op.get_float("p", 2.0)
    sums = fold(pool_of(op, TensorSpec.known(x)), np.abs(x.astype(np.float64)) ** p, 0, np.add)
    return [(sums ** (1 / p)).astype(x.dtype)]


max_pool.alias("MaxPool1D", "MaxPool2D", "MaxPool3D")
average_pool.alias("AveragePool1D", "AveragePool2D", "AveragePool3D")
