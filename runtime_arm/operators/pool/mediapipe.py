"""MediaPipe's pool that also returns the places of its maxima, and its inverse. Pictures are (N, H, W, C).

Source: MediaPipe, util/tflite/operations/max_pool_argmax.cc and max_unpooling.cc.
"""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window, onnx_window
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

_NUDGE = np.float32(0.1)  # added to indices, which are floats that the inverse truncates
_LOWEST = np.finfo(np.float32).min


def _window(op: OperatorDef, x: TensorSpec) -> Window:
    """kernel_shape, strides and auto_pad as in ONNX."""
    require(op, x.ndim == 4, "X must be (N, H, W, C)", x)
    return onnx_window(op, x.shape[1:3])


@operator("MaxPoolWithPlaces", domain="tflite", outputs=2, dtypes=("float32",))
def max_pool_with_places(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """MaxPoolingWithArgmax2D: the maximum of each window, and the place in the window of the first one, in float32:
    row times the kernel's width, plus column, plus 0.1. Without a number above the lowest float the place is the first.
    """
    window = _window(op, x)
    return [x.with_shape((x.shape[0], *window.output, x.shape[3]))] * 2


@max_pool_with_places.reference
def max_pool_with_places_reference(op: OperatorDef, x: Array) -> List[Any]:
    window = _window(op, TensorSpec.known(x))
    pixels, shape = np.moveaxis(x, -1, 1), (x.shape[0], x.shape[3], *window.output)
    most, place = np.full(shape, _LOWEST, np.float32), np.zeros(shape, np.float32)
    for tap in window.taps():
        row, column = tap.kernel[-2:]
        met = pixels[tap.image]
        larger = met > most[tap.out]
        most[tap.out] = np.where(larger, met, most[tap.out])
        place[tap.out] = np.where(larger, np.float32(row * window.kernel[1] + column), place[tap.out])
    return [np.ascontiguousarray(np.moveaxis(part, 1, -1)) for part in (most, place + _NUDGE)]


def _unpooled(op: OperatorDef, x: TensorSpec) -> Tuple[Tuple[int, ...], Tuple[int, ...], Tuple[int, ...]]:
    """Kernel, strides, and how far the first window begins before the picture."""
    kernel, strides = op.get_ints("kernel_shape"), op.get_ints("strides")
    if len(kernel) != 2 or len(strides) != 2 or min(*kernel, *strides) < 1:
        raise ArgumentError(op, f"kernel_shape and strides must be two positive numbers, got {kernel} and {strides}")
    require(op, x.ndim == 4, "X must be (N, H, W, C)", x)
    heads = tuple(max((n - 1) * s + k - n * k, 0) // 2 for n, k, s in zip(x.shape[1:3], kernel, strides))
    return tuple(kernel), tuple(strides), heads


@operator("MaxUnpool", domain="tflite", inputs=2, dtypes=("float32",))
def max_unpool(op: OperatorDef, x: TensorSpec, places: TensorSpec) -> List[TensorSpec]:
    """MaxUnpooling2D: Y (N, H kh, W kw, C) has each number of X at its place in its window, and is 0 elsewhere.

    kernel_shape, strides: of the pool. Of numbers that meet, the last one stays; places outside the picture are left
    out.
    """
    kernel, _, _ = _unpooled(op, x)
    require(op, places.shape == x.shape and places.dtype == np.float32, "the places must be like X", x, places)
    n, height, width, channels = x.shape
    return [x.with_shape((n, height * kernel[0], width * kernel[1], channels))]


@max_unpool.reference
def max_unpool_reference(op: OperatorDef, x: Array, places: Array) -> List[Any]:
    spec = TensorSpec.known(x)
    (n, height, width, channels), (kernel, strides, heads) = x.shape, _unpooled(op, spec)
    y = np.zeros((n, height * kernel[0], width * kernel[1], channels), np.float32)
    limit = np.float32(1 << 30)
    index = np.trunc(np.fmin(np.fmax(places, -limit), limit)).astype(np.int64)
    size = np.abs(index)
    row, column = np.sign(index) * (size // kernel[1]), np.sign(index) * (size % kernel[1])
    row = row + np.arange(height)[:, None, None] * strides[0] - heads[0]
    column = column + np.arange(width)[:, None] * strides[1] - heads[1]
    inside = (row >= 0) & (row < y.shape[1]) & (column >= 0) & (column < y.shape[2])
    sample, _, _, channel = np.nonzero(inside)
    y[sample, row[inside], column[inside], channel] = x[inside]
    return [y]
