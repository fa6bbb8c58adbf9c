"""Functions of 8-bit or 16-bit numbers as lookup tables."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.registry.blocks import block_size, cut
from runtime_arm.registry.kernel import Run
from runtime_arm.registry.specs import Shape, TensorSpec


def table_of(dtype: Any, function: Callable[[Array], Array]) -> Array:
    """The function's value for every number of an 8-bit or 16-bit dtype, indexed by the number's bits as unsigned."""
    bits = _bits(dtype)
    return function(np.arange(np.iinfo(bits).max + 1, dtype=bits).view(dtype))


def _bits(dtype: Any) -> Any:
    return np.uint8 if np.dtype(dtype).itemsize == 1 else np.uint16


def lookup_scratch(shapes: Sequence[Shape], itemsize: int = 1) -> List[TensorSpec]:
    """The scratch of ``bind_lookup`` for arrays of any of these shapes and outputs of that many bytes."""
    size = max(map(block_size, shapes), default=0)
    return [TensorSpec((size,), np.intp), TensorSpec((size * itemsize,), np.uint8)]


def bind_lookup(x: Array, table: Array, y: Array, scratch: Sequence[Array]) -> Run:
    """A run of y = table[x], in blocks. ``x`` is 8-bit or 16-bit and of y's shape; ``y`` need not be contiguous."""
    parts = []
    for source, target in cut([x.view(_bits(x.dtype))], y):
        index = scratch[0][: source.size].reshape(source.shape)
        found = target
        if not target.flags.c_contiguous:
            found = scratch[1][: source.size * table.itemsize].view(table.dtype).reshape(source.shape)
        parts.append((source, index, found, target))

    def run() -> None:
        for source, index, found, target in parts:
            np.copyto(index, source)
            np.take(table, index, out=found, mode="clip")
            if found is not target:
                np.copyto(target, found)

    return run
