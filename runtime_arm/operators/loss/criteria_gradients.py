"""The gradients of Caffe2's criteria. Source: caffe2/operators."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32, FLOATS
from runtime_arm.operators.common.slopes import same_floats
from runtime_arm.operators.loss.caffe2 import SMALLEST
from runtime_arm.operators.loss.criteria import (
    IGNORED,
    pair_wise_loss,
    pairs_of,
    require_labels,
    sessions_of,
    spatial_softmax_with_loss,
)
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("MakeTwoClassGradient", dtypes=FLOATS)
def make_two_class_gradient(op: OperatorDef, dy: TensorSpec) -> List[TensorSpec]:
    """dX = dY[..., 1] - dY[..., 0]."""
    require(op, dy.ndim > 0 and dy.shape[-1] == 2, "dY must be (..., 2)", dy)
    return [dy.with_shape(dy.shape[:-1])]


@make_two_class_gradient.reference
def make_two_class_gradient_reference(op: OperatorDef, dy: Array) -> List[Any]:
    return [dy[..., 1] - dy[..., 0]]


@operator("SpatialSoftmaxWithLossGradient", inputs=(4, 5), dtypes=FLOAT32)
def spatial_softmax_with_loss_gradient(
    op: OperatorDef, x: TensorSpec, labels: TensorSpec, *others: TensorSpec
) -> List[TensorSpec]:
    """dX = dloss weight (P - target) / the sum of weights, at each pixel that counts; 0 if the sum is.

    Inputs: X, labels, weights if there are any, P, dloss. ``scale`` does not count, as in the loss (Caffe2's gradient
    takes it).
    """
    *weights, p, dloss = others
    spatial_softmax_with_loss.shape(op, x, labels, *weights)
    same_floats(op, x, p)
    require(op, dloss.size == 1 and dloss.dtype == x.dtype, "dloss must be one number", x, dloss)
    return [x]


@spatial_softmax_with_loss_gradient.reference
def spatial_softmax_with_loss_gradient_reference(op: OperatorDef, x: Array, labels: Array, *others: Array) -> List[Any]:
    *weights, p, dloss = others
    require_labels(op, labels, IGNORED, x.shape[1])
    share = (labels != IGNORED) * (weights[0].astype(np.float64) if weights else 1.0)
    targets = np.arange(x.shape[1]).reshape(1, -1, 1, 1) == labels[:, None]
    factor = float(dloss.reshape(-1)[0]) / share.sum() if share.sum() else 0.0
    return [((p.astype(np.float64) - targets) * share[:, None] * factor).astype(x.dtype)]


@operator("PairWiseLossGradient", inputs=(3, 4), dtypes=FLOATS)
def pair_wise_loss_gradient(
    op: OperatorDef, x: TensorSpec, labels: TensorSpec, dy: TensorSpec, *lengths: TensorSpec
) -> List[TensorSpec]:
    """dX of PairWiseLoss: with s = sigmoid(X[j] - X[i]) every pair gives dY s / pairs to j and takes it from i."""
    (y,) = pair_wise_loss.shape(op, x, labels, *lengths)
    require(op, dy.shape == y.shape and dy.dtype == x.dtype, "dY must have one number for each session", x, dy)
    return [x]


@pair_wise_loss_gradient.reference
def pair_wise_loss_gradient_reference(
    op: OperatorDef, x: Array, labels: Array, dy: Array, *lengths: Array
) -> List[Any]:
    dx = np.zeros(x.size)
    for rows, error in zip(sessions_of(op, x, lengths), dy.astype(np.float64).reshape(-1)):
        values, pairs = x.reshape(-1)[rows].astype(np.float64), pairs_of(labels.reshape(-1)[rows])
        slopes = np.where(pairs, 1 / (1 + np.exp(values[:, None] - values)), 0) * error / max(int(pairs.sum()), 1)
        dx[rows] = slopes.sum(axis=0) - slopes.sum(axis=1)
    return [dx.reshape(x.shape).astype(x.dtype)]


@operator("MarginRankingCriterionGradient", inputs=4, outputs=2, dtypes=FLOATS)
def margin_ranking_gradient(
    op: OperatorDef, x: TensorSpec, other: TensorSpec, y: TensorSpec, dloss: TensorSpec
) -> List[TensorSpec]:
    """dX1 = -Y dloss where margin - Y (X1 - X2) is at least 0, else 0; dX2 = -dX1. Source: Caffe2."""
    same_floats(op, x, other, dloss)
    require(op, y.shape == x.shape and y.dtype == np.int32, "Y must be int32 of X1's shape", x, y)
    return [x, other]


@margin_ranking_gradient.reference
def margin_ranking_gradient_reference(op: OperatorDef, x: Array, other: Array, y: Array, dloss: Array) -> List[Any]:
    slack = op.get_float("margin", 1.0) - y * (x.astype(np.float64) - other)
    dx = np.where(slack < 0, 0, -y * dloss.astype(np.float64)).astype(x.dtype)
    return [dx, -dx]


@operator("CosineEmbeddingCriterionGradient", inputs=3, dtypes=FLOATS)
def cosine_embedding_gradient(op: OperatorDef, s: TensorSpec, y: TensorSpec, dloss: TensorSpec) -> List[TensorSpec]:
    """dS = -dloss where Y is 1, else dloss where S is at least the margin, else 0. Source: Caffe2."""
    same_floats(op, s, dloss)
    require(op, y.shape == s.shape and y.dtype == np.int32, "Y must be int32 of S's shape", s, y)
    return [s]


@cosine_embedding_gradient.reference
def cosine_embedding_gradient_reference(op: OperatorDef, s: Array, y: Array, dloss: Array) -> List[Any]:
    far = np.where(s < op.get_float("margin", 0.0), 0, dloss)
    return [np.where(y == 1, -dloss, far).astype(s.dtype)]


@operator("BernoulliJSDGradient", inputs=3, dtypes=FLOATS)
def bernoulli_jsd_gradient(op: OperatorDef, dloss: TensorSpec, x: TensorSpec, t: TensorSpec) -> List[TensorSpec]:
    """dX = dloss / 2 (logit(X) - logit((X + T) / 2)); the argument of a logarithm is at least 1e-20."""
    return [same_floats(op, x, t, dloss)]


@bernoulli_jsd_gradient.reference
def bernoulli_jsd_gradient_reference(op: OperatorDef, dloss: Array, x: Array, t: Array) -> List[Any]:
    p = x.astype(np.float64)
    middle = (p + t) / 2
    slope = (_logit(p) - _logit(middle)) / 2
    return [(dloss * slope).astype(x.dtype)]


def _logit(p: Array) -> Any:
    return np.log(np.maximum(p, SMALLEST)) - np.log(np.maximum(1 - p, SMALLEST))
