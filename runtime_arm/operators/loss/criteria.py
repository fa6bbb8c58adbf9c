"""Caffe2's criteria and measures besides the losses in loss/caffe2.py. Source: caffe2/operators."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32
from runtime_arm.operators.common.formulas import exactly
from runtime_arm.operators.loss.caffe2 import SMALLEST
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

IGNORED = -1  # the label of pixels that do not count


@operator("MakeTwoClass", dtypes=FLOAT32)
def make_two_class(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """(..., 2): 1 - X and X."""
    return [x.with_shape((*x.shape, 2))]


@make_two_class.reference
def make_two_class_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [np.stack([np.float32(1) - x, x], axis=-1)]


@operator("WeightedSigmoidCrossEntropyWithLogits", inputs=3, dtypes=FLOAT32)
def weighted_sigmoid_cross_entropy(
    op: OperatorDef, x: TensorSpec, targets: TensorSpec, weights: TensorSpec
) -> List[TensorSpec]:
    """-mean over the last dimension of  weight (t log p + (1 - t) log(1 - p)),  p = sigmoid(X). All have one shape."""
    alike = x.ndim > 0 and all(spec == x for spec in (targets, weights))
    require(op, alike and x.shape[-1] > 0, "X, targets and weights must have the same shape", x, targets, weights)
    return [x.with_shape(x.shape[:-1])]


@weighted_sigmoid_cross_entropy.reference
def weighted_sigmoid_cross_entropy_reference(op: OperatorDef, x: Array, targets: Array, weights: Array) -> List[Any]:
    def loss(x: Array, t: Array, w: Array) -> Any:
        return (w * (t * np.logaddexp(0, -x) + (1 - t) * np.logaddexp(0, x))).mean(axis=-1)

    return [exactly(loss, x, targets, weights)]


@operator("SpatialSoftmaxWithLoss", inputs=(2, 3), outputs=2, dtypes=FLOAT32)
def spatial_softmax_with_loss(
    op: OperatorDef, x: TensorSpec, labels: TensorSpec, weights: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Softmax of X (N, D, H, W) over D at each pixel, and the weighted mean of -log P[label].

    labels: (N, H, W) int32, -1 for pixels that do not count; weights: the same shape, float32.
    """
    pixels = (x.shape[0], *x.shape[2:]) if x.ndim == 4 else ()
    fits = x.ndim == 4 and labels.shape == pixels and labels.dtype == np.int32
    require(op, fits and x.shape[1] > 0, "X must be (N, D, H, W), labels (N, H, W) int32", x, labels)
    require(
        op,
        weights is None or (weights.shape == pixels and weights.dtype == np.float32),
        "weights must be (N, H, W) float32",
        labels,
        weights,
    )
    return [x, x.with_shape(())]


@spatial_softmax_with_loss.reference
def spatial_softmax_with_loss_reference(
    op: OperatorDef, x: Array, labels: Array, weights: Optional[Array] = None
) -> List[Any]:
    require_labels(op, labels, IGNORED, x.shape[1])
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True)) if x.size else x.astype(np.float64)
    y = powers / powers.sum(axis=1, keepdims=True)
    share = (labels != IGNORED) * (1.0 if weights is None else weights.astype(np.float64))
    chosen = np.take_along_axis(y, np.maximum(labels, 0)[:, None].astype(np.int64), axis=1)[:, 0]
    total = (-np.log(np.maximum(chosen, SMALLEST)) * share).sum()
    mean = total / share.sum() if share.sum() else 0.0
    return [y.astype(x.dtype), np.array(mean, x.dtype)]


def require_labels(op: OperatorDef, labels: Array, least: int, classes: int) -> None:
    if not np.all((labels >= least) & (labels < classes)):
        raise ArgumentError(op, f"labels must be {least} to {classes - 1}, got {labels.min()} to {labels.max()}")


def _require_classified(op: OperatorDef, x: TensorSpec, labels: TensorSpec) -> None:
    fits = x.ndim == 2 and labels.shape == x.shape[:1] and labels.dtype == np.int32
    require(op, fits and x.shape[1] > 0, "X must be (N, D), labels (N,) int32", x, labels)


@operator("Accuracy", inputs=2, dtypes=FLOAT32)
def accuracy(op: OperatorDef, x: TensorSpec, labels: TensorSpec) -> List[TensorSpec]:
    """The share of rows of X (N, D) whose label is among the ``top_k`` (1) largest. Of equal ones the first counts."""
    _require_classified(op, x, labels)
    return [x.with_shape(())]


@accuracy.reference
def accuracy_reference(op: OperatorDef, x: Array, labels: Array) -> List[Any]:
    require_labels(op, labels, 0, x.shape[1])
    own = np.take_along_axis(x, labels[:, None].astype(np.int64), axis=1)
    before = (x > own) | ((x == own) & (np.arange(x.shape[1]) < labels[:, None]))
    hits = before.sum(axis=1) < op.get_int("top_k", 1)
    return [np.array(hits.mean() if hits.size else np.nan, np.float32)]


@operator("MultiClassAccuracy", inputs=2, outputs=2, dtypes=FLOAT32)
def multi_class_accuracy(op: OperatorDef, x: TensorSpec, labels: TensorSpec) -> List[TensorSpec]:
    """For each class: the share of its rows of X (N, D) whose maximum it is (0 without rows), and their number."""
    _require_classified(op, x, labels)
    return [x.with_shape((x.shape[1],)), TensorSpec((x.shape[1],), np.int32)]


@multi_class_accuracy.reference
def multi_class_accuracy_reference(op: OperatorDef, x: Array, labels: Array) -> List[Any]:
    require_labels(op, labels, 0, x.shape[1])
    amounts = np.bincount(labels, minlength=x.shape[1])
    hits = np.bincount(labels[x.argmax(axis=1) == labels], minlength=x.shape[1])
    return [(hits / np.maximum(amounts, 1)).astype(np.float32), amounts.astype(np.int32)]


@operator("MarginRankingCriterion", inputs=3, dtypes=FLOAT32)
def margin_ranking(op: OperatorDef, x: TensorSpec, other: TensorSpec, y: TensorSpec) -> List[TensorSpec]:
    """max(0, ``margin`` (1) - Y (X1 - X2)). Y: int32, 1 where X1 should rank higher, -1 where X2 should."""
    fits = other == x and y.shape == x.shape and y.dtype == np.int32
    require(op, fits, "X1 and X2 must have the same shape, and Y must be int32 of that shape", x, other, y)
    return [x]


@margin_ranking.reference
def margin_ranking_reference(op: OperatorDef, x: Array, other: Array, y: Array) -> List[Any]:
    margin = op.get_float("margin", 1.0)
    return [exactly(lambda x, other: np.maximum(0, margin - y * (x - other)), x, other)]


@operator("CosineEmbeddingCriterion", inputs=2, dtypes=FLOAT32)
def cosine_embedding(op: OperatorDef, x: TensorSpec, y: TensorSpec) -> List[TensorSpec]:
    """1 - S where Y is 1, else max(0, S - ``margin`` (0)). S holds cosines; Y is int32 of the same shape."""
    require(op, y.shape == x.shape and y.dtype == np.int32, "Y must be int32 of S's shape", x, y)
    return [x]


@cosine_embedding.reference
def cosine_embedding_reference(op: OperatorDef, x: Array, y: Array) -> List[Any]:
    margin = op.get_float("margin", 0.0)
    return [exactly(lambda x: np.where(y == 1, 1 - x, np.maximum(0, x - margin)), x)]


def _entropy(p: Array) -> Any:
    """The entropy of Bernoulli distributions; 0 where p or 1 - p is below 1e-20."""
    certain = (p < SMALLEST) | (1 - p < SMALLEST)
    p = np.where(certain, 0.5, p)
    return np.where(certain, 0, -p * np.log(p) - (1 - p) * np.log(1 - p))


@operator("BernoulliJSD", inputs=2, dtypes=FLOAT32)
def bernoulli_jsd(op: OperatorDef, x: TensorSpec, targets: TensorSpec) -> List[TensorSpec]:
    """The Jensen-Shannon divergence of Bernoulli distributions: H((x + t) / 2) - (H(x) + H(t)) / 2, elementwise.

    Source: Lin, Divergence Measures Based on the Shannon Entropy, IEEE Trans. Inf. Theory 37(1), 1991, eq. 4.1.
    """
    require(op, targets == x, "X and targets must have the same shape", x, targets)
    return [x]


@bernoulli_jsd.reference
def bernoulli_jsd_reference(op: OperatorDef, x: Array, targets: Array) -> List[Any]:
    return [exactly(lambda x, t: _entropy((x + t) / 2) - (_entropy(x) + _entropy(t)) / 2, x, targets)]


@operator("Perplexity", dtypes=FLOAT32)
def perplexity(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """exp of the mean of -log X. X: a vector, the probabilities of the observations."""
    require(op, x.ndim == 1 and x.size > 0, "X must be a vector that is not empty", x)
    return [x.with_shape(())]


@perplexity.reference
def perplexity_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [np.array(np.exp(-np.log(x.astype(np.float64)).mean()), x.dtype)]


@operator("Summarize", outputs=(0, 1), dtypes=FLOAT32)
def summarize(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """(4): minimum and maximum of X, their mean, and the unbiased standard deviation (0 for one element)."""
    require(op, x.size > 0, "X must not be empty", x)
    return [x.with_shape((4,))]


@summarize.reference
def summarize_reference(op: OperatorDef, x: Array) -> List[Any]:
    exact = x.astype(np.float64)
    deviation = exact.std(ddof=1) if x.size > 1 else 0.0
    return [np.array([exact.min(), exact.max(), exact.mean(), deviation], x.dtype)]


@operator("PairWiseLoss", inputs=(2, 3), dtypes=FLOAT32)
def pair_wise_loss(
    op: OperatorDef, x: TensorSpec, labels: TensorSpec, lengths: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """The mean of log(1 + exp(X[j] - X[i])) over the pairs in which i has the larger label; 0 without such pairs.

    X, labels: (N,) or (N, 1) float32. lengths, int32, cuts them into sessions, each with a loss of its own.
    """
    fits = x.size == labels.size and labels.dtype == x.dtype and x.ndim >= 1 and x.size == x.shape[0]
    require(op, fits, "X and labels must be (N,) or (N, 1)", x, labels)
    require(op, lengths is None or lengths.dtype == np.int32, "lengths must be int32", lengths)
    return [x.with_shape((1,) if lengths is None else (lengths.size,))]


def sessions_of(op: OperatorDef, x: Array, lengths: Sequence[Array]) -> List[slice]:
    """The rows of each session. ``lengths``: none, or one array."""
    sizes = [int(n) for n in lengths[0].reshape(-1)] if lengths else [x.size]
    require(op, min(sizes, default=0) >= 0 and sum(sizes) == x.size, f"the lengths must add up to {x.size}")
    ends = np.cumsum(sizes)
    return [slice(end - size, end) for end, size in zip(ends, sizes)]


def pairs_of(labels: Array) -> Array:
    """Whether the label of i is larger than that of j, (i, j)."""
    larger: Array = labels[:, None] > labels
    return larger


@pair_wise_loss.reference
def pair_wise_loss_reference(op: OperatorDef, x: Array, labels: Array, *lengths: Array) -> List[Any]:
    losses = []
    for rows in sessions_of(op, x, lengths):
        values, pairs = x.reshape(-1)[rows].astype(np.float64), pairs_of(labels.reshape(-1)[rows])
        terms = np.logaddexp(0, values - values[:, None])[pairs]
        losses.append(terms.mean() if terms.size else 0.0)
    return [np.array(losses, x.dtype)]
