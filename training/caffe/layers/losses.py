"""Losses, and Accuracy."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from runtime_arm.netdef import Array
from training.caffe.layers.combining import softmax
from training.caffe.layers.layer import Diffs, Layer, layer
from training.caffe.layers.neurons import sigmoid

FULL, VALID, BATCH_SIZE, NONE = range(4)  # LossParameter.NormalizationMode
_SMALLEST = np.finfo(np.float32).tiny
_LEAST = np.float32(1e-20)  # of a probability whose logarithm is taken


def _number(value: Any) -> List[Array]:
    return [np.array(value, np.float32)]


class _OfLabels(Layer):
    """A loss over positions (outer, inner), each with its label; labels that are ignored count nothing."""

    loss = True
    default = VALID

    def mode(self) -> int:
        """How the sum is divided."""
        param = self.param("loss_param")
        if param.HasField("normalization"):
            return int(param.normalization)
        if param.HasField("normalize"):
            return VALID if param.normalize else BATCH_SIZE
        return self.default

    def kept(self, labels: Array) -> Array:
        """Which positions count."""
        param = self.param("loss_param")
        if not param.HasField("ignore_label"):
            return np.ones(labels.shape, np.bool_)
        return np.asarray(labels != param.ignore_label)

    def divisor(self, kept: Array, outer: int) -> float:
        """What the sum is divided by, at least 1."""
        found = {FULL: kept.size, VALID: int(kept.sum()), BATCH_SIZE: outer, NONE: 1}[self.mode()]
        return float(max(found, 1))

    def positions(self, x: Array, labels: Array, axis: int) -> Tuple[Array, Array]:
        """Scores as (outer, classes, inner) and labels (outer, inner), checked."""
        at = self.axis(axis, x.ndim)
        scores = x.reshape(int(np.prod(x.shape[:at])), x.shape[at], -1)
        self.require(labels.size == scores.shape[0] * scores.shape[2], f"{labels.size} labels do not fit {x.shape}")
        whole = labels.reshape(scores.shape[0], scores.shape[2]).astype(np.int64)
        seen = whole[self.kept(whole)]
        self.require(bool(((seen >= 0) & (seen < scores.shape[1])).all()), "a label is out of range")
        return scores, whole


@layer("SoftmaxWithLoss", "SoftmaxLoss")
class SoftmaxWithLoss(_OfLabels):
    """A single top: Caffe's has two in its text, but none that it sets up."""

    def forward(self, x: Array, labels: Array) -> List[Array]:
        self.require(len(self.proto.top) == 1, "takes a single top")
        scores, self.labels = self.positions(x, labels, self.param("softmax_param").axis)
        self.shape, self.counted = x.shape, self.kept(self.labels)
        self.probabilities = softmax(scores, 1)
        chosen = np.take_along_axis(self.probabilities, np.where(self.counted, self.labels, 0)[:, None], 1)[:, 0]
        self.over = self.divisor(self.counted, len(scores))
        total = -np.log(np.maximum(chosen, _SMALLEST))[self.counted].sum() / self.over
        return _number(total)

    def backward(self, dy: Array) -> Diffs:
        dx = self.probabilities.copy()
        places = np.where(self.counted, self.labels, 0)[:, None]
        np.put_along_axis(dx, places, np.take_along_axis(dx, places, 1) - 1, 1)
        return [(dx * self.counted[:, None] * np.float32(dy / self.over)).reshape(self.shape), None]


@layer("InfogainLoss")
class InfogainLoss(_OfLabels):
    """With the gains (K, K) as third bottom."""

    def forward(self, x: Array, labels: Array, *gains: Array) -> List[Array]:
        self.require(len(gains) == 1, "the gains must be the third bottom")
        scores, self.labels = self.positions(x, labels, self.param("infogain_loss_param").axis)
        count = scores.shape[1]
        self.require(gains[0].size == count * count, f"the gains must be {count} by {count}")
        self.gains, self.shape, self.counted = gains[0].reshape(count, count), x.shape, self.kept(self.labels)
        self.probabilities = softmax(scores, 1)
        self.rows = self.gains[np.where(self.counted, self.labels, 0)].transpose(0, 2, 1)
        self.over = self.divisor(self.counted, len(scores))
        terms = (self.rows * np.log(np.maximum(self.probabilities, _LEAST))).sum(1)
        return [*_number(-terms[self.counted].sum() / self.over), self.probabilities.reshape(x.shape)][
            : len(self.proto.top)
        ]

    def backward(self, dy: Array, *_: Array) -> Diffs:
        self.require(not self.propagate[2], "the gains have no gradient")
        dx = self.probabilities * self.rows.sum(1, keepdims=True) - self.rows
        return [(dx * self.counted[:, None] * np.float32(dy / self.over)).reshape(self.shape), None, None]


@layer("SigmoidCrossEntropyLoss")
class SigmoidCrossEntropyLoss(_OfLabels):
    default = BATCH_SIZE

    def forward(self, x: Array, target: Array) -> List[Array]:
        self.require(x.size == target.size, "the bottoms differ in size")
        self.x, self.target = x, target.reshape(x.shape)
        self.counted = self.kept(np.trunc(self.target))  # Caffe compares whole numbers
        self.over = self.divisor(self.counted, len(x) if x.ndim else 1)
        terms = np.maximum(x, 0) - x * self.target + np.log1p(np.exp(-np.abs(x)))
        return _number(terms[self.counted].sum() / self.over)

    def backward(self, dy: Array) -> Diffs:
        return [(sigmoid(self.x) - self.target) * self.counted * np.float32(dy / self.over), None]


@layer("EuclideanLoss")
class EuclideanLoss(Layer):
    loss = True

    def forward(self, a: Array, b: Array) -> List[Array]:
        self.require(a.size == b.size, "the bottoms differ in size")
        self.difference, self.shapes = a - b.reshape(a.shape), (a.shape, b.shape)
        return _number((self.difference**2).sum() / len(a) / 2)

    def backward(self, dy: Array) -> Diffs:
        da = self.difference * np.float32(dy / len(self.difference))
        return [da, -da.reshape(self.shapes[1])]


@layer("HingeLoss")
class HingeLoss(Layer):
    """One against all, of margin 1; L1 or L2."""

    loss = True

    def forward(self, x: Array, labels: Array) -> List[Array]:
        rows = x.reshape(len(x), -1)
        places = labels.reshape(-1).astype(np.int64)
        self.require(bool(((places >= 0) & (places < rows.shape[1])).all()), "a label is out of range")
        self.shape, self.sign = x.shape, np.ones(rows.shape, np.float32)
        self.sign[np.arange(len(rows)), places] = -1
        self.margins = np.maximum(1 + rows * self.sign, 0)
        self.square = self.param("hinge_loss_param").norm == 2
        return _number((self.margins**2 if self.square else self.margins).sum() / len(rows))

    def backward(self, dy: Array) -> Diffs:
        slope = 2 * self.margins if self.square else np.sign(self.margins)
        return [(slope * self.sign * np.float32(dy / len(self.sign))).reshape(self.shape), None]


@layer("ContrastiveLoss")
class ContrastiveLoss(Layer):
    """Similar pairs are drawn together, others pushed beyond a margin."""

    loss = True

    def forward(self, a: Array, b: Array, similar: Array) -> List[Array]:
        param = self.param("contrastive_loss_param")
        self.difference, self.similar = (a - b).reshape(len(a), -1), similar.reshape(-1) != 0
        squares = (self.difference**2).sum(1)
        self.distance = squares if param.legacy_version else np.sqrt(squares)
        self.beyond = np.float32(param.margin) - self.distance
        apart = np.maximum(self.beyond, 0) ** (1 if param.legacy_version else 2)
        self.shape = a.shape
        return _number(np.where(self.similar, squares, apart).sum() / len(a) / 2)

    def backward(self, dy: Array) -> Diffs:
        alpha = np.float32(dy / len(self.difference))
        legacy = self.param("contrastive_loss_param").legacy_version
        pushed = np.float32(1) if legacy else self.beyond / (self.distance + np.float32(1e-4))
        factor = np.where(self.similar, alpha, np.where(self.beyond > 0, -alpha * pushed, 0)).astype(np.float32)
        da = (self.difference * factor[:, None]).reshape(self.shape)
        return [da, -da, None]


@layer("MultinomialLogisticLoss")
class MultinomialLogisticLoss(Layer):
    """Of probabilities."""

    loss = True

    def forward(self, x: Array, labels: Array) -> List[Array]:
        rows, places = x.reshape(len(x), -1), labels.reshape(-1).astype(np.int64)
        self.require(bool(((places >= 0) & (places < rows.shape[1])).all()), "a label is out of range")
        self.at, self.shape = (np.arange(len(rows)), places), x.shape
        self.chosen = np.maximum(rows[self.at], _LEAST)
        return _number(-np.log(self.chosen).sum() / len(rows))

    def backward(self, dy: Array) -> Diffs:
        dx = np.zeros((self.shape[0], int(np.prod(self.shape[1:]))), np.float32)
        dx[self.at] = -np.float32(dy / len(dx)) / self.chosen
        return [dx.reshape(self.shape), None]


@layer("Accuracy")
class Accuracy(_OfLabels):
    """The share of positions whose label is among the best; it has no gradient."""

    loss = False

    def forward(self, x: Array, labels: Array) -> List[Array]:
        param = self.param("accuracy_param")
        scores, places = self.positions(x, labels, param.axis)
        self.require(param.top_k <= scores.shape[1], f"top_k {param.top_k} exceeds {scores.shape[1]} classes")
        counted = self.kept(places)
        chosen = np.take_along_axis(scores, np.where(counted, places, 0)[:, None], 1)
        better = (scores >= chosen).sum(1)  # the label itself is among these
        right = (better <= param.top_k) & counted
        tops = _number(right.sum() / max(int(counted.sum()), 1))
        if len(self.proto.top) > 1:
            tops.append(self._by_class(right, counted, places, scores.shape[1]))
        return tops

    def kept(self, labels: Array) -> Array:
        param = self.param("accuracy_param")
        ignored: Optional[int] = param.ignore_label if param.HasField("ignore_label") else None
        return np.ones(labels.shape, np.bool_) if ignored is None else np.asarray(labels != ignored)

    def _by_class(self, right: Array, counted: Array, places: Array, count: int) -> Array:
        found = np.bincount(places[right], minlength=count)
        there = np.bincount(places[counted], minlength=count)
        return np.asarray(np.where(there, found / np.maximum(there, 1), 0), np.float32)
