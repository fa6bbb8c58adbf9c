"""The gradients of Caffe2's FC and FCTransposed. Source: caffe2/operators/fully_connected_op.h."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import gradient_products
from runtime_arm.operators.linear.caffe2 import blas_multiplies, flat_shape
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def _shape(op: OperatorDef, x: TensorSpec, w: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    require(op, x.dtype.kind == "f" and x.dtype == w.dtype == dy.dtype, "inputs must be floats of one type", x, w, dy)
    rows, terms = flat_shape(op, x, "axis")
    width, depth = flat_shape(op, w, "axis_w")
    if op.type == "FCTransposedGradient":
        width, depth = depth, width
    require(op, terms == depth, f"a row of X has {terms} elements, but the weights take {depth}", x, w)
    require(op, dy.size == rows * width, f"dY must have {rows} rows of {width} elements", x, w, dy)
    return [w, w.with_shape((width,)), x]


@operator("FCGradient", inputs=3, outputs=(2, 3), multiply_adds=gradient_products)
def fc_gradient(op: OperatorDef, x: TensorSpec, w: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dW = dY^T X, db = the sum of dY's rows, dX = dY W, as matrices with ``axis`` and ``axis_w`` as for FC.

    dX may be left out.
    """
    return _shape(op, x, w, dy)


@operator("FCTransposedGradient", inputs=3, outputs=(2, 3), multiply_adds=gradient_products)
def fc_transposed_gradient(op: OperatorDef, x: TensorSpec, w: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dW = X^T dY, db = the sum of dY's rows, dX = dY W^T: as FCGradient, but W is (K, N)."""
    return _shape(op, x, w, dy)


def _matrices(op: OperatorDef, x: Array, w: Array, dy: Array) -> Tuple[Array, Array, Array]:
    """X (rows, K), W (N, K) or for FCTransposed its transpose, dY (rows, N)."""
    flat = flat_shape(op, TensorSpec(x.shape, x.dtype), "axis")
    weights: Array = w.reshape(flat_shape(op, TensorSpec(w.shape, w.dtype), "axis_w"))
    if op.type == "FCTransposedGradient":
        weights = weights.T
    return x.reshape(flat), weights, dy.reshape(flat[0], weights.shape[0])


@fc_gradient.reference
@fc_transposed_gradient.reference
def fc_gradient_reference(op: OperatorDef, x: Array, w: Array, dy: Array) -> Sequence[Any]:
    a, matrix, d = _matrices(op, x.astype(np.float64), w.astype(np.float64), dy.astype(np.float64))
    dw = np.matmul(d.T, a)
    dw = dw.T if op.type == "FCTransposedGradient" else dw
    results = dw.reshape(w.shape), d.sum(axis=0), np.matmul(d, matrix).reshape(x.shape)
    return [result.astype(x.dtype) for result in results]


@fc_gradient.kernel("NUMPY", supports=blas_multiplies)
@fc_transposed_gradient.kernel("NUMPY", supports=blas_multiplies)
def fc_gradient_numpy(call: Call) -> Run:
    x, w, dy = _matrices(call.op, *call.inputs)
    dw = call.outputs[0].reshape(w.shape[::-1] if call.op.type == "FCTransposedGradient" else w.shape)
    left, right = (x.T, dy) if call.op.type == "FCTransposedGradient" else (dy.T, x)
    db, ones = call.outputs[1].reshape(1, -1), np.ones((1, dy.shape[0]), dy.dtype)
    dx = call.outputs[2].reshape(x.shape) if len(call.outputs) > 2 else None

    def run() -> None:
        np.matmul(left, right, out=dw)
        np.matmul(ones, dy, out=db)
        if dx is not None:
            np.matmul(dy, w, out=dx)

    return run
