"""The gradient of Caffe2's LC. Source: caffe2/operators/locally_connected_op_impl.h."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.multiply_adds import per_row
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.operators.conv.locally_connected import filters_of, lc
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("LCGradient", inputs=3, outputs=(2, 3), dtypes=FLOATS, multiply_adds=per_row(1, 1, dims=1))
def lc_gradient(op: OperatorDef, x: TensorSpec, w: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dW, db and dX of LC; with ``no_bias`` dW and dX. db[o, m] is the sum of dY over the batch; dW and dX sum the
    products of dY with what the weight, or the pixel, was multiplied with."""
    require(op, [dy] == lc.shape(op, x, w), "dY must have the shape of Y", x, w, dy)
    if op.get_bool("no_bias"):
        return [w, x]
    window, _, filters = filters_of(op, x, w)
    return [w, w.with_shape((*window.output, filters)), x]


@lc_gradient.reference
def lc_gradient_reference(op: OperatorDef, x: Array, w: Array, dy: Array) -> List[Any]:
    window, group, filters = filters_of(op, TensorSpec.known(x), TensorSpec.known(w))
    ndim, last, dtype = window.ndim, channels_last(op), x.dtype
    if last:
        x, w, dy = np.moveaxis(x, -1, 1), np.moveaxis(w, -1, ndim + 1), np.moveaxis(dy, -1, 1)
    depth = w.shape[ndim + 1]
    pixels = x.astype(np.float64).reshape(len(x), group, depth, *window.image)
    slopes = dy.astype(np.float64).reshape(len(x), group, filters // group, *window.output)
    # (group, M / group, C / group, *kernel, *output)
    weights = np.moveaxis(w.astype(np.float64), range(ndim), range(-ndim, 0))
    weights = weights.reshape(group, filters // group, *weights.shape[1:])
    dw: Array = np.zeros(weights.shape)
    dx: Array = np.zeros(pixels.shape)
    for tap in window.taps():
        at = (slice(None),) * 3 + tap.kernel[1:]
        dw[at][tap.out] += np.einsum("ngm...,ngc...->gmc...", slopes[tap.out], pixels[tap.image])
        dx[tap.image] += np.einsum("gmc...,ngm...->ngc...", weights[at][tap.out], slopes[tap.out])
    dw = np.moveaxis(dw.reshape(filters, *dw.shape[2:]), range(-ndim, 0), range(ndim))
    dx = dx.reshape(x.shape)
    if last:
        dw, dx = np.moveaxis(dw, ndim + 1, -1), np.moveaxis(dx, 1, -1)
    db = np.moveaxis(slopes.sum(axis=0).reshape(filters, *window.output), 0, -1)
    results = [dw, dx] if op.get_bool("no_bias") else [dw, db, dx]
    return [result.astype(dtype) for result in results]


lc_gradient.alias("LC1DGradient", "LC2DGradient", "LC3DGradient")
