"""Caffe2's LC, a convolution that has its own filters for every output position."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import per_row
from runtime_arm.operators.common.windows import Window, caffe2_window, channels_last, require_at_least
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


class LocalFilters(NamedTuple):
    """The window, the number of groups and the number of filters."""

    window: Window
    group: int
    filters: int


def filters_of(op: OperatorDef, x: TensorSpec, w: TensorSpec) -> LocalFilters:
    """What the arguments and shapes of an LC say. ShapeError if they do not fit."""
    ndim = x.ndim - 2
    require(
        op,
        w.ndim == x.ndim + ndim >= 4,
        "the weights must have one more dimension for each spatial dimension of X",
        x,
        w,
    )
    last = channels_last(op)
    window = caffe2_window(op, x.shape[1:-1] if last else x.shape[2:])
    group, filters = op.get_int("group", 1), w.shape[ndim]
    require_at_least(op, "group", [group], 1)
    require(op, w.shape[:ndim] == window.output, f"there must be filters for {list(window.output)} positions", w)
    kernel, depth = (w.shape[ndim + 1 : -1], w.shape[-1]) if last else (w.shape[ndim + 2 :], w.shape[ndim + 1])
    require(op, kernel == window.kernel, f"the kernel must have the size of the weights, got {list(window.kernel)}", w)
    channels = x.shape[-1] if last else x.shape[1]
    require(
        op,
        channels == depth * group,
        f"X has {channels} channels, but the weights take {depth} in each of {group} groups",
        x,
        w,
    )
    require(op, filters % group == 0, f"{filters} filters cannot be divided into {group} groups", w)
    return LocalFilters(window, group, filters)


@operator("LC", inputs=(2, 3), multiply_adds=per_row(1, dims=1))
def lc(op: OperatorDef, x: TensorSpec, w: TensorSpec, b: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Y[n, m, o] = b[o, m] + sum over c, k of W[o, m, c, k] * X[n, c, o * stride + k * dilation - pad], 1-D to N-D.

    order NCHW: X (N, C, H, W), W (*output, M, C/group, kh, kw); NHWC: X (N, H, W, C), W (*output, M, kh, kw, C/group);
    b (*output, M). Arguments as for Conv. Source: caffe2/operators/locally_connected_op_impl.h.
    """
    require(op, x.dtype.kind == "f" and w.dtype == x.dtype, "X and the weights must be floats of one type", x, w)
    window, _, filters = filters_of(op, x, w)
    if b is not None:
        fits = b.shape == (*window.output, filters) and b.dtype == x.dtype
        require(op, fits, "the bias must have one value per position and filter", w, b)
    if channels_last(op):
        return [x.with_shape((x.shape[0], *window.output, filters))]
    return [x.with_shape((x.shape[0], filters, *window.output))]


@lc.reference
def lc_reference(op: OperatorDef, x: Array, w: Array, b: Optional[Array] = None) -> Sequence[Any]:
    window, group, filters = filters_of(op, TensorSpec.known(x), TensorSpec.known(w))
    dtype, ndim, last = x.dtype, window.ndim, channels_last(op)
    if last:
        x, w = np.moveaxis(x, -1, 1), np.moveaxis(w, -1, ndim + 1)
    pixels = x.astype(np.float64).reshape(len(x), group, w.shape[ndim + 1], *window.image)
    # (group, M / group, C / group, *kernel, *output)
    weights = np.moveaxis(w.astype(np.float64), range(ndim), range(-ndim, 0))
    weights = weights.reshape(group, filters // group, *weights.shape[1:])
    y = np.zeros((len(x), group, filters // group, *window.output))
    for tap in window.taps():
        at = weights[(slice(None),) * 3 + tap.kernel[1:]]
        y[tap.out] += np.einsum("gmc...,ngc...->ngm...", at[tap.out], pixels[tap.image])
    y = y.reshape(len(x), filters, *window.output)
    if b is not None:
        y += np.moveaxis(b, -1, 0)
    return [(np.moveaxis(y, 1, -1) if last else y).astype(dtype)]


lc.alias("LC1D", "LC2D", "LC3D")
