"""Transposed convolution: Caffe2's, over two dimensions, and ONNX's, over any number."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import per_input
from runtime_arm.operators.common.windows import (
    CAFFE_POOLING,
    NOTSET,
    Ints,
    Window,
    caffe2_list,
    channels_last,
    image_shape,
    onnx_auto_pad,
    require_at_least,
    split_pads,
)
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


class Transposed(NamedTuple):
    """What a transposed convolution computes, independent of the dialect of its arguments.

    ``window`` is that of the convolution from Y to X: its image is Y's, its output is X's. X: (N, C, *output), weights:
    (C, M / group, *kernel), Y: (N, M, *image); with ``channels_last`` the channels of all three come last.
    """

    window: Window
    group: int
    channels_last: bool
    batch: int
    channels: int
    filters: int

    @property
    def output_shape(self) -> Shape:
        return image_shape(self.batch, self.filters, self.window.image, self.channels_last)

    @property
    def width(self) -> int:
        """The number of elements of Y that one pixel of X contributes to."""
        return math.prod(self.window.kernel) * self.filters


def transposed_of(op: OperatorDef, x: TensorSpec, w: TensorSpec) -> Transposed:
    """Reads and checks the arguments of a transposed convolution of either domain."""
    require(op, w.ndim == x.ndim >= 3, "X and the weights need the same number of dimensions, at least 3", x, w)
    last = op.domain != "onnx" and channels_last(op)
    image, kernel = (x.shape[1:-1], w.shape[1:-1]) if last else (x.shape[2:], w.shape[2:])
    channels, width = (x.shape[-1], w.shape[-1]) if last else (x.shape[1], w.shape[1])
    window = _onnx_window(op, image, kernel) if op.domain == "onnx" else _caffe2_window(op, image)
    require(op, window.kernel == kernel, f"the kernel must have the size of the weights, got {list(window.kernel)}", w)
    group = op.get_int("group", 1)
    require_at_least(op, "group", [group], 1)
    require(op, w.shape[0] == channels, f"X has {channels} channels, but the weights take {w.shape[0]}", x, w)
    require(op, channels % group == 0, f"{channels} channels cannot be divided into {group} groups", x)
    return Transposed(window, group, last, x.shape[0], channels, width * group)


def _caffe2_window(op: OperatorDef, image: Ints) -> Window:
    """kernel, stride, pad, adj as for Conv. legacy_pad 1 and 2 mean no padding; dilation is ignored."""
    require(op, len(image) == 2, f"the image must have two dimensions, got {len(image)}")
    legacy, pads = op.get_int("legacy_pad", NOTSET), caffe2_list(op, "pad", "tlbr")
    if not NOTSET <= legacy < CAFFE_POOLING:
        raise ArgumentError(op, f"legacy_pad must be 0, 1 or 2, got {legacy}")
    if legacy != NOTSET and pads:
        raise ArgumentError(op, f"legacy_pad {legacy} means no padding: pads must not be given")
    kernel, stride = caffe2_list(op, "kernel", "hw"), caffe2_list(op, "stride", "hw") or [1, 1]
    adj = caffe2_list(op, "adj", "hw") or [0, 0]
    _check(op, kernel=kernel, stride=stride, pad=pads or [0] * 4, adj=adj)
    heads, tails = (pads or [0] * 4)[:2], (pads or [0] * 4)[2:]
    sizes = [(n - 1) * s + k + a for n, s, k, a in zip(image, stride, kernel, adj)]
    return _window(op, sizes, kernel, stride, (1, 1), heads, tails, image)


def _check(op: OperatorDef, **lists: Sequence[int]) -> None:
    for name, values in lists.items():
        count = 4 if name == "pad" else 2
        if len(values) != count:
            raise ArgumentError(op, f"{name} must have {count} values for 2 dimensions, got {list(values)}")
        require_at_least(op, name, values, 0 if name in ("pad", "adj") else 1)


def _window(
    op: OperatorDef,
    padded: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    heads: Sequence[int],
    tails: Sequence[int],
    output: Sequence[int],
) -> Window:
    """The window whose image is the padded image without the pads."""
    image = [size - head - tail for size, head, tail in zip(padded, heads, tails)]
    require(op, all(n >= 1 for n in image), f"pads {[*heads, *tails]} remove all of {list(padded)} pixels")
    return Window(*map(tuple, (image, kernel, stride, dilation, heads, tails, output)))


def _onnx_window(op: OperatorDef, image: Ints, kernel: Ints) -> Window:
    """strides, dilations, pads, output_padding, auto_pad, and output_shape, which determines the pads."""
    ndim = len(image)
    strides, dilations = op.get_ints("strides", (1,) * ndim), op.get_ints("dilations", (1,) * ndim)
    extra, pads = op.get_ints("output_padding", (0,) * ndim), op.get_ints("pads", (0,) * 2 * ndim)
    wanted = op.get_ints("output_shape")
    lengths = [len(strides), len(dilations), len(extra), len(pads) / 2, len(wanted) or ndim]
    if set(lengths) != {ndim}:
        raise ArgumentError(op, f"strides, dilations, output_padding, pads and output_shape must fit {ndim} dimensions")
    require_at_least(op, "strides and dilations", strides + dilations, 1)
    require_at_least(op, "pads and output_padding", pads + extra, 0)
    padded = [(n - 1) * s + d * (k - 1) + 1 + a for n, s, d, k, a in zip(image, strides, dilations, kernel, extra)]
    auto = onnx_auto_pad(op)
    heads, tails = pads[:ndim], pads[ndim:]
    if auto == "VALID":
        heads = tails = (0,) * ndim
    if wanted or auto.startswith("SAME"):
        sizes = wanted or tuple(n * s for n, s in zip(image, strides))
        needed = [max(size - n, 0) for size, n in zip(padded, sizes)]
        heads, tails = split_pads(needed, auto if auto == "SAME_UPPER" else "SAME_LOWER")
        padded = [n + head + tail for n, head, tail in zip(sizes, heads, tails)]
    return _window(op, padded, kernel, strides, dilations, heads, tails, image)


def _shape(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec]) -> List[TensorSpec]:
    require(op, x.dtype.kind == "f" and w.dtype == x.dtype, "X and the weights must be floats of one type", x, w)
    transposed = transposed_of(op, x, w)
    if b is not None:
        require(
            op, b.shape == (transposed.filters,) and b.dtype == x.dtype, "the bias must have one value per filter", w, b
        )
    return [TensorSpec(transposed.output_shape, x.dtype)]


@operator("ConvTranspose", inputs=(2, 3), multiply_adds=per_input, fused="FusedConvTranspose")
def conv_transpose(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Y[n, m, i * stride + k - pad] = b[m] + the sum over c, i, k of X[n, c, i] * W[c, m, k], over two dimensions.

    order NCHW: X (N, C, H, W), W (C, M/group, kh, kw); NHWC: X (N, H, W, C), W (C, kh, kw, M/group). Y has (in - 1) *
    stride + kernel + adj - pads pixels. Source: caffe2/operators/conv_transpose_op_impl.h.
    """
    return _shape(op, x, w, b)


@operator("ConvTranspose", domain="onnx", inputs=(2, 3), multiply_adds=per_input)
def onnx_conv_transpose(
    op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """ConvTranspose over any number of dimensions, with ONNX's attributes.

    strides, dilations, pads, output_padding, output_shape, auto_pad.
    """
    return _shape(op, x, w, b)


@conv_transpose.reference
@onnx_conv_transpose.reference
def conv_transpose_reference(op: OperatorDef, x: Array, w: Array, b: Optional[Array] = None) -> Sequence[Any]:
    transposed = transposed_of(op, TensorSpec.known(x), TensorSpec.known(w))
    dtype, group, window = x.dtype, transposed.group, transposed.window
    if transposed.channels_last:
        x, w = np.moveaxis(x, -1, 1), np.moveaxis(w, -1, 1)
    depth = transposed.channels // group
    pixels = x.astype(np.float64).reshape(x.shape[0], group, depth, *window.output)
    weights = w.astype(np.float64).reshape(group, depth, *w.shape[1:])
    y = np.zeros((x.shape[0], group, w.shape[1], *window.image))
    for tap in window.taps():
        y[tap.image] += np.einsum("gcm,ngc...->ngm...", weights[tap.kernel], pixels[tap.out])
    y = y.reshape(x.shape[0], transposed.filters, *window.image)
    if b is not None:
        y += b.reshape(-1, *[1] * window.ndim)
    return [(np.moveaxis(y, 1, -1) if transposed.channels_last else y).astype(dtype)]
