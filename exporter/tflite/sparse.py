"""Expands sparse weights.

TFLite stores them by TACO's scheme (SparsityParameters in its schema): dimensions are traversed in a given order; each
is either dense or has a segment of indices for every parent; blocks are further dimensions at the end.
"""

from __future__ import annotations

import math
from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np

from exporter.tflite.flatbuffer import Table
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array

# The most bytes of a dense tensor for each byte, or index, of its sparse form.
_SPARSEST = 1 << 12
_DENSE, _SPARSE = 0, 1
_INDEX_VECTORS = {1: ("Int32Vector", "i4"), 2: ("Uint16Vector", "u2"), 3: ("Uint8Vector", "u1")}


class _Level(NamedTuple):
    """One dimension in the order of storage; a sparse one has segments and indices."""

    size: int
    segments: Optional[Array]
    indices: Optional[Array]


def densified(data: memoryview, dtype: np.dtype[Any], sparsity: Table, shape: Sequence[int]) -> Array:
    """The dense tensor of this shape with the stored values ``data``. ExportError if they do not fit."""
    dimensions = sparsity.tables("dim_metadata", "DimensionMetadata")
    segments = [_index_vector(table, "array_segments") for table in dimensions if table.integer("format") == _SPARSE]
    held = len(data) + sum(vector.size for vector in segments)
    if len(data) % dtype.itemsize or math.prod(shape) * dtype.itemsize > _SPARSEST * held:
        raise ExportError(f"{len(data)} bytes cannot be a sparse {dtype.name} tensor of shape {tuple(shape)}")
    if not data:  # TensorFlow's converter writes blocks that do not divide such a tensor
        return np.zeros(shape, dtype)
    values = np.frombuffer(data, dtype.newbyteorder("<"))
    order, blocked = sparsity.integers("traversal_order"), sparsity.integers("block_map")
    rank, count = len(shape), len(shape) + len(blocked)
    if sorted(order) != list(range(count)) or len(dimensions) != count or not set(blocked) <= set(range(rank)):
        raise ExportError(f"the sparse dimensions {order} with blocks of {blocked} do not make {rank} dimensions")
    sizes = _sizes(shape, blocked, [dimensions[order.index(rank + i)] for i in range(len(blocked))])
    levels = [_level(table, sizes[axis]) for table, axis in zip(dimensions, order)]
    places = _places(levels)
    if len(places) != len(values):
        raise ExportError(f"its sparse dimensions have {len(places)} values, its buffer {len(values)}")
    stored = np.zeros(math.prod(sizes), dtype)
    stored[places] = values
    whole = stored.reshape([level.size for level in levels]).transpose(np.argsort(order))
    dense: Array = whole.transpose(_joined(rank, blocked)).reshape(shape)
    return dense


def _sizes(shape: Sequence[int], blocked: Sequence[int], blocks: Sequence[Table]) -> List[int]:
    """The number of blocks of each dimension, then the size of each block."""
    inner = [block.integer("dense_size") for block in blocks]
    outer = list(shape)
    for axis, size in zip(blocked, inner):
        if size < 1 or outer[axis] % size:
            raise ExportError(f"blocks of {size} do not divide dimension {axis} of {tuple(shape)}")
        outer[axis] //= size
    return outer + inner


def _joined(rank: int, blocked: Sequence[int]) -> List[int]:
    """The permutation that puts each block's dimension after the dimension that it divides."""
    return [
        axis for outer in range(rank) for axis in (outer, *(rank + i for i, of in enumerate(blocked) if of == outer))
    ]


def _level(table: Table, size: int) -> _Level:
    kind = table.integer("format")
    if kind == _DENSE:
        if table.integer("dense_size") != size:
            raise ExportError(f"a dense dimension has {table.integer('dense_size')} elements instead of {size}")
        return _Level(size, None, None)
    if kind != _SPARSE:
        raise ExportError(f"a dimension has the unknown format {kind}")
    return _Level(size, _index_vector(table, "array_segments"), _index_vector(table, "array_indices"))


def _index_vector(table: Table, name: str) -> Array:
    kind, dtype = _INDEX_VECTORS.get(table.integer(f"{name}_type"), ("", ""))
    vector = table.table(name, kind) if kind else None
    if vector is None:
        raise ExportError(f"a sparse dimension has no {name}")
    return vector.vector("values", dtype).astype(np.int64)


def _places(levels: Sequence[_Level]) -> Array:
    """The place of each stored value in the dense tensor, in the order of storage."""
    places = np.zeros(1, np.int64)
    for level in levels:
        if level.segments is None or level.indices is None:
            places = (places[:, None] * level.size + np.arange(level.size)).reshape(-1)
            continue
        counts = np.diff(level.segments)
        ends = level.segments[[0, -1]].tolist() if level.segments.size else []
        if len(counts) != len(places) or ends != [0, len(level.indices)]:
            raise ExportError(
                f"{len(level.segments)} segments do not divide {len(level.indices)} indices among {len(places)}"
            )
        if np.any((counts < 0) | (counts > level.size)) or np.any(level.indices >= level.size):
            raise ExportError(f"an index lies outside a sparse dimension of {level.size}")
        if np.any(level.indices < 0):
            raise ExportError("an index of a sparse dimension is negative")
        places = np.repeat(places, counts) * level.size + level.indices
    return places
