"""Convolution in any number of dimensions: Caffe2's Conv and ConvRelu, ONNX's Conv for what Caffe2's cannot express."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import per_output
from runtime_arm.operators.common.windows import (
    Window,
    caffe2_list,
    caffe2_window,
    channels_last,
    image_shape,
    onnx_window,
)
from runtime_arm.records import NamedTuple
from runtime_arm.registry.facts import Fusion, Kind
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


class Convolution(NamedTuple):
    """What a convolution computes, whatever the dialect of its arguments.

    X: (N, C, *image), weights: (M, C / group, *kernel), Y: (N, M, *output); with ``channels_last`` X: (N, *image, C),
    weights: (M, *kernel, C / group), Y: (N, *output, M).
    """

    window: Window
    group: int
    channels_last: bool
    batch: int
    channels: int
    filters: int

    @property
    def output_shape(self) -> Shape:
        return image_shape(self.batch, self.filters, self.window.output, self.channels_last)

    @property
    def terms(self) -> int:
        """The number of products summed in one output element."""
        return math.prod(self.window.kernel) * self.channels // self.group


MOST_KEPT = 1024
_kept: Dict[Tuple[int, Tuple[int, ...], Tuple[int, ...]], Tuple[OperatorDef, Convolution]] = {}


def convolution_of(op: OperatorDef, x: TensorSpec, w: TensorSpec) -> Convolution:
    """Reads and checks the arguments of a convolution of any domain.

    Domain "tflite" has ONNX's arguments and blobs (N, *image, C). Engines ask often, so the latest results are kept.
    """
    key = id(op), x.shape, w.shape
    of, convolution = _kept.get(key, (None, None))
    if of is not op or convolution is None:
        convolution = _read(op, x, w)
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        _kept[key] = op, convolution
    return convolution


def _read(op: OperatorDef, x: TensorSpec, w: TensorSpec) -> Convolution:
    require(op, w.ndim == x.ndim >= 3, "X and the weights need the same number of dimensions, at least 3", x, w)
    onnx = op.domain in ("onnx", "tflite")
    last = op.domain == "tflite" or (not onnx and channels_last(op))
    image, kernel = (x.shape[1:-1], w.shape[1:-1]) if last else (x.shape[2:], w.shape[2:])
    channels, depth = (x.shape[-1], w.shape[-1]) if last else (x.shape[1], w.shape[1])
    window = onnx_window(op, image, kernel) if onnx else caffe2_window(op, image)
    stated = window.kernel if onnx else tuple(caffe2_list(op, "kernel", "hw"))
    require(
        op, stated == kernel == window.kernel, f"the kernel must have the size of the weights, got {list(stated)}", w
    )
    group = op.get_int("group", 1)
    if group < 1:
        raise ArgumentError(op, f"group must be at least 1, got {group}")
    require(
        op,
        channels == depth * group,
        f"X has {channels} channels, but the weights take {depth} in each of {group} groups",
        x,
        w,
    )
    require(op, w.shape[0] % group == 0, f"{w.shape[0]} filters cannot be divided into {group} groups", w)
    return Convolution(window, group, last, x.shape[0], channels, w.shape[0])


def _shape(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec]) -> List[TensorSpec]:
    require(op, x.dtype.kind == "f" and w.dtype == x.dtype, "X and the weights must be floats of one type", x, w)
    convolution = convolution_of(op, x, w)
    if b is not None:
        require(
            op,
            b.shape == (convolution.filters,) and b.dtype == x.dtype,
            "the bias must have one value per filter",
            w,
            b,
        )
    return [TensorSpec(convolution.output_shape, x.dtype)]


@operator("Conv", inputs=(2, 3), multiply_adds=per_output(), kind=Kind.CONVOLUTION, fused="FusedConv")
def conv(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Y[n, m, o] = b[m] + sum over c, k of W[m, c, k] * X[n, c, o * stride + k * dilation - pad], 1-D to N-D.

    order NCHW: X (N, C, H, W), W (M, C/group, kh, kw); NHWC: X (N, H, W, C), W (M, kh, kw, C/group); b (M).
    Arguments: see ``caffe2_window``; group. Source: caffe2/operators/conv_op_impl.h.
    """
    specs = _shape(op, x, w, b)
    _refuse_as_nnpack(op, convolution_of(op, x, w))
    return specs


@operator(
    "ConvRelu",
    inputs=(2, 3),
    multiply_adds=per_output(),
    kind=Kind.CONVOLUTION,
    fusion=Fusion("Conv", activation="Relu"),
)
def conv_relu(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Y = max(Conv(X, W, b), 0)."""
    return conv.shape(op, x, w, b)  # type: ignore[return-value]


@operator("Conv", domain="onnx", inputs=(2, 3), multiply_adds=per_output(), kind=Kind.CONVOLUTION)
def onnx_conv(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Conv with ONNX's attributes, for auto_pad where the image's size is not known when the net is exported."""
    return _shape(op, x, w, b)


def _refuse_as_nnpack(op: OperatorDef, convolution: Convolution) -> None:
    """ArgumentError for arguments that Caffe2's NNPACK engine accepts at first and fails on while running."""
    window = convolution.window
    if "NNPACK" not in op.engine.split(",") or convolution.channels_last or window.ndim != 2:
        return
    if set(window.dilation) != {1}:
        raise ArgumentError(op, f"engine NNPACK takes no dilation, got {list(window.dilation)}")
    sizes = {"WINOGRAD": (3, 3), "FT8": (1, 8), "FT16": (1, 16), "DIRECT": (1, 1)}
    algorithm = op.get_str("algo", "AUTO")
    least, most = sizes.get(algorithm, (1, max(window.kernel)))
    if algorithm in sizes and (set(window.stride) != {1} or min(window.kernel) < least or max(window.kernel) > most):
        raise ArgumentError(
            op,
            f"NNPACK's {algorithm} takes stride 1 and kernels of {least} to {most}, "
            f"got stride {list(window.stride)}, kernel {list(window.kernel)}",
        )


def convolve(convolution: Convolution, x: Array, w: Array, b: Optional[Array]) -> Array:
    """The convolution by its definition, tap by tap, in float64. The result has the type of ``x``."""
    if convolution.channels_last:
        x, w = np.moveaxis(x, -1, 1), np.moveaxis(w, -1, 1)
    group, window = convolution.group, convolution.window
    inputs = x.astype(np.float64).reshape(x.shape[0], group, w.shape[1], *window.image)
    weights = w.astype(np.float64).reshape(group, w.shape[0] // group, *w.shape[1:])
    y = np.zeros((x.shape[0], group, weights.shape[1], *window.output))
    for tap in window.taps():
        y[tap.out] += np.einsum("gmc,ngc...->ngm...", weights[tap.kernel], inputs[tap.image])
    y = y.reshape(x.shape[0], convolution.filters, *window.output)
    if b is not None:
        y += b.reshape(-1, *[1] * window.ndim)
    return (np.moveaxis(y, 1, -1) if convolution.channels_last else y).astype(x.dtype)


@conv.reference
@onnx_conv.reference
def conv_reference(op: OperatorDef, x: Array, w: Array, b: Optional[Array] = None) -> Sequence[Any]:
    return [convolve(convolution_of(op, TensorSpec.known(x), TensorSpec.known(w)), x, w, b)]


@conv_relu.reference
def conv_relu_reference(op: OperatorDef, x: Array, w: Array, b: Optional[Array] = None) -> Sequence[Any]:
    return [np.maximum(conv_reference(op, x, w, b)[0], 0)]


conv.alias("Conv1D", "Conv2D", "Conv3D")
