"""Reductions of consecutive segments of rows, of all segments at once."""

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


# Of float64 rows, cut into segments of these lengths, all positive.
_REDUCTIONS: Dict[str, Reduce] = {
    "Sum": _sum,
    "WeightedSum": _sum,
    "Mean": _mean,
    "Max": _max,
    "LogSumExp": _log_sum_exp,
    "LogMeanExp": _log_mean_exp,
}


def reduce_segments(name: str, rows: Array, counts: Array) -> Array:
    """The reduction (Sum, WeightedSum, Mean, Max, LogSumExp, LogMeanExp) of each segment, float64; 0 of no rows.

    counts: how many of the rows each segment has, one segment behind the other.
    """
    y = np.zeros((counts.size, *rows.shape[1:]))
    there = counts > 0
    if there.any():
        y[there] = _REDUCTIONS[name](rows.astype(np.float64), counts[there].astype(np.int64))
    return y


def weighted(rows: Array, weights: Array) -> Array:
    """Each row times its weight, float64."""
    return np.asarray(rows.astype(np.float64) * weights.reshape((-1,) + (1,) * (rows.ndim - 1)))
