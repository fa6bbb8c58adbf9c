"""WINOGRAD in one dimension, F(1x4, 7x7), for the 7x7 stem of stride 2 of a plain image: half the multiplies.

The even and the odd pixels of a row are two channels more, of stride 1: 4 taps meet the first, 3 the other, for which
the last tap is zero. Under four outputs side by side lie 7 pixels of each:

    split      S[p, q, c, position]   the image by phase, tiles of 4 x 4 outputs (see ``phase_split.py``)
    pixels     D[i, parity, p, c, position]  = the pixel 8 * column + 2 * i + parity - head
    transform  V = B^T @ D                                                                     (7, 7) @ (7, ...)
    gather     A[f, (parity, ky, c), position] = V[f] of the row under ky
    multiply   M[f, position, m] = A[f]^T @ U[f]             BLAS reads A transposed; for infinity the even pixels alone
    bias                                                     is added to M[1] alone: all outputs take point 1 once
    transform  Y[py, 0 .. 3, position, m] = A^T @ M          straight into the output's planes, as sums of planes if
                                                             that is faster (see ``transforms.py``)

The rows of the kernel are summed up as in any product of matrices. F(4, 4) has the points 0, 1, -1, 2, -2, 1/2 and
infinity (see ``conv/winograd_transforms.py``).
"""

from __future__ import annotations

from typing import Iterator, List, Optional, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines.conv import adding_vectors
from runtime_arm.engines.conv.pointwise import PASS, weight_cost
from runtime_arm.engines.conv.winograd import Variant
from runtime_arm.engines.conv.winograd_transforms import SMALL, transforms
from runtime_arm.engines.tiled.epilogue import Pass, bias, finish
from runtime_arm.engines.tiled.phase_split import PhaseSplit
from runtime_arm.engines.tiled.stem import is_stem
from runtime_arm.engines.tiled.strips import (
    FLOAT32,
    ImageRows,
    Target,
    block_hints,
    block_nbytes,
    body,
    clear,
    clear_borders,
    image_rows,
    in_turn,
)
from runtime_arm.engines.tiled.summed.transforms import from_frequencies
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.records import record
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.kernel import Call, Run, Work
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ZERO, Step, copy, in_lines, multiply, shaped

KERNEL, STRIDE, TILE = 7, 2, 4
TAPS = 4  # of a parity
REACH = TILE + TAPS - 1  # pixels of a parity under a tile, and frequencies
ALL = 1  # the frequency that all outputs take once
RESULT = 6  # what a result of a product takes beside its multiplies, which are few: it is read and written


@record(frozen=True, eq=False, repr=False)
class WinogradStem:
    """The way from (N, C, H, W) into tiles of 4 x 4."""

    convolution: Convolution
    y: Tiles

    engine = "WINOGRAD"
    variants = (Variant(1, TILE, KERNEL).name,)
    x = None
    pooling = None
    reads_slices = False
    writes_slices = False

    @classmethod
    def of(cls, convolution: Convolution, y: TensorSpec) -> Optional[WinogradStem]:
        """The way for a convolution; None if it cannot run so."""
        window = convolution.window
        if not is_stem(convolution) or (window.kernel, window.stride) != ((KERNEL,) * 2, (STRIDE,) * 2):
            return None
        return cls(convolution, Tiles.of(y, TILE, 1)) if set(window.dilation) == {1} else None

    @property
    def depth(self) -> int:
        """Terms of a product."""
        return KERNEL * STRIDE * self.convolution.channels

    @property
    def work(self) -> Work:
        y = self.y
        positions = TILE * y.batch * y.image_tiles((0, 0))[0] * y.pitch
        products = REACH * self.depth * y.channels * (positions + weight_cost())
        before = positions * REACH * (2 * PASS * self.depth + SMALL * REACH * STRIDE * self.convolution.channels)
        behind = positions * y.channels * REACH * (RESULT + SMALL * TILE)
        return Work(products, before + behind, _amplification())

    def split(self, rows: int) -> PhaseSplit:
        """What so many rows of tiles meet of the image."""
        return PhaseSplit(self.convolution.window, self.convolution.channels, self.y, self.y.pitch, rows)

    def most_rows(self, block: int) -> int:
        """Rows of tiles of a strip: V, and A and M of a row of planes, take the bytes of a block."""
        spectrum = STRIDE * STRIDE * TILE * self.convolution.channels
        each = REACH * (spectrum + self.depth + self.y.channels) * self.y.pitch * FLOAT32.itemsize
        return min(max(1, block // each), self.y.image_tiles((0, 0))[0])

    def strips(self, block: int, workers: int = 1) -> List[ImageRows]:
        """If there are enough rows of tiles, as many for each worker."""
        return image_rows(self.y, ranges(self.y.image_tiles((0, 0))[0], self.most_rows(block), workers))

    def scratch(self, op: OperatorDef) -> Sequence[TensorSpec]:
        """S and then V; A; D and then M."""
        rows = self.most_rows(block_nbytes(op))
        split, positions = self.split(rows), rows * self.y.pitch
        pixels = REACH * STRIDE * split.step[0] * split.channels * split.length
        products = REACH * positions * self.y.channels
        sizes = max(pixels, split.size), REACH * self.depth * positions, max(pixels, products)
        return [TensorSpec((size,), FLOAT32) for size in sizes]

    def hints(self, op: OperatorDef) -> Sequence[str]:
        """Other blocks."""
        return list(block_hints(op, self.strips))

    def bind(self, call: Call) -> Run:
        y, block = self.y, block_nbytes(call.op)
        split = self.split(self.most_rows(block))
        filters = call.packed(self.variants[0], lambda: _filters(call.inputs[1]))
        steps: List[Step] = clear_borders(call, y)
        biases = bias(call)
        for rows in call.mine(self.strips(block, call.workers)):
            strip = rows.strip(y)
            steps += split.fill(call.inputs[0][rows.image], call.scratch[0], slice(rows.first, rows.last))
            steps += _transform(call.scratch, split)
            for row in range(TILE):
                steps += self._row(call, split, strip, rows.last - rows.first, row, filters, biases)
            steps += finish(call, Target(y, strip))
            steps += clear(call, y, strip)
        return in_turn(steps)

    def _row(
        self, call: Call, split: PhaseSplit, strip: Strip, high: int, row: int, filters: Array, biases: Sequence[Pass]
    ) -> Iterator[Step]:
        """The planes of one row, ``high`` rows of tiles, before the activation."""
        y, channels = self.y, self.convolution.channels
        matrices = shaped(call.scratch[1], REACH, self.depth, strip.size)
        taps = matrices.reshape(REACH, STRIDE, KERNEL, channels, high, y.pitch)
        spectrum = shaped(call.scratch[0], REACH, STRIDE, split.step[0], channels, split.length)
        for ky in range(KERNEL):
            shift, phase = split.tap(0, row, ky)
            met = spectrum[:, :, phase, :, split.left + shift * split.wide :]
            strides = (*met.strides[:3], split.wide * met.itemsize, met.itemsize)
            yield copy(taps[:, :, ky], as_strided(met, taps[:, :, ky].shape, strides))
        products = shaped(call.scratch[2], REACH, strip.size, y.channels)
        even = slice(self.depth // STRIDE)
        yield multiply(matrices[:-1].swapaxes(1, 2), filters[:-1], products[:-1])
        yield multiply(matrices[-1, even].T, filters[-1, even], products[-1])
        for one in biases:
            yield from one(products[None, None, ALL])
        results = body(call.outputs[0], y, strip)[row].reshape(TILE, -1)
        if adding_vectors.pays():
            yield from from_frequencies(products.reshape(REACH, -1), results)
        else:
            output = transforms(TILE, TAPS).output.astype(np.float32)
            yield multiply(output, products.reshape(REACH, -1), results)


def _transform(scratch: Sequence[Array], split: PhaseSplit) -> Iterator[Step]:
    """V, in the place of S, by way of D."""
    image = shaped(scratch[0], *split.step, split.channels, split.length)
    pixels = shaped(scratch[2], REACH, STRIDE, split.step[0], split.channels, split.length)
    for i in range(REACH):
        for parity in range(STRIDE):
            shift, phase = split.tap(1, 0, STRIDE * i + parity)
            target, source = pixels[i, parity], image[:, phase]
            begin, end = max(0, -shift), split.length - max(0, shift)
            yield copy(target[..., begin:end], source[..., begin + shift : end + shift])
            for part in (target[..., :begin], target[..., end:]):
                if part.size:
                    yield copy(part, ZERO)
    spectrum = shaped(scratch[0], *pixels.shape)
    matrix = transforms(TILE, TAPS).input.astype(np.float32)
    yield multiply(matrix, pixels.reshape(REACH, -1), spectrum.reshape(REACH, -1))


def _filters(w: Array) -> Array:
    """U, (7, 2 * kh * C, M), of the filters (M, C, 7, 7); sums in float64."""
    taps = np.zeros((*w.shape[:3], TAPS, STRIDE))
    taps.reshape(*w.shape[:3], -1)[..., :KERNEL] = w
    u = np.einsum("ft,mckts->fskcm", transforms(TILE, TAPS).filter, taps)
    return in_lines(u.reshape(REACH, -1, len(w)).astype(w.dtype))


def _amplification() -> float:
    """By how much rounding errors grow, as in ``winograd_transforms.amplification``."""
    output, filters, inputs = (np.abs(matrix) for matrix in transforms(TILE, TAPS))
    both = filters.sum(1) + filters[:, : KERNEL - TAPS].sum(1)
    return float((output @ (both * inputs.sum(1))).max() / KERNEL)
