"""LambdaRankNdcg: how well scores rank the documents of each session (Caffe2)."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

LEAST_GAIN = 1e-5  # of the best order, where gains are divided by it


def _require_sessions(op: OperatorDef, y: TensorSpec, lengths: TensorSpec) -> None:
    fits = y.ndim == 1 and lengths.ndim == 1 and lengths.dtype == np.int32
    require(op, fits, "scores must be (N,), lengths (sessions,) int32", y, lengths)


def _check_lengths(op: OperatorDef, y: Array, lengths: Array) -> None:
    """ShapeError unless the sessions are the whole of Y and each begins within it, as Caffe2 has it."""
    begins = np.cumsum(lengths) - lengths
    right = (lengths >= 0).all() and lengths.sum() == len(y) and (begins < len(y)).all()
    require(op, bool(right), "the lengths must add up to the number of scores, and no empty session may be the last")


@operator("LambdaRankNdcg", inputs=3, outputs=2, dtypes=FLOAT32)
def lambda_rank_ndcg(op: OperatorDef, y: TensorSpec, r: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """The loss of each session, and its slope by the scores Y.

    Inputs: Y (N,), ratings R (N,), lengths (sessions,) int32. A document of rating r gains 2^r, discounted by 1 /
    log2(place + 1), with places from 1. Of each pair with r_i > r_j the loss is -2 w log sigmoid(Y_i - Y_j), w being
    what their exchange would cost, and the slope by Y_i -w sigmoid(Y_j - Y_i). With ``use_ndcg_as_loss`` the loss is
    instead the best gain less the gain, and without ``use_exp_gain`` r itself is the gain. All are divided by the best
    gain unless ``use_idcg_normalization`` is 0. Source: Caffe2; Wu et al., Adapting Boosting for Information Retrieval
    Measures (2010).
    """
    _require_sessions(op, y, lengths)
    require(op, r == y, "there must be one float32 rating for each score", y, r)
    return [y.with_shape(lengths.shape), y]


def _session(op: OperatorDef, y: Array, r: Array) -> Tuple[float, Array]:
    """Loss and slopes of one session, in float64."""
    as_loss = op.get_bool("use_ndcg_as_loss")
    gain = np.exp2(r) if op.get_bool("use_exp_gain", True) or not as_loss else r
    by_place = 1 / np.log2(np.arange(len(y)) + 2)
    discount = np.empty(len(y))
    discount[np.argsort(-y, kind="stable")] = by_place
    best = float((np.sort(gain)[::-1] * by_place).sum())
    better = np.sign(r[:, None] - r)
    apart = better * (y[:, None] - y)
    cost = np.abs((gain[:, None] - gain) * (discount[:, None] - discount))
    loss = best - float((gain * discount).sum()) if as_loss else float((cost * np.logaddexp(0, -apart)).sum())
    slopes = -(cost * better * np.exp(-np.logaddexp(0, apart))).sum(axis=1)
    share = max(best, LEAST_GAIN) if op.get_bool("use_idcg_normalization", True) else 1.0
    return loss / share, slopes / share


@lambda_rank_ndcg.reference
def lambda_rank_ndcg_reference(op: OperatorDef, y: Array, r: Array, lengths: Array) -> List[Any]:
    _check_lengths(op, y, lengths)
    losses, slopes, start = np.zeros(len(lengths), np.float32), np.zeros_like(y), 0
    for at, length in enumerate(lengths):
        part = slice(start, start + length)
        losses[at], slopes[part] = _session(op, y[part].astype(np.float64), r[part].astype(np.float64))
        start += length
    return [losses, slopes]


@operator("LambdaRankNdcgGradient", inputs=4)
def lambda_rank_ndcg_gradient(
    op: OperatorDef, y: TensorSpec, lengths: TensorSpec, slopes: TensorSpec, dloss: TensorSpec
) -> List[TensorSpec]:
    """dY: the slopes that LambdaRankNdcg made, times dloss of their session."""
    _require_sessions(op, y, lengths)
    fits = slopes == y and dloss == y.with_shape(lengths.shape)
    require(op, fits, "there must be a slope for each score and a dloss for each session", y, slopes, lengths, dloss)
    return [y]


@lambda_rank_ndcg_gradient.reference
def lambda_rank_ndcg_gradient_reference(
    op: OperatorDef, y: Array, lengths: Array, slopes: Array, dloss: Array
) -> List[Any]:
    _check_lengths(op, y, lengths)
    return [slopes * np.repeat(dloss, lengths)]
