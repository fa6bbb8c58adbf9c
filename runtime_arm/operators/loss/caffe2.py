"""Losses of Caffe2 (SoftmaxWithLoss, CrossEntropy, LabelCrossEntropy, SigmoidCrossEntropyWithLogits) and of ONNX."""

from __future__ import annotations

from math import prod
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.statistics import require_floats, single_or_double, split_at
from runtime_arm.operators.norm.softmax import log_softmax_reference, softmax_reference
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

SMALLEST = 1e-20  # Caffe2 takes the logarithm of this for smaller probabilities


def _require_labels(op: OperatorDef, labels: Array, classes: int) -> None:
    if not np.all((labels >= 0) & (labels < classes)):
        raise ArgumentError(op, f"labels must be 0 to {classes - 1}, got {labels.min()} to {labels.max()}")


@operator("SoftmaxWithLoss", inputs=(2, 3), outputs=2)
def softmax_with_loss(
    op: OperatorDef, x: TensorSpec, labels: TensorSpec, weights: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Softmax of X, reshaped to (N, D) at ``axis`` (1), and the weighted mean of -log P[label], times ``scale`` (1).

    labels: N int32, or with label_prob=1 N by D floats that sum to 1 per row. The divisor is the sum of the weights, or
    with average_by_batch_size=1 N. Source: Caffe2.
    """
    require_floats(op, x, weights)
    rows, classes = split_at(x.shape, axis_of(op, op.get_int("axis", 1), x.ndim))
    if op.get_bool("label_prob"):
        require_floats(op, x, labels)
        require(op, labels.size == rows * classes, "labels must be a probability for each row and class", x, labels)
    else:
        require(op, labels.size == rows and labels.dtype == np.int32, "labels must be one int32 for each row", labels)
    require(op, weights is None or weights.size == rows, "weights must be one for each row", x, weights)
    return [x, x.with_shape(())]


@softmax_with_loss.reference
def softmax_with_loss_reference(op: OperatorDef, x: Array, labels: Array, weights: Optional[Array] = None) -> List[Any]:
    (y,) = softmax_reference(op, x)
    rows, classes = split_at(x.shape, axis_of(op, op.get_int("axis", 1), x.ndim))
    losses = -np.log(np.maximum(y.astype(np.float64).reshape(rows, classes), SMALLEST))
    share = np.ones(rows) if weights is None else weights.astype(np.float64).reshape(rows)
    divisor = rows if op.get_bool("average_by_batch_size") else share.sum()
    total = ((losses * targets_of(op, labels, rows, classes)).sum(axis=1) * share).sum()
    mean = total * op.get_float("scale", 1.0) / divisor if divisor else 0.0
    return [y, np.array(mean, x.dtype)]


def _by_labels(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if op.get_bool("label_prob"):
        return "only for label_prob=0"
    return single_or_double(op, inputs, outputs)


def _in_double(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """X, and one number for each of its rows."""
    shape = split_at(outputs[0].shape, axis_of(op, op.get_int("axis", 1), outputs[0].ndim))
    return [TensorSpec(shape, np.float64), TensorSpec((shape[0], 1), np.float64)]


@softmax_with_loss.kernel("NUMPY", supports=_by_labels, scratch=_in_double)
def softmax_with_loss_numpy(call: Call) -> Run:
    """The same numbers as by the reference kernel; only the probabilities of the labels get a logarithm."""
    op, (x, labels, *weights), (y, loss) = call.op, call.inputs, call.outputs
    wide, column = call.scratch
    rows, classes = wide.shape
    share = weights[0].reshape(rows) if weights else np.ones(rows)
    by_rows, scale, places = op.get_bool("average_by_batch_size"), op.get_float("scale", 1.0), np.arange(rows)

    def run() -> None:
        np.copyto(wide, x.reshape(rows, classes))
        if classes:
            np.maximum.reduce(wide, axis=1, keepdims=True, out=column)
        np.subtract(wide, column, out=wide)
        np.exp(wide, out=wide)
        np.add.reduce(wide, axis=1, keepdims=True, out=column)
        np.divide(wide, column, out=wide)
        np.copyto(y.reshape(rows, classes), wide, casting="same_kind")
        _require_labels(op, labels, classes)
        hits = y.reshape(rows, classes)[places, labels.reshape(rows)].astype(np.float64)
        np.maximum(hits, SMALLEST, out=hits)
        np.log(hits, out=hits)
        divisor = rows if by_rows else share.sum(dtype=np.float64)
        loss[...] = -(hits * share).sum() * scale / divisor if divisor else 0.0

    return run


def targets_of(op: OperatorDef, labels: Array, rows: int, classes: int) -> Array:
    """Probabilities (rows, classes) from either form of labels."""
    if op.get_bool("label_prob"):
        given = labels.astype(np.float64).reshape(rows, classes)
        if not np.all(np.abs(given.sum(axis=1) - 1) < 1e-5):
            raise ArgumentError(op, "the label probabilities of each row must sum to 1")
        return given
    chosen = labels.reshape(rows, 1)
    _require_labels(op, chosen, classes)
    one_hot: Array = np.arange(classes) == chosen
    return one_hot


def matrix_of(shape: Shape) -> Tuple[int, int]:
    """Rows and columns. A vector is one row."""
    return split_at(shape, 1) if len(shape) > 1 else (1, prod(shape))


@operator("CrossEntropy", inputs=2, dtypes=FLOATS)
def cross_entropy(op: OperatorDef, x: TensorSpec, labels: TensorSpec) -> List[TensorSpec]:
    """Y[n] = -sum of labels[n, d] log(max(X[n, d], 1e-20)); both (N, D), labels from 0 to 1."""
    require_floats(op, x, labels)
    require(op, x.ndim == 2 and labels.shape == x.shape, "X and labels must be (N, D)", x, labels)
    return [x.with_shape((x.shape[0],))]


@cross_entropy.reference
def cross_entropy_reference(op: OperatorDef, x: Array, labels: Array) -> List[Any]:
    require(op, bool(((labels >= 0) & (labels <= 1)).all()), "labels must be from 0 to 1")
    return [-(labels * np.log(np.maximum(x.astype(np.float64), SMALLEST))).sum(axis=1).astype(x.dtype)]


@operator("LabelCrossEntropy", inputs=2, dtypes=FLOATS)
def label_cross_entropy(op: OperatorDef, x: TensorSpec, labels: TensorSpec) -> List[TensorSpec]:
    """Y[n] = -log(max(X[n, labels[n]], 1e-20)). X: (N, ...), or one row; labels: (N,) or (N, 1) int32."""
    rows, _ = matrix_of(x.shape)
    require(
        op, labels.dtype == np.int32 and labels.shape in ((rows,), (rows, 1)), "labels must be (N,) int32", x, labels
    )
    return [x.with_shape((rows,))]


@label_cross_entropy.reference
def label_cross_entropy_reference(op: OperatorDef, x: Array, labels: Array) -> List[Any]:
    rows, classes = matrix_of(x.shape)
    chosen = labels.reshape(rows, 1)
    _require_labels(op, chosen, classes)
    hits = np.take_along_axis(x.reshape(rows, classes), chosen.astype(np.int64), axis=1)
    return [-np.log(np.maximum(hits.astype(np.float64), SMALLEST)).reshape(rows).astype(x.dtype)]


@operator("SigmoidCrossEntropyWithLogits", inputs=2, dtypes=FLOATS)
def sigmoid_cross_entropy(op: OperatorDef, x: TensorSpec, targets: TensorSpec) -> List[TensorSpec]:
    """Y = -mean over the last dimension of t log p + (1 - t) log(1 - p), p = sigmoid(X).

    With log_D_trick, of (2 t - 1) log p; with unjoined_lr_loss, of t X + (1 - t) log(1 - p). Source: Caffe2.
    """
    require_floats(op, x, targets)
    require(
        op,
        x.shape == targets.shape and (x.ndim == 0 or x.shape[-1] > 0),
        "X and targets must have the same shape and must not be empty",
        x,
        targets,
    )
    if op.get_bool("log_D_trick") and op.get_bool("unjoined_lr_loss"):
        raise ArgumentError(op, "log_D_trick and unjoined_lr_loss cannot both be set")
    return [x.with_shape(x.shape[:-1])]


@sigmoid_cross_entropy.reference
def sigmoid_cross_entropy_reference(op: OperatorDef, x: Array, targets: Array) -> List[Any]:
    logits = x.astype(np.float64)
    log_p, log_q = -np.logaddexp(0, -logits), -np.logaddexp(0, logits)
    if op.get_bool("log_D_trick"):
        terms = (2.0 * targets - 1) * log_p
    elif op.get_bool("unjoined_lr_loss"):
        terms = targets * logits + (1.0 - targets) * log_q
    else:
        terms = targets * log_p + (1.0 - targets) * log_q
    return [-np.asarray(terms.mean(axis=-1) if x.ndim else terms).astype(x.dtype)]


def _loss(op: OperatorDef, x: TensorSpec, labels: TensorSpec, weights: Optional[TensorSpec]) -> TensorSpec:
    require_floats(op, x, weights)
    require(
        op,
        x.ndim >= 2 and labels.dtype.kind == "i" and labels.shape == (x.shape[0], *x.shape[2:]),
        "X must be (N, C, ...), labels (N, ...) of integers",
        x,
        labels,
    )
    require(op, weights is None or weights.shape == (x.shape[1],), "weights must be (C,)", x, weights)
    reduction = op.get_str("reduction", "mean")
    if reduction not in ("none", "sum", "mean"):
        raise ArgumentError(op, f"reduction must be none, sum or mean, got {reduction!r}")
    return x.with_shape(labels.shape if reduction == "none" else ())


@operator("NegativeLogLikelihoodLoss", domain="onnx", inputs=(2, 3))
def negative_log_likelihood(
    op: OperatorDef, x: TensorSpec, labels: TensorSpec, weights: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """-weights[label] X[n, label, ...], where X (N, C, ...) holds logarithms; 0 where the label is ``ignore_index``.

    reduction: none; sum; mean (the default), which divides by the sum of the weights that count.
    """
    return [_loss(op, x, labels, weights)]


@operator("SoftmaxCrossEntropyLoss", domain="onnx", inputs=(2, 3), outputs=(1, 2))
def softmax_cross_entropy(
    op: OperatorDef, x: TensorSpec, labels: TensorSpec, weights: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """NegativeLogLikelihoodLoss of log(softmax(X)) along the classes. Output 1 is that logarithm."""
    return [_loss(op, x, labels, weights), x]


def shares_of(op: OperatorDef, x: Array, labels: Array, weights: Optional[Array]) -> Tuple[Array, Array]:
    """The weight of each label, 0 where it is ``ignore_index``, and the class that it names."""
    counts = np.ones(labels.shape, bool) if not op.has("ignore_index") else labels != op.get_int("ignore_index")
    chosen = np.where(counts, labels, 0).astype(np.int64)
    _require_labels(op, chosen, x.shape[1])
    return counts * (1.0 if weights is None else weights.astype(np.float64)[chosen]), chosen


@negative_log_likelihood.reference
def negative_log_likelihood_reference(
    op: OperatorDef, x: Array, labels: Array, weights: Optional[Array] = None
) -> List[Any]:
    share, chosen = shares_of(op, x, labels, weights)
    losses = -np.take_along_axis(x.astype(np.float64), np.expand_dims(chosen, 1), axis=1)[:, 0] * share
    reduction = op.get_str("reduction", "mean")
    if reduction != "none":
        losses = losses.sum() / (share.sum() if reduction == "mean" else 1)
    return [np.asarray(losses).astype(x.dtype)]


@softmax_cross_entropy.reference
def softmax_cross_entropy_reference(
    op: OperatorDef, x: Array, labels: Array, weights: Optional[Array] = None
) -> List[Any]:
    (log_probabilities,) = log_softmax_reference(OperatorDef.of("LogSoftmax", ["X"], ["Y"], domain="onnx", axis=1), x)
    return [*negative_log_likelihood_reference(op, log_probabilities, labels, weights), log_probabilities]
