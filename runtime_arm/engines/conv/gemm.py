"""Products with constant matrices, cut so that BLAS does not pack its operands.

OpenBLAS has kernels that multiply small matrices, M * N * K up to about a million, without packing them; on x86 it has
them for AVX-512. The constant matrix is stored in panels of its columns, and one call of ``np.matmul`` over
leading dimensions multiplies all blocks of rows with all panels, straight into place:

    A   (batch, rows, K)       ->   (batch, blocks, 1, rows of a block, K)
    B   (batch, K, N)          ->   (batch, 1, panels, K, columns of a panel), contiguous
    out (batch, rows, N)       ->   (batch, blocks, panels, rows of a block, columns of a panel)
"""

from __future__ import annotations

from copy import copy
from functools import lru_cache, partial
from typing import Callable, Iterator, List, Optional, Tuple

import numpy as np

from runtime_arm.machine import blas
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.engine_preferences import PANEL, hint
from runtime_arm.registry.kernel import Call
from runtime_arm.registry.steps import Step, in_lines, multiply

SMALL_PRODUCT = 1_000_000  # M * N * K up to which OpenBLAS uses its small kernels, which do not pack
WIDE, NARROW = (64, 48), (32, 24, 16, 40)  # columns of a panel: multiples of a vector, or of half of one
WIDE_DEPTH, NARROW_DEPTH = 128, 320  # rows up to which such a panel stays in or near the first-level cache
VECTOR = 8  # numbers of the narrower vectors that CPUs have
FEW_ROWS, FEW_ROWS_DEPTH = 32, 512  # with so few rows, panels are read from memory anyway
SOME_ROWS, SOME_ROWS_DEPTH = 64, 1024  # for so few rows, packing a matrix takes long


class Panels:
    """A constant (batch, K, N) or (K, N), ready for products with about this many rows.

    panel: the hint of that name (see ``registry/engine_preferences.py``). None, or a number that does not divide N,
    leaves the width to ``panel_width``. shares: the number of workers that share the panels.
    """

    def __init__(self, matrices: Array, rows: int, panel: Optional[int] = None, shares: int = 1):
        b = matrices if matrices.ndim == 3 else matrices[None]
        self.batch, self.depth, self.width = b.shape
        fitting = width_for(panel, rows, self.depth, self.width, shares)
        self.panel = fitting or self.width
        self._most = SMALL_PRODUCT // max(1, self.depth * fitting) if fitting else 0
        panels = b.reshape(self.batch, self.depth, -1, self.panel).swapaxes(1, 2)
        self._panels = in_lines(panels) if fitting else np.ascontiguousarray(panels)

    @classmethod
    def of(
        cls, call: Call, key: str, rows: int, weight: Array, matrices_of: Callable[[Array], Array], shares: int = 1
    ) -> Panels:
        """The panels that the call's operator needs of a weight, made once for all plans that multiply about as many
        rows; it may hint at their width. The kernel does not read the weight itself."""
        panel = hint(call.op, PANEL)
        key = f"{key} by {rows} in {panel} for {shares}"
        panels: Panels = call.packed(key, lambda: cls(matrices_of(weight), rows, panel, shares))
        if not np.may_share_memory(panels._panels, weight):
            call.release(weight)
        return panels

    @property
    def group(self) -> int:
        """Columns that must stay together: a panel, or a vector."""
        return self.panel if self.panel < self.width else VECTOR

    def columns(self, which: slice) -> Panels:
        """Some columns of the matrices, whole panels of them; they share the memory."""
        part = copy(self)
        begin, end, _ = which.indices(self.width)
        part.width = end - begin
        if self.panel < self.width:
            part._panels = self._panels[:, begin // self.panel : end // self.panel]
        else:
            part._panels, part.panel = self._panels[..., begin:end], part.width
        return part

    def scaled(self, factors: Array, buffer: Array) -> Tuple[Step, Panels]:
        """Panels in a buffer, of one matrix whose rows are multiplied with factors (K), and the step that fills it."""
        part = copy(self)
        part._panels = buffer[: self._panels.size].reshape(self._panels.shape)
        return partial(np.multiply, self._panels, factors[:, None], out=part._panels), part

    def multiply(self, a: Array, out: Array) -> Iterator[Step]:
        """out = a @ matrices; a: (batch, rows, K), out: (batch, rows, N), their last dimension contiguous."""
        rows = a.shape[1]
        blocks = -(-rows // self._most) if self._most else 1
        size, longer = divmod(rows, blocks)
        cut = longer * (size + 1)
        if cut:
            yield self._multiply(a[:, :cut], out[:, :cut], size + 1)
        if cut < rows:
            yield self._multiply(a[:, cut:], out[:, cut:], size)

    @property
    def can_add(self) -> bool:
        """Whether products can be added to the content of their target: if one matrix is not cut into panels."""
        from runtime_arm.engines.conv import sgemm

        whole = self.batch == 1 and not self._most and self._panels.dtype == np.float32
        return whole and sgemm.can_add()

    def add(self, a: Array, out: Array) -> Step:
        """The step out += a @ matrix; a: (rows, K), out: (rows, N). ``can_add`` must hold."""
        from runtime_arm.engines.conv.sgemm import add_product

        return add_product(a, self._panels[0, 0], out)

    def _multiply(self, a: Array, out: Array, block: int) -> Step:
        if self.panel == self.width and a.shape[:2] == (1, block):
            return multiply(a[0], self._panels[0, 0], out[0])
        left = a.reshape(a.shape[0], -1, 1, block, self.depth)
        target = out.reshape(a.shape[0], -1, block, self.width // self.panel, self.panel)
        return partial(np.matmul, left, self._panels[:, None], out=target.swapaxes(2, 3))


def panel_hints(op: OperatorDef, rows: int, depth: int, width: int) -> Iterator[str]:
    """Hints of panels other than the operator's own."""
    tried = {width_for(hint(op, PANEL), rows, depth, width)}
    for panel in (0, NARROW[0], WIDE[0]):
        other = width_for(panel, rows, depth, width)
        if other not in tried:
            tried.add(other)
            yield f"{PANEL}={panel}"


def width_for(panel: Optional[int], rows: int, depth: int, width: int, shares: int = 1) -> Optional[int]:
    """Columns of a panel, None for no panels: the hint if it makes sense, else ``panel_width``."""
    if panel == 0:
        return None
    if panel is not None and panel >= VECTOR and width % panel == 0:
        return panel
    return panel_width(rows, depth, width, shares)


def panel_width(rows: int, depth: int, width: int, shares: int = 1) -> Optional[int]:
    """Columns of a panel; None if this BLAS is faster at products that it packs. A CPU that takes two steps for a wide
    vector has the time to read narrow panels of any depth from the second-level cache: packing takes 10 to 20 % more
    there, of 49 to 784 rows, a depth of 350 to 2,300, and 64 or 256 columns. Each of ``shares`` workers gets as many
    panels, if there is such a width."""
    if not multiplies_small():
        return None
    fitting: List[int] = []
    if depth <= WIDE_DEPTH or (rows <= FEW_ROWS and depth <= FEW_ROWS_DEPTH):
        fitting += WIDE
    if depth <= NARROW_DEPTH or (rows <= SOME_ROWS and depth <= SOME_ROWS_DEPTH) or halves_vectors():
        fitting += NARROW
    fitting = [panel for panel in fitting if width % panel == 0]
    return next((panel for panel in fitting if width // panel % shares == 0), fitting[0] if fitting else None)


@lru_cache(None)
def multiplies_small() -> bool:
    """Whether this BLAS has kernels for small matrices: OpenBLAS from 0.3.17 on CPUs with AVX-512."""
    return blas.is_wide()


@lru_cache(None)
def multiplies_scalars() -> bool:
    """Whether this BLAS multiplies number by number: OpenBLAS in Debian's packages for 32-bit ARM."""
    library = blas.loaded()
    return library is not None and library.core in blas.SCALAR_CORES


@lru_cache(None)
def halves_vectors() -> bool:
    """Whether this CPU multiplies vectors of 512 bits as two halves, as those of AMD's family 25 do (Zen 4)."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = file.read(512)
    except OSError:
        return False
    return b"AuthenticAMD" in text and b"cpu family\t: 25\n" in text
