"""Cuts arrays into blocks that stay in the cache, so that many passes over them cost no memory bandwidth."""

from __future__ import annotations

import math
from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array

BLOCK = 16384  # elements; four blocks of float32 fit the smallest L2 cache of a 64-bit ARM core


def blocks(shape: Sequence[int], limit: int = BLOCK) -> List[Tuple[Any, ...]]:
    """Indices that cut an array of this shape into blocks of at most ``limit`` elements, in the order of memory.

    Each is contiguous in a contiguous array.
    """
    inner = 1
    for axis in reversed(range(len(shape))):
        if inner * shape[axis] > limit:
            step = limit // inner
            cuts = [slice(i, min(i + step, shape[axis])) for i in range(0, shape[axis], step)]
            return [(*lead, part) for lead in np.ndindex(*shape[:axis]) for part in cuts]
        inner *= shape[axis]
    return [(...,)]


def ranges(total: int, most: int, workers: int = 1) -> List[Tuple[int, int]]:
    """(begin, end) of parts of nearly equal size, none larger than ``most``, the same number for each worker."""
    count = -(-total // most)
    count = min(-(-count // workers) * workers, total)
    return [(total * i // count, total * (i + 1) // count) for i in range(count)]


def block_size(shape: Sequence[int], limit: int = BLOCK) -> int:
    """The number of elements of the largest block of an array of this shape."""
    return min(math.prod(shape), limit)


def cut(operands: Sequence[Array], out: Array, limit: int = BLOCK) -> List[List[Array]]:
    """For each block, the views of the operands, broadcast to ``out``, followed by the view of ``out``."""
    aligned = (x.size == 1 or (x.shape == out.shape and x.flags.c_contiguous) for x in operands)
    if out.flags.c_contiguous and all(aligned):
        operands, out = [x.reshape(-1) for x in operands], out.reshape(-1)
    whole = [*(np.broadcast_to(x, out.shape) for x in operands), out]
    return [[array[index] for array in whole] for index in blocks(out.shape, limit)]
