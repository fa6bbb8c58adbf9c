"""Caffe's losses and Accuracy: one number per batch, of shape (). Labels are whole numbers as floats."""

from __future__ import annotations

import math
from typing import Any, List, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

_SMALLEST = 1e-20  # Caffe takes the logarithm of this instead of 0
_NORMALIZATIONS = ("FULL", "VALID", "BATCH_SIZE", "NONE")


def _scalar(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    require(op, x.ndim >= 1 and x.size > 0 and x.dtype.kind == "f", "X must hold floats and must not be empty", x)
    return [x.with_shape(())]


def _number(value: Any, like: Array) -> List[Any]:
    return [np.asarray(value).astype(like.dtype)]


@operator("EuclideanLoss", domain="caffe", inputs=2)
def euclidean_loss(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """The sum of (A - B) ** 2, divided by twice the batch size."""
    require(op, a.size == b.size and a.shape[:1] == b.shape[:1], "both must have the same shape after the batch", a, b)
    return _scalar(op, a)


@euclidean_loss.reference
def euclidean_loss_reference(op: OperatorDef, a: Array, b: Array) -> List[Any]:
    difference = a.astype(np.float64).reshape(-1) - b.reshape(-1)
    return _number((difference**2).sum() / len(a) / 2, a)


@operator("ContrastiveLoss", domain="caffe", inputs=3)
def contrastive_loss(op: OperatorDef, a: TensorSpec, b: TensorSpec, similar: TensorSpec) -> List[TensorSpec]:
    """Half the mean of d ** 2 over similar pairs and of max(margin - d, 0) ** 2 over others; d = |A - B|, margin 1.

    With legacy_version, max(margin - d ** 2, 0) for others.
    """
    require(op, a.ndim >= 2 and a.shape == b.shape and a.size > 0, "both must be (N, C)", a, b)
    require(op, similar.size == a.shape[0], "there must be one similarity per pair", a, similar)
    return _scalar(op, a)


@contrastive_loss.reference
def contrastive_loss_reference(op: OperatorDef, a: Array, b: Array, similar: Array) -> List[Any]:
    squared = ((a.astype(np.float64) - b) ** 2).reshape(len(a), -1).sum(1)
    margin = op.get_float("margin", 1.0)
    apart = np.maximum(margin - (squared if op.get_bool("legacy_version") else np.sqrt(squared)), 0)
    away = apart if op.get_bool("legacy_version") else apart**2
    return _number(np.where(similar.reshape(-1) != 0, squared, away).sum() / len(a) / 2, a)


def _stack(op: OperatorDef, shape: Shape) -> Tuple[int, int, int]:
    axis = axis_of(op, op.get_int("axis", 1), len(shape))
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _require_labels(op: OperatorDef, x: TensorSpec, label: TensorSpec) -> None:
    outer, _, inner = _stack(op, x.shape)
    require(op, label.size == outer * inner, f"there must be {outer * inner} labels, one per prediction", x, label)


def _labels(op: OperatorDef, x: Array, label: Array) -> Tuple[Array, Array]:
    """Labels as indices (outer, inner), and which of them count."""
    outer, classes, inner = _stack(op, x.shape)
    flat = label.reshape(outer, inner)
    counts = flat != op.get_int("ignore_label") if op.has("ignore_label") else np.ones(flat.shape, bool)
    within = ~counts | ((flat >= 0) & (flat < classes))
    require(op, bool(within.all()), f"labels must be 0 to {classes - 1}")
    return np.where(counts, flat, 0).astype(np.int64), counts


def _normalizer(op: OperatorDef, outer: int, inner: int, valid: int) -> float:
    mode = op.get_str("normalization", "VALID")
    return max(1.0, {"FULL": outer * inner, "VALID": valid, "BATCH_SIZE": outer, "NONE": 1}[mode])


def _require_normalization(op: OperatorDef) -> None:
    if op.get_str("normalization", "VALID") not in _NORMALIZATIONS:
        raise ArgumentError(op, f"normalization must be one of {', '.join(_NORMALIZATIONS)}")


def _softmax(op: OperatorDef, x: Array) -> Array:
    stack = x.astype(np.float64).reshape(_stack(op, x.shape))
    powers = np.exp(stack - stack.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


@operator("SoftmaxWithLoss", domain="caffe", inputs=2, outputs=(1, 2))
def softmax_with_loss(op: OperatorDef, x: TensorSpec, label: TensorSpec) -> List[TensorSpec]:
    """The sum of -log(softmax(X)[label]) along ``axis`` (1), divided by a normalizer. Output 1 is the softmax.

    normalization: FULL is the number of predictions, VALID (the default) the number of those whose label is not
    ignore_label, BATCH_SIZE the number of items, NONE 1. Source: Caffe's softmax_loss_layer.cpp.
    """
    _require_normalization(op)
    _require_labels(op, x, label)
    return [*_scalar(op, x), x]


@softmax_with_loss.reference
def softmax_with_loss_reference(op: OperatorDef, x: Array, label: Array) -> List[Any]:
    stack = _softmax(op, x)
    labels, counts = _labels(op, x, label)
    chosen = np.take_along_axis(stack, labels[:, None, :], 1)[:, 0]
    losses = -np.log(np.maximum(chosen, np.finfo(np.float32).tiny))
    total = losses[counts].sum() / _normalizer(op, stack.shape[0], stack.shape[2], int(counts.sum()))
    return [*_number(total, x), stack.reshape(x.shape).astype(x.dtype)]


@operator("InfogainLoss", domain="caffe", inputs=3, outputs=(1, 2))
def infogain_loss(op: OperatorDef, x: TensorSpec, label: TensorSpec, gain: TensorSpec) -> List[TensorSpec]:
    """The sum of -gain[label, k] * log(softmax(X)[k]), divided by SoftmaxWithLoss's normalizer; gain: K by K."""
    _require_normalization(op)
    _require_labels(op, x, label)
    classes = _stack(op, x.shape)[1]
    require(op, gain.size == classes**2, f"the gains must be {classes} by {classes}", x, gain)
    return [*_scalar(op, x), x]


@infogain_loss.reference
def infogain_loss_reference(op: OperatorDef, x: Array, label: Array, gain: Array) -> List[Any]:
    stack = _softmax(op, x)
    labels, counts = _labels(op, x, label)
    weights = np.moveaxis(gain.astype(np.float64).reshape(stack.shape[1], -1)[labels], 2, 1)
    losses = -(weights * np.log(np.maximum(stack, _SMALLEST))).sum(1)
    total = losses[counts].sum() / _normalizer(op, stack.shape[0], stack.shape[2], int(counts.sum()))
    return [*_number(total, x), stack.reshape(x.shape).astype(x.dtype)]


@operator("MultinomialLogisticLoss", domain="caffe", inputs=2)
def multinomial_logistic_loss(op: OperatorDef, x: TensorSpec, label: TensorSpec) -> List[TensorSpec]:
    """The mean of -log(X[label]) over the batch; X holds probabilities."""
    _require_labels(op, x, label)
    return _scalar(op, x)


@multinomial_logistic_loss.reference
def multinomial_logistic_loss_reference(op: OperatorDef, x: Array, label: Array) -> List[Any]:
    labels, _ = _labels(op, x, label)
    stack = x.astype(np.float64).reshape(_stack(op, x.shape))
    chosen = np.take_along_axis(stack, labels[:, None, :], 1)
    return _number(-np.log(np.maximum(chosen, _SMALLEST)).sum() / len(x), x)


@operator("HingeLoss", domain="caffe", inputs=2)
def hinge_loss(op: OperatorDef, x: TensorSpec, label: TensorSpec) -> List[TensorSpec]:
    """The sum of max(0, 1 + X), for the label's class max(0, 1 - X), over the batch size; norm L2: of the squares."""
    require(op, x.ndim >= 1 and label.size == x.shape[0], "there must be one label per item", x, label)
    if op.get_str("norm", "L1") not in ("L1", "L2"):
        raise ArgumentError(op, f"norm must be L1 or L2, got {op.get_str('norm')!r}")
    return _scalar(op, x)


@hinge_loss.reference
def hinge_loss_reference(op: OperatorDef, x: Array, label: Array) -> List[Any]:
    rows = x.astype(np.float64).reshape(len(x), -1)
    flat = label.reshape(-1)
    within = (flat >= 0) & (flat < rows.shape[1])
    require(op, bool(within.all()), f"labels must be 0 to {rows.shape[1] - 1}")
    sign = np.where(np.arange(rows.shape[1]) == flat[:, None], -1, 1)
    margins = np.maximum(1 + sign * rows, 0)
    return _number((margins**2 if op.get_str("norm", "L1") == "L2" else margins).sum() / len(x), x)


@operator("SigmoidCrossEntropyLoss", domain="caffe", inputs=2)
def sigmoid_cross_entropy_loss(op: OperatorDef, x: TensorSpec, target: TensorSpec) -> List[TensorSpec]:
    """The sum of log(1 + exp(X)) - X * target, divided by SoftmaxWithLoss's normalizer (default: BATCH_SIZE).

    A target is ignored if its integer part is ignore_label.
    """
    _require_normalization(op)
    require(op, x.size == target.size, "there must be a target for each element", x, target)
    return _scalar(op, x)


@sigmoid_cross_entropy_loss.reference
def sigmoid_cross_entropy_loss_reference(op: OperatorDef, x: Array, target: Array) -> List[Any]:
    wide, goal = x.astype(np.float64).reshape(-1), target.reshape(-1)
    counts = np.trunc(goal) != op.get_int("ignore_label") if op.has("ignore_label") else np.ones(goal.shape, bool)
    losses = np.maximum(wide, 0) - wide * goal + np.log1p(np.exp(-np.abs(wide)))
    return _number(losses[counts].sum() / _normalizer(op, len(x), x.size // len(x), int(counts.sum())), x)


@operator("Accuracy", domain="caffe", inputs=2, outputs=(1, 2))
def accuracy(op: OperatorDef, x: TensorSpec, label: TensorSpec) -> List[TensorSpec]:
    """The share of predictions whose label is among the ``top_k`` (1) largest of X along ``axis`` (1).

    A label counts as right if fewer than top_k other classes score at least as much. Output 1 is the share of each
    class's predictions, 0 where it has none. Source: accuracy_layer.cpp.
    """
    _require_labels(op, x, label)
    classes = _stack(op, x.shape)[1]
    if not 1 <= op.get_int("top_k", 1) <= classes:
        raise ArgumentError(op, f"top_k must be 1 to {classes}, got {op.get_int('top_k', 1)}")
    return [*_scalar(op, x), x.with_shape((classes,))]


@accuracy.reference
def accuracy_reference(op: OperatorDef, x: Array, label: Array) -> List[Any]:
    stack = x.reshape(_stack(op, x.shape))
    labels, counts = _labels(op, x, label)
    better = (stack >= np.take_along_axis(stack, labels[:, None, :], 1)).sum(1) - 1
    right = (better < op.get_int("top_k", 1)) & counts
    total = int(counts.sum())
    classes = _stack(op, x.shape)[1]
    found, there = (np.bincount(labels[chosen], minlength=classes) for chosen in (right, counts))
    by_class = np.where(there, found / np.maximum(there, 1), 0).astype(x.dtype)
    return [*_number(right.sum() / total if total else 0.0, x), by_class]
