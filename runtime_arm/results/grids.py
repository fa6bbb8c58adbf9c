"""Grids of cells that detectors lay over a picture."""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array


def cell_count(height: Optional[int], width: Optional[int], strides: Sequence[int], anchors: int = 1) -> Optional[int]:
    """How many cells the levels have together, times the anchors of a cell; None for a picture of open size."""
    if height is None or width is None:
        return None
    return sum(-(-height // stride) * -(-width // stride) for stride in strides) * anchors


def cells(height: int, width: int, strides: Sequence[int], anchors: int = 1) -> Tuple[Array, Array]:
    """Column and row (n, 2) and stride (n, 1) of every cell, level by level, row by row, each ``anchors`` times."""
    places, sizes = [], []
    for stride in strides:
        rows, columns = -(-height // stride), -(-width // stride)
        y, x = np.mgrid[:rows, :columns]
        level = np.repeat(np.stack([x, y], axis=-1).reshape(-1, 2), anchors, axis=0)
        places.append(level)
        sizes.append(np.full((len(level), 1), stride))
    return np.concatenate(places).astype(np.float64), np.concatenate(sizes).astype(np.float64)
