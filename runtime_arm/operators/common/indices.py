"""Indices that are data: they are checked before they are used."""

from __future__ import annotations

import numpy as np

from runtime_arm.errors import ShapeError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import require
from runtime_arm.registry.specs import TensorSpec


def require_indices(op: OperatorDef, indices: TensorSpec) -> None:
    """ShapeError unless the indices are int32 or int64."""
    require(op, indices.dtype.name in ("int32", "int64"), "indices must be int32 or int64", indices)


def check_range(op: OperatorDef, indices: Array, length: int, wraps: bool = True) -> None:
    """ShapeError with the first index outside 0..length-1, or with ``wraps`` outside -length..length-1."""
    if indices.size == 0:
        return
    if indices.size == 1:
        lowest = highest = indices.item()
    else:
        lowest, highest = int(indices.min()), int(indices.max())
    least = -length if wraps else 0
    if lowest < least or highest >= length:
        wrong = lowest if lowest < least else highest
        raise ShapeError(op, f"index {wrong} is out of range: it must be {least} to {length - 1}")


def absolute(op: OperatorDef, indices: Array, length: int, wraps: bool = True) -> Array:
    """The indices as int64; with ``wraps``, negative ones count from the end. ShapeError if one is out of range."""
    check_range(op, indices, length, wraps)
    wide = indices.astype(np.int64)
    return np.where(wide < 0, wide + length, wide) if wraps else wide
