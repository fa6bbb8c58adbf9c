"""ONNX's DeformConv, a convolution whose taps are moved by offsets from an input."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import per_output
from runtime_arm.operators.common.windows import Window, onnx_window, require_at_least
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


class Deformed(NamedTuple):
    """The convolution's window, its groups, and the number of channel groups that each share their offsets."""

    window: Window
    group: int
    offset_group: int


def _deformed_of(op: OperatorDef, x: TensorSpec, w: TensorSpec, offset: TensorSpec) -> Deformed:
    require(op, w.ndim == x.ndim >= 3, "X and the weights need the same number of dimensions, at least 3", x, w)
    window = onnx_window(op, x.shape[2:], w.shape[2:])
    group, shared = op.get_int("group", 1), op.get_int("offset_group", 1)
    require_at_least(op, "group and offset_group", [group, shared], 1)
    channels = w.shape[1] * group
    require(op, x.shape[1] == channels, f"X has {x.shape[1]} channels, but the weights take {channels}", x, w)
    require(op, w.shape[0] % group == 0, f"{w.shape[0]} filters cannot be divided into {group} groups", w)
    require(op, channels % shared == 0, f"{channels} channels cannot be divided into {shared} offset groups", x)
    wanted = (x.shape[0], shared * math.prod(window.kernel) * window.ndim, *window.output)
    require(op, offset.shape == wanted, f"the offsets must have the shape {list(wanted)}", offset)
    return Deformed(window, group, shared)


@operator("DeformConv", domain="onnx", inputs=(3, 5), multiply_adds=per_output())
def deform_conv(
    op: OperatorDef,
    x: TensorSpec,
    w: TensorSpec,
    offset: TensorSpec,
    b: Optional[TensorSpec] = None,
    mask: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """Y[n, m, o] = b[m] + sum over c, k of W[m, c, k] * mask[n, k, o] * X[n, c, o * stride + k * dilation - pad + d].

    d is the offset for n, k, o. X is interpolated linearly and is zero outside. offset: (N, offset_group * prod(kernel)
    * dimensions, *output), mask: (N, offset_group * prod(kernel), *output), 1 if left out. Source: Zhu et al.,
    arXiv:1811.11168.
    """
    same = all(spec is None or spec.dtype == x.dtype for spec in (w, offset, b, mask))
    require(op, x.dtype.kind == "f" and same, "the inputs must be floats of one type", x, w, offset, b, mask)
    window, _, shared = _deformed_of(op, x, w, offset)
    if b is not None:
        require(op, b.shape == w.shape[:1], "the bias must have one value per filter", w, b)
    if mask is not None:
        wanted = (x.shape[0], shared * math.prod(window.kernel), *window.output)
        require(op, mask.shape == wanted, f"the mask must have the shape {list(wanted)}", mask)
    return [x.with_shape((x.shape[0], w.shape[0], *window.output))]


def _interpolated(x: Array, points: Sequence[Array]) -> Array:
    """X (N, groups, C, *image) at the points, interpolated linearly, zero outside.

    points: one array (N, groups, P) per dimension.
    """
    image = x.shape[3:]
    flat = x.reshape(*x.shape[:3], math.prod(image))
    low = [np.floor(np.clip(p, -2, n + 1)).astype(np.int64) for p, n in zip(points, image)]
    total = np.zeros((*x.shape[:3], points[0].shape[-1]))
    for corner in product((0, 1), repeat=len(points)):
        index, weight = np.zeros(points[0].shape, np.int64), np.ones(points[0].shape)
        for p, first, up, size in zip(points, low, corner, image):
            pixel = first + up
            inside = (pixel >= 0) & (pixel < size)
            weight = weight * np.where(inside, np.abs(p - (first + 1 - up)), 0)
            index = index * size + np.clip(pixel, 0, size - 1)
        total += np.take_along_axis(flat, np.broadcast_to(index[:, :, None], total.shape), 3) * weight[:, :, None]
    return total


@deform_conv.reference
def deform_conv_reference(
    op: OperatorDef, x: Array, w: Array, offset: Array, b: Optional[Array] = None, mask: Optional[Array] = None
) -> Sequence[Any]:
    window, group, shared = _deformed_of(op, *[TensorSpec.known(v) for v in (x, w, offset)])
    batch, taps, pixels = len(x), math.prod(window.kernel), math.prod(window.output)
    wide = x.astype(np.float64).reshape(batch, shared, x.shape[1] // shared, *window.image)
    moves = offset.astype(np.float64).reshape(batch, shared, taps, window.ndim, pixels)
    masks = np.ones(()) if mask is None else mask.astype(np.float64).reshape(batch, shared, taps, pixels)
    weights = w.astype(np.float64).reshape(group, w.shape[0] // group, w.shape[1], taps)
    grid = np.indices(window.output).reshape(window.ndim, pixels)
    y = np.zeros((batch, group, weights.shape[1], pixels))
    for tap, position in enumerate(np.ndindex(*window.kernel)):
        corner = [k * d - head for k, d, head in zip(position, window.dilation, window.head)]
        points = [grid[i] * window.stride[i] + corner[i] + moves[:, :, tap, i] for i in range(window.ndim)]
        samples = _interpolated(wide, points) * (masks if mask is None else masks[:, :, None, tap])
        y += np.einsum("gmc,ngcp->ngmp", weights[..., tap], samples.reshape(batch, group, w.shape[1], pixels))
    y = y.reshape(batch, w.shape[0], *window.output)
    if b is not None:
        y += b.reshape(-1, *[1] * window.ndim)
    return [y.astype(x.dtype)]
