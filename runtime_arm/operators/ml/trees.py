"""Ensembles of decision trees: random forests, gradient boosting, isolation forests.

Where the operators leave something open, this follows onnxruntime (core/providers/cpu/ml/tree_ensemble_aggregator.h).
"""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.machine.memory import require_memory
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.ml.forest import (
    Forest,
    base_values,
    forest_of,
    leaves_reached,
    require_targets,
    target_totals,
)
from runtime_arm.operators.ml.scores import both_classes, label_pair, labels_of, transform_of, transformed
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

ROWS = ("float32", "float64", "int32", "int64")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


def aggregate_of(op: OperatorDef) -> str:
    """``aggregate_function``: SUM, AVERAGE, MIN or MAX. TreeEnsemble gives it as a number."""
    if op.type == "TreeEnsemble":
        number = op.get_int("aggregate_function", 1)
        if not 0 <= number < len(_AGGREGATES):
            raise ArgumentError(op, f"aggregate_function must be from 0 to 3, got {number}")
        return _AGGREGATES[number]
    name = op.get_str("aggregate_function", "SUM") if op.type == "TreeEnsembleRegressor" else "SUM"
    if name not in _AGGREGATES:
        raise ArgumentError(op, f"aggregate_function must be one of {', '.join(_AGGREGATES)}, got {name!r}")
    return name


def transform_of_trees(op: OperatorDef) -> str:
    """The name of ``post_transform``. TreeEnsemble gives it as a number."""
    if op.type != "TreeEnsemble":
        return transform_of(op)
    number = op.get_int("post_transform", 0)
    names = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    if not 0 <= number < len(names):
        raise ArgumentError(op, f"post_transform must be from 0 to 4, got {number}")
    return names[number]


def rows_of(op: OperatorDef, x: Array, forest: Forest) -> Array:
    """X as rows, converted to the type of the thresholds."""
    return x.reshape(-1, x.shape[-1]).astype(forest.value.dtype, copy=False)


def _checked(op: OperatorDef, x: TensorSpec, targets: int) -> Forest:
    require(op, x.ndim == 2, "X must be (N, features)", x)
    if targets < 1:
        raise ArgumentError(op, f"n_targets must be at least 1, got {targets}")
    forest = forest_of(op)
    require_targets(op, forest, targets, x.shape[1])
    require_memory(forest.mode.size * targets * 8, f"{op.signature()}: the weights of {targets} targets")
    transform_of_trees(op)
    aggregate_of(op)
    return forest


@operator("TreeEnsembleRegressor", domain="ai.onnx.ml", dtypes=ROWS)
def tree_ensemble_regressor(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y[n, k] = post_transform(base_values[k] + the aggregate of w[k] over all trees); float32.

    w: the weights of the leaf that X[n] reaches in a tree. X: (N, features), Y: (N, n_targets).
    ``aggregate_function``: SUM, AVERAGE over the trees, MIN or MAX. Source: ONNX, ai.onnx.ml 1 and 3.
    """
    targets = op.get_int("n_targets", 1)
    _checked(op, x, targets)
    base_values(op, (0, targets))
    return [TensorSpec((x.shape[0], targets), np.float32)]


@operator("TreeEnsemble", domain="ai.onnx.ml", dtypes=("float16", "float32", "float64"))
def tree_ensemble(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Like TreeEnsembleRegressor, but with nodes and leaves by index, tests of set membership, and Y of X's type.

    Source: ONNX, ai.onnx.ml 5.
    """
    targets = op.get_int("n_targets", 1)
    _checked(op, x, targets)
    return [x.with_shape((x.shape[0], targets))]


@tree_ensemble.reference
@tree_ensemble_regressor.reference
def regressor_reference(op: OperatorDef, x: Array) -> List[Any]:
    forest, targets = forest_of(op), op.get_int("n_targets", 1)
    reached = leaves_reached(forest, rows_of(op, x, forest))
    totals, _ = target_totals(forest, reached, targets, aggregate_of(op))
    dtype = x.dtype if op.type == "TreeEnsemble" else np.float32
    return [regressed(op, totals).astype(dtype)]


def regressed(op: OperatorDef, totals: Array) -> Array:
    """The output, from the totals of the trees, (N, targets)."""
    if op.type == "TreeEnsembleRegressor":
        base = base_values(op, (0, totals.shape[1]))
        totals = totals + base if base.size else totals
    return transformed(totals, transform_of_trees(op))


@operator("TreeEnsembleClassifier", domain="ai.onnx.ml", outputs=2, dtypes=ROWS)
def tree_ensemble_classifier(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The label with the highest score, (N,) int64 or strings, and the scores, (N, classes) float32.

    A score is the class's base value plus the sum, over all trees, of the leaf's weight for the class; then
    ``post_transform`` follows. A model of two labels whose leaves give weight to class 0 alone has one score s, which
    is that of the second label. If no weight is negative, that label wins above 0.5, and the scores are (1 - s, s);
    otherwise it wins above 0, and they are (-s, s). With LOGISTIC they are (logistic(-s), logistic(s)) in both cases.
    Where leaves give weight to both of two classes, the label is the second if its score is above 0, and integers are 1
    and 0 whatever the labels are. A row without a weight for class 1 has one score s, which decides; without base
    values the scores are (-s, s), as above. One base value is added to class 0's score if a leaf gives one; of two, the
    second is added to the score of class 0, and the scores are (-s, s). Where leaves give weight to one class alone,
    two base values make the scores (s + base_values[0], 0) for class 0 and (0, base_values[1]) for class 1.
    Source: ONNX, ai.onnx.ml 1 and 3.
    """
    labels = labels_of(op, "classlabels_int64s")
    _checked(op, x, labels.size)
    base_values(op, (0, 1, labels.size))
    return [TensorSpec((x.shape[0],), labels.dtype), TensorSpec((x.shape[0], labels.size), np.float32)]


@tree_ensemble_classifier.reference
def classifier_reference(op: OperatorDef, x: Array) -> List[Any]:
    forest, labels = forest_of(op), labels_of(op, "classlabels_int64s")
    reached = leaves_reached(forest, rows_of(op, x, forest))
    totals, touched = target_totals(forest, reached, labels.size, "SUM")
    return classified(op, forest, totals, touched)


def classified(op: OperatorDef, forest: Forest, totals: Array, touched: Array) -> List[Any]:
    """Labels and scores, from the totals of the trees, (N, classes). ``touched``: whether any leaf had a weight."""
    labels, transform = labels_of(op, "classlabels_int64s"), transform_of(op)
    base = base_values(op, (0, 1, labels.size))
    used = np.unique(forest.target)
    if labels.size <= 2 and used.size <= 1 and base.size < 2:
        return _one_score(forest, totals, np.broadcast_to(touched, totals.shape), base, labels, transform)
    if labels.size == 2:
        return _two_scores(forest, totals, np.broadcast_to(touched, totals.shape), base, labels, transform)
    if base.size == labels.size:
        totals = totals + base
        touched = np.ones_like(touched)
    best = np.where(touched, totals, -np.inf).argmax(axis=1)
    return [labels[best], transformed(totals, transform).astype(np.float32)]


def _one_score(forest: Forest, totals: Array, touched: Array, base: Array, labels: Array, transform: str) -> List[Any]:
    """Labels and scores of one class, or of two of which leaves score one; the rest as for ``_two_scores``."""
    only = int(forest.target[0]) if forest.target.size else 0
    score = totals[:, only]
    if base.size and only == 0:
        score = np.where(touched[:, 0] | (labels.size == 1), score + base[0], score)
    positive = bool((forest.weight >= 0).all())
    wins = score > (0.5 if positive and labels.size == 2 else 0.0)
    chosen = label_pair(labels)[wins.astype(np.intp)]
    if labels.size == 1:
        return [chosen, transformed(score[:, None], transform).astype(np.float32)]
    if only == 1 or transform == "PROBIT":
        both = transformed(np.stack([np.zeros_like(score), score][:: 1 if only else -1], axis=1), transform)
    else:
        both = both_classes(score, transform, positive and transform != "LOGISTIC")
    return [chosen, both.astype(np.float32)]


def _two_scores(forest: Forest, totals: Array, touched: Array, base: Array, labels: Array, transform: str) -> List[Any]:
    """Labels and scores of two classes; ``touched``, (N, 2): whether any leaf had a weight for the class."""
    apart = np.unique(forest.target).size == 2
    (zero, one), (has_zero, has_one) = totals.T, touched.T
    if base.size == 2 and apart:
        joined = base[1] + zero
        zero, one = np.where(has_one, -joined, zero + base[0]), np.where(has_one, joined, one + base[1])
        has_one = np.ones_like(has_one)
    elif base.size == 2:
        zero, one = np.where(has_zero, zero + base[0], 0.0), np.where(has_one, base[1], 0.0)
    elif base.size:
        zero = np.where(has_zero, zero + base[0], 0.0)
    least = 0.5 if not apart and (forest.weight >= 0).all() else 0.0
    wins = np.where(has_one, one, zero) > least
    chosen = label_pair(labels[:0] if apart and labels.dtype != object else labels)[wins.astype(np.intp)]
    scores = transformed(np.stack([zero, one], axis=1), transform)
    if not base.size and transform != "PROBIT":
        scores = np.where(has_one[:, None], scores, both_classes(zero, transform, False))
    return [chosen, scores.astype(np.float32)]
