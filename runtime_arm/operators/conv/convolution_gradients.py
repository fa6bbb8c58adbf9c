"""The gradient of Caffe2's Conv, in any number of dimensions. Source: caffe2/operators/conv_op_impl.h."""

from __future__ import annotations

from math import prod
from typing import Any, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dialects import forward_form
from runtime_arm.operators.common.multiply_adds import gradient_products
from runtime_arm.operators.conv.convolution import Convolution, convolution_of
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("ConvGradient", inputs=3, outputs=(1, 3), multiply_adds=gradient_products)
def conv_gradient(op: OperatorDef, x: TensorSpec, w: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dW, db and dX of Y = Conv(X, W, b), with the arguments of Conv; dX may be left out.

    dW[m, c, k] = sum of dY[n, m, o] X[n, c, o * stride + k * dilation - pad], db[m] = sum of dY[n, m, o],
    dX[n, c, i] = sum of W[m, c, k] dY[n, m, o] over o * stride + k * dilation - pad = i. With no_bias=1 there is no db.
    """
    require(op, x.dtype.kind == "f" and x.dtype == w.dtype == dy.dtype, "inputs must be floats of one type", x, w, dy)
    convolution = convolution_of(forward_form(op), x, w)
    shape = convolution.output_shape
    require(op, dy.shape == shape, f"dY must have the shape {list(shape)} of the convolution's output", x, w, dy)
    return [w, x] if op.get_bool("no_bias") else [w, w.with_shape((convolution.filters,)), x]


def gradients64(convolution: Convolution, x: Array, w: Array, dy: Array) -> List[Array]:
    """dW, db and dX by their definition, tap by tap, in float64."""
    if convolution.channels_last:
        x, w, dy = (np.moveaxis(array, -1, 1) for array in (x, w, dy))
    batch, group, window = x.shape[0], convolution.group, convolution.window
    filters, depth = w.shape[0] // group, w.shape[1]
    inputs = x.astype(np.float64).reshape(batch, group, depth, *window.image)
    weights = w.astype(np.float64).reshape(group, filters, *w.shape[1:])
    errors = dy.astype(np.float64).reshape(batch, group, filters, *window.output)
    dw, dx = np.zeros(weights.shape), np.zeros(inputs.shape)
    for tap in window.taps():
        seen, pixels = errors[tap.out], inputs[tap.image]
        size = prod(seen.shape[3:])
        columns = seen.reshape(batch, group, filters, size), pixels.reshape(batch, group, depth, size)
        dw[tap.kernel] += np.einsum("ngmp,ngcp->gmc", *columns)
        dx[tap.image] += np.einsum("gmc,ngmp->ngcp", weights[tap.kernel], columns[0]).reshape(pixels.shape)
    db = errors.sum(axis=(0, *range(3, errors.ndim))).reshape(-1)
    dw, dx = dw.reshape(w.shape), dx.reshape(x.shape)
    return [np.moveaxis(dw, 1, -1), db, np.moveaxis(dx, 1, -1)] if convolution.channels_last else [dw, db, dx]


@conv_gradient.reference
def conv_gradient_reference(op: OperatorDef, x: Array, w: Array, dy: Array) -> Sequence[Any]:
    dw, db, dx = gradients64(convolution_of(forward_form(op), TensorSpec.known(x), TensorSpec.known(w)), x, w, dy)
    return [result.astype(x.dtype) for result in ([dw, dx] if op.get_bool("no_bias") else [dw, db, dx])]


conv_gradient.alias("Conv1DGradient", "Conv2DGradient", "Conv3DGradient")
conv_gradient.alias("ConvGradient", domain="armnet")
