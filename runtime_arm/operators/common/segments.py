"""Reductions of consecutive segments of rows, all segments at once."""

from __future__ import annotations

from typing import Any, Callable, Dict

import numpy as np

from runtime_arm.netdef import Array

Reduce = Callable[[Array, Array], Any]


def _starts(counts: Array) -> Array:
    return np.cumsum(counts) - counts


def _column(counts: Array, rows: Array) -> Array:
    return counts.reshape((-1,) + (1,) * (rows.ndim - 1))


def _sum(rows: Array, counts: Array) -> Any:
    return np.add.reduceat(rows, _starts(counts), axis=0)


def _mean(rows: Array, counts: Array) -> Any:
    return _sum(rows, counts) / _column(counts, rows)


def _max(rows: Array, counts: Array) -> Any:
    return np.maximum.reduceat(rows, _starts(counts), axis=0)


def _log_mean_exp(rows: Array, counts: Array) -> Any:
    largest = _max(rows, counts)
    return np.log(_mean(np.exp(rows - np.repeat(largest, counts, axis=0)), counts)) + largest


def _log_sum_exp(rows: Array, counts: Array) -> Any:
    return _log_mean_exp(rows, counts) + np.log(_column(counts, rows))


# Each takes float64 rows and the lengths of the segments, all positive.
_REDUCTIONS: Dict[str, Reduce] = {
    "Sum": _sum,
    "WeightedSum": _sum,
    "Mean": _mean,
    "Max": _max,
    "LogSumExp": _log_sum_exp,
    "LogMeanExp": _log_mean_exp,
}


def reduce_segments(name: str, rows: Array, counts: Array) -> Array:
    """The reduction of each segment, float64; 0 for an empty segment.

    name: Sum, WeightedSum, Mean, Max, LogSumExp or LogMeanExp. counts: the number of rows of each segment, in order.
    """
    y = np.zeros((counts.size, *rows.shape[1:]))
    there = counts > 0
    if there.any():
        y[there] = _REDUCTIONS[name](rows.astype(np.float64), counts[there].astype(np.int64))
    return y


def weighted(rows: Array, weights: Array) -> Array:
    """Each row multiplied by its weight, float64."""
    return np.asarray(rows.astype(np.float64) * weights.reshape((-1,) + (1,) * (rows.ndim - 1)))
