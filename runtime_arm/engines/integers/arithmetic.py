"""Keeps sums of products of integers exact in floats, from weights that are known in advance (see ``onnx.py``)."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array

EXACT = 1 << 24
INT32 = 1 << 31


class Arithmetic(NamedTuple):
    """What is subtracted from pixels, products in one slice of a sum, and whether slices are added in float64.

    dtype: that of pixels, weights and sums; float64, which needs no slices, for pixels of 16 bits.
    """

    centre: int
    slice_terms: int
    wide: bool
    dtype: Any = np.float32


def weights_of(w: Array, zero_point: Optional[Array]) -> Array:
    """Weights less their zero point as int16 (M, terms)."""
    filters = w.reshape(w.shape[0], -1).astype(np.int16)
    return filters if zero_point is None else filters - zero_point.astype(np.int16).reshape(-1, 1)


def choose_arithmetic(weights: Array, bias: Array, dtype: Any, zero_points: Sequence[int]) -> Arithmetic:
    """The cheapest exact arithmetic for pixels of the dtype with one of these zero points.

    weights: integers (M, terms), bias: int64 (M).
    """
    if np.dtype(dtype).itemsize == 2:
        return Arithmetic(0, weights.shape[1], False, np.float64)
    totals, reach = weights.sum(1, dtype=np.int64), np.abs(weights).sum(1, dtype=np.int64)
    limits = np.iinfo(dtype)
    for centre in (0, 128) if limits.min == 0 else (0,):
        magnitude = max(int(limits.max) - centre, centre - int(limits.min))
        offsets = [np.abs(bias + (centre - zero_point) * totals) for zero_point in zero_points]
        if all((reach * magnitude + offset < EXACT).all() for offset in offsets):
            return Arithmetic(centre, weights.shape[1], False)
    largest = int(np.abs(weights).max(initial=1))
    return Arithmetic(centre, min(max((EXACT - 1) // (magnitude * largest), 1), weights.shape[1]), True)


def slices_of(weights: Array, group: int, slice_terms: int, dtype: Any = np.float32) -> List[Tuple[slice, Array]]:
    """The terms of each slice and its weights, of a float type, (group, M / group, terms)."""
    filters = weights.reshape(group, weights.shape[0] // group, -1)
    parts = [slice(i, min(i + slice_terms, filters.shape[2])) for i in range(0, filters.shape[2], slice_terms)]
    return [(part, np.ascontiguousarray(filters[..., part], dtype)) for part in parts]
