"""WINOGRAD in one dimension, F(4, 4), for convolutions of 7x7 and stride 2 of a plain image of few channels: 7 products
for four outputs of a column instead of 14.

A tile of 4 rows of outputs meets the rows 2 t + r of the image, split by phase (see ``phase_split.py``; S counts them
from the first one that is met). So a column of the kernel is the sum of two with a stride of 1: the even taps, which
are four, and the odd ones, which are three and a zero. For each of these phases r

    rows      D[r, a]   = sum over t = 0 .. 6 of B^T[a, t] * S[2 t + r]     rows from 8 on are those of the next tile
    columns   C[a, (r, kx, c), position]   what the outputs of a column of planes meet of D        copies of long runs
    multiply  M[a]      = C[a]^T @ U[a]             (positions, 14 * C) @ (14 * C, M); the bias is added to M[1] alone
    rows      Y[py]     = sum over a of A^T[py, a] * M[a]                         straight into the planes of the output

The columns of the kernel are summed up as in any product of matrices, since transforms of few channels in both
dimensions take longer than they save. This is for a BLAS that packs; where small products are fast, so is ``stem.py``.
"""

from __future__ import annotations

from typing import Iterator, List, Sequence

import numpy as np

from runtime_arm.engines.conv import axpy
from runtime_arm.engines.conv.pointwise import PASS, weight_cost
from runtime_arm.engines.conv.sgemm import add_product
from runtime_arm.engines.conv.winograd import Variant
from runtime_arm.engines.conv.winograd_transforms import SMALL, amplification, transforms
from runtime_arm.engines.tiled.epilogue import bias, finish
from runtime_arm.engines.tiled.phase_split import PhaseSplit
from runtime_arm.engines.tiled.strips import (
    FLOAT32,
    ImageRows,
    Target,
    block_nbytes,
    clear,
    clear_borders,
    image_rows,
    in_turn,
)
from runtime_arm.engines.tiled.tile_transforms import accumulates, transform_back_rows
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.records import record
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.kernel import Call, Run, Work, no_hints
from runtime_arm.registry.layouts import Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, multiply, shaped

TILE, STRIDE, KERNEL = 4, 2, 7
TAPS = (KERNEL + 1) // STRIDE  # of a phase
REACH = TILE + TAPS - 1  # rows of a phase that a tile meets, and products


@record(frozen=True, eq=False, repr=False)
class WinogradStem:
    """The algorithm from (N, C, H, W) into tiles of 4 x 4."""

    convolution: Convolution
    y: Tiles

    engine = "WINOGRAD"
    variants = (Variant(TILE, 1, KERNEL).name,)
    x = None
    pooling = None
    reads_slices = False
    writes_slices = False
    hints = staticmethod(no_hints)

    @property
    def terms(self) -> int:
        """Of a product: both phases, the columns of the kernel, all channels of each."""
        return STRIDE * KERNEL * self.convolution.channels

    def suits(self) -> bool:
        """Whether it can run, and is faster than direct products."""
        window = self.convolution.window
        if not (
            window.kernel == (KERNEL, KERNEL) and window.stride == (STRIDE, STRIDE) and set(window.dilation) == {1}
        ):
            return False
        return accumulates() and self._split(1).wide == self.y.pitch

    def _split(self, rows: int) -> PhaseSplit:
        return PhaseSplit(self.convolution.window, self.convolution.channels, self.y, self.y.pitch, rows)

    @property
    def work(self) -> Work:
        y, filters = self.y, self.convolution.filters
        positions = y.batch * y.image_tiles((0, 0))[0] * y.pitch * TILE  # of all columns of planes
        products = REACH * filters * self.terms * (positions + weight_cost())
        transform = SMALL * TILE * REACH * filters * positions
        return Work(products + transform, 2 * PASS * REACH * self.terms * positions, amplification(TILE, 1, TAPS))

    def strips(self, block: int, workers: int = 1) -> List[ImageRows]:
        """Strips of whole rows of tiles, whose columns and products take this many bytes."""
        y = self.y
        most = max(1, block // (REACH * (self.terms + self.convolution.filters) * y.pitch * FLOAT32.itemsize))
        return image_rows(y, ranges(y.image_tiles((0, 0))[0], most, workers))

    def scratch(self, op: OperatorDef) -> Sequence[TensorSpec]:
        """The split image of a strip, what becomes of its rows, the columns, and the products."""
        rows = max(strip.last - strip.first for strip in self.strips(block_nbytes(op)))
        size, positions = self._split(rows).size, rows * self.y.pitch
        sizes = size, size // (STRIDE * TILE) * STRIDE * REACH
        each = REACH * positions
        return [TensorSpec((count,), FLOAT32) for count in (*sizes, each * self.terms, each * self.convolution.filters)]

    def bind(self, call: Call) -> Run:
        y, filters, channels = self.y, self.convolution.filters, self.convolution.channels
        weights = call.packed("f4x1_7x7", lambda: _filters(call.inputs[1]))
        biases = bias(call)
        steps: List[Step] = clear_borders(call, y)
        strips = self.strips(block_nbytes(call.op), call.workers)
        split = self._split(max((rows.last - rows.first for rows in strips), default=1))
        for rows in call.mine(strips):
            strip, target = rows.strip(y), Target(y, rows.strip(y))
            steps += split.fill(call.inputs[0][rows.image], call.scratch[0], slice(rows.first, rows.last))
            spectrum = shaped(call.scratch[1], STRIDE, REACH, split.size // (STRIDE * TILE))
            steps += _rows(shaped(call.scratch[0], TILE * STRIDE, spectrum.shape[2]), spectrum, split.wide)
            met = spectrum.reshape(STRIDE, REACH, STRIDE * TILE, channels, split.length).swapaxes(0, 1)
            columns = shaped(call.scratch[2], REACH, STRIDE, KERNEL, channels, strip.size)
            products = shaped(call.scratch[3], REACH, strip.size, filters)
            results = target.of(call.outputs[0])
            for px in range(TILE):
                steps += split.meet_columns(met, px, columns)
                steps.append(multiply(columns.reshape(REACH, -1, strip.size).swapaxes(1, 2), weights, products))
                for one in biases:
                    steps += one(products[None, None, 1])
                steps += _back(products.reshape(REACH, -1), results[:, px].reshape(TILE, -1))
            steps += finish(call, target)
            steps += clear(call, y, strip)
        return in_turn(steps)


def _back(products: Array, pixels: Array) -> Iterator[Step]:
    if not axpy.pays():
        return transform_back_rows(products, pixels)
    from runtime_arm.engines.tiled.summed.transforms import from_frequencies

    return from_frequencies(products, pixels)


def _filters(w: Array) -> Array:
    """U, (7, 14 * C, M), of the filters (M, C, 7, 7); sums in float64."""
    padded = np.pad(w.astype(np.float64), [(0, 0), (0, 0), (0, STRIDE * TAPS - KERNEL), (0, 0)])
    taps = padded.reshape(*w.shape[:2], TAPS, STRIDE, KERNEL)
    u = np.einsum("at,mctrx->arxcm", transforms(TILE, TAPS).filter, taps)
    return np.ascontiguousarray(u.reshape(REACH, -1, len(w)).astype(w.dtype))


def _rows(split: Array, spectrum: Array, wide: int) -> Iterator[Step]:
    """Fill ``spectrum``, (r, a, numbers), from S, (8, numbers). wide: how many numbers away the next row of tiles lies.
    Positions after the last row are left out."""
    matrix = transforms(TILE, TAPS).input.astype(split.dtype)
    own, next_tile = np.ascontiguousarray(matrix[:, :TILE]), np.ascontiguousarray(matrix[:, TILE:])
    for phase in range(STRIDE):
        rows, target = split[phase::STRIDE], spectrum[phase, :, :-wide]
        yield multiply(own, rows[:, :-wide], target)
        yield add_product(next_tile, rows[: REACH - TILE, wide:], target)
