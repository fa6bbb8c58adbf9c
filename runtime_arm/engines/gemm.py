"""Products with constant matrices, cut so that BLAS does not pack its operands.

OpenBLAS multiplies small matrices, M * N * K up to about a million, by kernels without packing where it has them (on
x86 with AVX-512 it does). The constant matrix is stored in panels of its columns, and one call of ``np.matmul`` over
leading dimensions multiplies all blocks of rows with all panels, straight into place:

    A   (batch, rows, K)       ->   (batch, blocks, 1, rows of a block, K)
    B   (batch, K, N)          ->   (batch, 1, panels, K, columns of a panel), contiguous
    out (batch, rows, N)       ->   (batch, blocks, panels, rows of a block, columns of a panel)
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Callable, Iterator

import numpy as np

from runtime_arm import blas
from runtime_arm.engines.steps import Step
from runtime_arm.kernel import Call
from runtime_arm.netdef import Array

SMALL_PRODUCT = 1_000_000
PANEL = 64  # columns: four vectors of 512 bits
LEAST_ROWS = 96  # of a block; where only fewer make a small product, packing costs less than the many calls


class Panels:
    """A constant (batch, K, N), or (K, N), ready to be multiplied with."""

    def __init__(self, matrices: Array):
        b = matrices if matrices.ndim == 3 else matrices[None]
        self.batch, self.depth, self.width = b.shape
        self._most = SMALL_PRODUCT // max(1, self.depth * PANEL)
        self._small = _multiplies_small() and self.width % PANEL == 0 and self._most >= LEAST_ROWS
        self.panel = PANEL if self._small else self.width
        self._panels = np.ascontiguousarray(
            b.reshape(self.batch, self.depth, -1, self.panel).swapaxes(1, 2))  # fmt: skip

    @classmethod
    def of(cls, call: Call, key: str, make: Callable[[], Array]) -> Panels:
        """Made once for all plans of the call's operator."""
        panels: Panels = call.packed(key, lambda: cls(make()))
        return panels

    def multiply(self, a: Array, out: Array) -> Iterator[Step]:
        """out = a @ matrices; a: (batch, rows, K), out: (batch, rows, N), their last dimension contiguous."""
        rows = a.shape[1]
        block = rows // -(-rows // self._most) if self._small else rows
        whole = rows // max(block, 1) * block
        yield self._multiply(a[:, :whole], out[:, :whole], block)
        if whole < rows:
            yield self._multiply(a[:, whole:], out[:, whole:], rows - whole)

    def _multiply(self, a: Array, out: Array, block: int) -> Step:
        left = a.reshape(a.shape[0], -1, 1, block, self.depth)
        target = out.reshape(a.shape[0], -1, block, self.width // self.panel, self.panel)
        return partial(np.matmul, left, self._panels[:, None], out=target.swapaxes(2, 3))


@lru_cache(None)
def _multiplies_small() -> bool:
    """Whether this BLAS has kernels for small matrices: OpenBLAS from 0.3.17 on CPUs with AVX-512."""
    library = blas.loaded()
    return library is not None and library.core in ("SkylakeX", "Cooperlake", "SapphireRapids")
