"""Scores of classes: the transforms that follow a model, and the winning label. No operator is declared here.

Source: onnxruntime, core/providers/cpu/ml/ml_common.h, which decides where ai.onnx.ml leaves something open.
"""

from __future__ import annotations

import math

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")


def transform_of(op: OperatorDef) -> str:
    """``post_transform``, by default NONE. ArgumentError if there is no such transform."""
    transform = op.get_str("post_transform", "NONE")
    if transform not in TRANSFORMS:
        raise ArgumentError(op, f"post_transform must be one of {', '.join(TRANSFORMS)}, got {transform!r}")
    return transform


def transformed(scores: Array, transform: str) -> Array:
    """The scores, (N, C), after a transform. SOFTMAX is over C, SOFTMAX_ZERO over the scores that are not 0.

    A single score, C = 1, stays as it is unless the transform is PROBIT.
    """
    if scores.shape[1] == 1 and transform != "PROBIT":
        return scores
    with np.errstate(all="ignore"):
        if transform == "LOGISTIC":
            return logistic(scores)
        if transform == "PROBIT":
            return _probit(scores)
        if transform in ("SOFTMAX", "SOFTMAX_ZERO"):
            top = scores.max(axis=1, keepdims=True)
            powers = np.exp(scores - top)
            if transform == "SOFTMAX_ZERO":
                powers = np.where(np.abs(scores) > 1e-7, powers, scores * np.exp(-top))
            result: Array = powers / powers.sum(axis=1, keepdims=True)
            return result
    return scores


def logistic(scores: Array) -> Array:
    """1 / (1 + exp(-scores)), without overflow."""
    with np.errstate(all="ignore"):
        positive = 1 / (1 + np.exp(-np.abs(scores)))
    result: Array = np.where(scores < 0, 1 - positive, positive)
    return result


def _probit(scores: Array) -> Array:
    """sqrt(2) * erfinv(2 * scores - 1), with Winitzki's approximation of erfinv, a = 0.147, as in onnxruntime."""
    x = 2 * scores - 1
    log = np.log((1 - x) * (1 + x))
    v = 2 / (3.14159 * 0.147) + 0.5 * log
    root = np.sqrt(np.sqrt(v * v - log / 0.147) - v)
    result: Array = math.sqrt(2.0) * np.where(x < 0, -root, root)
    return result


def labels_of(op: OperatorDef, integers: str) -> Array:
    """The labels of the classes: ``classlabels_strings``, else attribute ``integers``. ArgumentError without either."""
    strings = op.get_strs("classlabels_strings")
    if strings:
        labels = np.empty(len(strings), object)
        labels[:] = [text.encode() for text in strings]
        return labels
    if not op.get_ints(integers):
        raise ArgumentError(op, f"needs classlabels_strings or {integers}")
    return np.array(op.get_ints(integers), np.int64)


def label_pair(labels: Array) -> Array:
    """The labels for "no" and "yes": the model's own if it has two classes, else 0 and 1."""
    if labels.size == 2:
        return labels
    if labels.dtype != object:
        return np.array([0, 1], np.int64)
    pair = np.empty(2, object)
    pair[:] = [b"0", b"1"]
    return pair


def both_classes(score: Array, transform: str, complement: bool) -> Array:
    """The scores for "no" and "yes", (N, 2), from the score s for "yes", (N,).

    They are (1 - s, s) with ``complement``, else (logistic(-s), logistic(s)) for LOGISTIC, else (-s, s).
    """
    if complement:
        return np.stack([1 - score, score], axis=1)
    if transform == "LOGISTIC":
        return np.stack([logistic(-score), logistic(score)], axis=1)
    return np.stack([-score, score], axis=1)
