"""The gradients of Caffe2's losses. Source: caffe2/operators/{softmax_with_loss,cross_entropy}_op.cc."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32_64, FLOATS
from runtime_arm.operators.common.formulas import only_for
from runtime_arm.operators.common.slopes import same_floats
from runtime_arm.operators.common.statistics import require_floats, split_at
from runtime_arm.operators.loss.caffe2 import SMALLEST, matrix_of, softmax_with_loss, targets_of
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("SoftmaxWithLossGradient", inputs=(4, 5))
def softmax_with_loss_gradient(
    op: OperatorDef, x: TensorSpec, labels: TensorSpec, *others: TensorSpec
) -> List[TensorSpec]:
    """dX = scale dloss weight (P - target) / divisor per row. Inputs: X, labels, weights if there are any, P, dloss.

    Arguments and divisor as for SoftmaxWithLoss; 0 if the divisor is.
    """
    *weights, p, dloss = others
    softmax_with_loss.shape(op, x, labels, *weights)
    same_floats(op, x, p)
    require(op, dloss.size == 1 and dloss.dtype == x.dtype, "dloss must be one number", x, dloss)
    return [x]


def _rows(op: OperatorDef, x: TensorSpec) -> Tuple[int, int]:
    return split_at(x.shape, axis_of(op, op.get_int("axis", 1), x.ndim))


@softmax_with_loss_gradient.reference
def softmax_with_loss_gradient_reference(op: OperatorDef, x: Array, labels: Array, *others: Array) -> List[Any]:
    *weights, p, dloss = others
    rows, classes = _rows(op, TensorSpec.known(x))
    share = weights[0].astype(np.float64).reshape(rows) if weights else np.ones(rows)
    divisor = rows if op.get_bool("average_by_batch_size") else share.sum()
    factor = op.get_float("scale", 1.0) * float(dloss.reshape(-1)[0]) / divisor if divisor else 0.0
    errors = p.astype(np.float64).reshape(rows, classes) - targets_of(op, labels, rows, classes)
    return [(errors * share[:, None] * factor).reshape(x.shape).astype(x.dtype)]


def _column(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return [TensorSpec((_rows(op, outputs[0])[0], 1), outputs[0].dtype)]


@softmax_with_loss_gradient.kernel("NUMPY", supports=only_for(FLOAT32_64), scratch=_column)
def softmax_with_loss_gradient_numpy(call: Call) -> Run:
    op, (x, labels, *others) = call.op, call.inputs
    *weights, p, dloss = others
    rows, classes = _rows(op, TensorSpec(x.shape, x.dtype))
    dx, p = call.outputs[0].reshape(rows, classes), p.reshape(rows, classes)
    share = weights[0].reshape(rows, 1) if weights else np.ones((rows, 1), x.dtype)
    factors, by_rows, scale = call.scratch[0], op.get_bool("average_by_batch_size"), op.get_float("scale", 1.0)
    given = op.get_bool("label_prob")

    def run() -> None:
        divisor = rows if by_rows else float(share.sum())
        np.multiply(share, scale * float(dloss.reshape(-1)[0]) / divisor if divisor else 0.0, out=factors)
        np.subtract(p, targets_of(op, labels, rows, classes) if given else 0, out=dx)
        if not given:
            dx[np.arange(rows), labels.reshape(rows)] -= 1
        np.multiply(dx, factors, out=dx)

    return run


@operator("LabelCrossEntropyGradient", inputs=3, dtypes=FLOATS)
def label_cross_entropy_gradient(
    op: OperatorDef, x: TensorSpec, labels: TensorSpec, dy: TensorSpec
) -> List[TensorSpec]:
    """dX[n, labels[n]] = -dY[n] / max(X[n, labels[n]], 1e-20); 0 elsewhere."""
    rows, _ = matrix_of(x.shape)
    require(op, labels.dtype == np.int32 and labels.size == rows, "labels must be (N,) int32", x, labels)
    require(op, dy.shape == (rows,) and dy.dtype == x.dtype, "dY must be a vector, a number for each row", x, dy)
    return [x]


@label_cross_entropy_gradient.reference
def label_cross_entropy_gradient_reference(op: OperatorDef, x: Array, labels: Array, dy: Array) -> List[Any]:
    rows, classes = matrix_of(x.shape)
    dx = np.zeros((rows, classes))
    at = np.arange(rows), labels.reshape(rows)
    hits = x.astype(np.float64).reshape(rows, classes)[at]
    dx[at] = -dy.astype(np.float64).reshape(rows) / np.maximum(hits, SMALLEST)
    return [dx.reshape(x.shape).astype(x.dtype)]


@operator("CrossEntropyGradient", inputs=3, dtypes=FLOATS)
def cross_entropy_gradient(op: OperatorDef, x: TensorSpec, labels: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dX[n, d] = -dY[n] labels[n, d] / max(X[n, d], 1e-20)."""
    same_floats(op, x, labels)
    fits = x.ndim == 2 and dy.shape == x.shape[:1] and dy.dtype == x.dtype
    require(op, fits, "dY must be a vector, a number for each row of X", x, dy)
    return [x]


@cross_entropy_gradient.reference
def cross_entropy_gradient_reference(op: OperatorDef, x: Array, labels: Array, dy: Array) -> List[Any]:
    errors = dy.astype(np.float64).reshape(-1, 1) * labels
    return [(-errors / np.maximum(x.astype(np.float64), SMALLEST)).astype(x.dtype)]


def _per_row(op: OperatorDef, dy: TensorSpec, x: TensorSpec, *others: TensorSpec) -> List[TensorSpec]:
    same_floats(op, x, *others)
    require_floats(op, x, dy)
    require(op, dy.shape == x.shape[:-1], "dY must have one number for each row of X", dy, x)
    return [x]


def _scaled(x: Array, dy: Array, slope: Any) -> Array:
    """dY divided by the length of a row, times the slope."""
    errors = np.expand_dims(dy.astype(np.float64), -1) if x.ndim else dy.astype(np.float64)
    return np.asarray(errors * slope / (x.shape[-1] if x.ndim else 1)).astype(x.dtype)


@operator("SigmoidCrossEntropyWithLogitsGradient", inputs=3, dtypes=FLOATS)
def sigmoid_cross_entropy_gradient(op: OperatorDef, dy: TensorSpec, x: TensorSpec, t: TensorSpec) -> List[TensorSpec]:
    """dX = dY (p - t) / D, with p = sigmoid(X) and rows of D.

    With log_D_trick, dY (2 t - 1) (p - 1) / D; with unjoined_lr_loss, dY ((1 - t) p - t) / D.
    """
    return _per_row(op, dy, x, t)


@sigmoid_cross_entropy_gradient.reference
def sigmoid_cross_entropy_gradient_reference(op: OperatorDef, dy: Array, x: Array, t: Array) -> List[Any]:
    p, t = _sigmoid(x), t.astype(np.float64)
    if op.get_bool("log_D_trick"):
        slope = (2 * t - 1) * (p - 1)
    elif op.get_bool("unjoined_lr_loss"):
        slope = (1 - t) * p - t
    else:
        slope = p - t
    return [_scaled(x, dy, slope)]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


@operator("WeightedSigmoidCrossEntropyWithLogitsGradient", inputs=4, dtypes=FLOATS)
def weighted_sigmoid_cross_entropy_gradient(
    op: OperatorDef, dy: TensorSpec, x: TensorSpec, t: TensorSpec, w: TensorSpec
) -> List[TensorSpec]:
    """dX = dY w (sigmoid(X) - t) / D, with rows of D."""
    return _per_row(op, dy, x, t, w)


@weighted_sigmoid_cross_entropy_gradient.reference
def weighted_sigmoid_cross_entropy_gradient_reference(
    op: OperatorDef, dy: Array, x: Array, t: Array, w: Array
) -> List[Any]:
    return [_scaled(x, dy, w.astype(np.float64) * (_sigmoid(x) - t))]
