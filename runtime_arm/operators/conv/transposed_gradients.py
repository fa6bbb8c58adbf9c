"""The gradient of Caffe2's ConvTranspose. Source: caffe2/operators/conv_transpose_op_impl.h."""

from __future__ import annotations

from math import prod
from typing import Any, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dialects import forward_form
from runtime_arm.operators.common.multiply_adds import gradient_products
from runtime_arm.operators.conv.transposed import Transposed, transposed_of
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("ConvTransposeGradient", inputs=3, outputs=(1, 3), multiply_adds=gradient_products)
def conv_transpose_gradient(op: OperatorDef, x: TensorSpec, w: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dW, db and dX of Y = ConvTranspose(X, W, b), with its arguments; dX may be left out.

    dX[n, c, i] = sum of W[c, m, k] dY[n, m, i * stride + k - pad], a convolution of dY;
    dW[c, m, k] = sum of X[n, c, i] dY[n, m, i * stride + k - pad], db[m] = sum of dY. With no_bias=1 there is no db.
    """
    require(op, x.dtype.kind == "f" and x.dtype == w.dtype == dy.dtype, "inputs must be floats of one type", x, w, dy)
    transposed = transposed_of(forward_form(op), x, w)
    shape = transposed.output_shape
    require(op, dy.shape == shape, f"dY must have the shape {list(shape)} of the output", x, w, dy)
    return [w, x] if op.get_bool("no_bias") else [w, w.with_shape((transposed.filters,)), x]


def gradients64(transposed: Transposed, x: Array, w: Array, dy: Array) -> List[Array]:
    """dW, db and dX by their definition, tap by tap, in float64."""
    if transposed.channels_last:
        x, w, dy = (np.moveaxis(array, -1, 1) for array in (x, w, dy))
    batch, group, window = x.shape[0], transposed.group, transposed.window
    depth, filters = transposed.channels // group, w.shape[1]
    inputs = x.astype(np.float64).reshape(batch, group, depth, *window.output)
    weights = w.astype(np.float64).reshape(group, depth, *w.shape[1:])
    errors = dy.astype(np.float64).reshape(batch, group, filters, *window.image)
    dw, dx = np.zeros(weights.shape), np.zeros(inputs.shape)
    for tap in window.taps():
        pixels, seen = inputs[tap.out], errors[tap.image]
        size = prod(pixels.shape[3:])
        columns = pixels.reshape(batch, group, depth, size), seen.reshape(batch, group, filters, size)
        dw[tap.kernel] += np.einsum("ngcp,ngmp->gcm", *columns)
        dx[tap.out] += np.einsum("gcm,ngmp->ngcp", weights[tap.kernel], columns[1]).reshape(pixels.shape)
    db = errors.sum(axis=(0, *range(3, errors.ndim))).reshape(-1)
    dw, dx = dw.reshape(w.shape), dx.reshape(x.shape)
    return [np.moveaxis(dw, 1, -1), db, np.moveaxis(dx, 1, -1)] if transposed.channels_last else [dw, db, dx]


@conv_transpose_gradient.reference
def conv_transpose_gradient_reference(op: OperatorDef, x: Array, w: Array, dy: Array) -> Sequence[Any]:
    dw, db, dx = gradients64(transposed_of(forward_form(op), TensorSpec.known(x), TensorSpec.known(w)), x, w, dy)
    return [result.astype(x.dtype) for result in ([dw, dx] if op.get_bool("no_bias") else [dw, db, dx])]


conv_transpose_gradient.alias("ConvTransposeGradient", domain="armnet")
