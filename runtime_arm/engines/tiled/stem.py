"""IM2COL from a plain image of few channels into tiles: the first convolution of most networks.

The columns lie transposed, with one row of many positions for each tap and channel:

    split     S = the image, split by phase                        once a strip (see ``phase_split.py``)
    columns   A[(kx, ky, c), position] = what the taps meet of S   long runs
    multiply  Y[py, px, position, m]   = A^T @ W^T                 BLAS reads A transposed

Two planes side by side meet the same pixels but for s columns of the kernel, so they share A; s is the stride. Rows of
ones carry the bias:

    kx = 0 .. kw - 1          the first plane has the rows from here ...
    ones                      ... to here,                                      W, b
    kx = kw .. kw - 1 + s
    ones                      and the second one those from kx = s to here,     W[: kw - s], 0, W[kw - s :], b
"""

from __future__ import annotations

from typing import Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.gemm import SMALL_PRODUCT, multiplies_small
from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.engines.conv.sgemm import add_product
from runtime_arm.engines.tiled.algorithm import output_layout
from runtime_arm.engines.tiled.columns import columns_work, is_pointwise
from runtime_arm.engines.tiled.epilogue import bias_vector, has_summands, in_place, pooled
from runtime_arm.engines.tiled.phase_split import PhaseSplit
from runtime_arm.engines.tiled.strip_pooling import Pooling
from runtime_arm.engines.tiled.strips import (
    FLOAT32,
    ImageRows,
    Target,
    block_hints,
    block_nbytes,
    clear,
    clear_borders,
    image_rows,
    in_turn,
)
from runtime_arm.engines.tiled.tile_transforms import accumulates
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.records import record
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.kernel import Call, Run, Work
from runtime_arm.registry.layouts import Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ONE, Step, copy, in_lines, multiply, shaped

FEW_CHANNELS = 8  # up to which a convolution reads (N, C, H, W) by rows of pixels
LEAST_ROWS = 64  # that the kernels for small matrices are worth their calls for


def is_stem(convolution: Convolution) -> bool:
    """Whether a convolution reads (N, C, H, W) by rows of pixels, since it has few channels."""
    few = convolution.group == 1 and convolution.channels <= FEW_CHANNELS
    return few and not is_pointwise(convolution)


@record(frozen=True, eq=False, repr=False)
class Stem:
    """The algorithm from (N, C, H, W) into tiles."""

    convolution: Convolution
    y: Tiles
    pooling: Optional[Pooling] = None

    engine = "IM2COL"
    variants = ()
    x = None
    reads_slices = False
    writes_slices = True

    @property
    def work(self) -> Work:
        return columns_work(self.convolution, 2 * PASS)

    def scratch(self, op: OperatorDef) -> Sequence[TensorSpec]:
        """The split image of a strip, its columns, and what is to be pooled."""
        return [TensorSpec((size,), FLOAT32) for size in _Cut(self, block_nbytes(op)).sizes() if size]

    def hints(self, op: OperatorDef) -> Sequence[str]:
        """Other blocks."""
        return list(block_hints(op, lambda block: _Cut(self, block).strips()))

    def bind(self, call: Call) -> Run:
        cut, to = _Cut(self, block_nbytes(call.op)), output_layout(self)
        weights = call.packed(f"for {cut.sharing} planes", lambda: _with_bias(call, cut))
        adds = self.pooling is None and accumulates() and has_summands(call)  # then no row of ones carries the bias
        steps: List[Step] = clear_borders(call, to)
        for number, rows in enumerate(call.mine(cut.strips(call.workers))):
            strip = rows.strip(self.y)
            target = Target(to, strip)
            landings = (
                in_place(call, target, [], adds)
                if self.pooling is None
                else pooled(call, target, [], self.pooling, call.scratch[2])
            )
            image, split = call.inputs[0][rows.image], call.scratch[0]
            steps += cut.split.fill(image, split, slice(rows.first, rows.last), number > 0)
            columns = shaped(call.scratch[1], cut.rows, rows.last - rows.first, self.y.pitch)
            steps += [copy(columns[row], ONE) for row in {self.convolution.terms, cut.rows - 1}]
            for plane, pieces in landings:
                second = plane[1] % cut.sharing
                if not second:
                    for first, taps in cut.taps(columns):
                        steps += cut.split.meet(split, plane, taps, first=first)
                terms = columns.reshape(len(columns), -1)[cut.terms(second)]
                for positions, products, then, before in pieces:
                    if adds:
                        steps += [*before, add_product(terms[:-1, positions].T, weights[second][:-1], products)]
                    else:
                        steps += _products(terms[:, positions].T, weights[second], products)
                    steps += then
            steps += clear(call, to, strip)
        return in_turn(steps)


class _Cut:
    """A stem cut into strips of whole rows of tiles, whose columns and products take this many bytes."""

    def __init__(self, stem: Stem, block: int):
        self.convolution, self.y = stem.convolution, stem.y
        self.window = stem.convolution.window
        self.pooled = 0 if stem.pooling is None else stem.pooling.taps  # planes whose products lie in scratch
        in_pairs = (stem.y.tile if stem.pooling is None else stem.pooling.stride) % 2 == 0  # the planes come so
        overlap = self.window.dilation[1] == 1 and self.window.stride[1] <= self.window.kernel[1]
        self.sharing = 2 if in_pairs and overlap else 1  # planes that share columns
        self.column = self.window.kernel[0] * self.convolution.channels  # terms of a column of the kernel
        products = self.convolution.filters * max(1, self.pooled)
        most = max(1, block // ((self.rows + products) * self.y.pitch * FLOAT32.itemsize))
        self.high = min(most, self.y.image_tiles((0, 0))[0])
        self.split = PhaseSplit(self.window, self.convolution.channels, self.y, self.y.pitch, self.high)

    @property
    def rows(self) -> int:
        """Rows of the columns, with those of ones."""
        return self.convolution.terms + 1 + (self.sharing - 1) * (self.window.stride[1] * self.column + 1)

    def terms(self, second: int) -> slice:
        """The rows that the first plane multiplies, or the second one of those that share columns."""
        return slice(self.window.stride[1] * self.column, self.rows) if second else slice(self.convolution.terms + 1)

    def taps(self, columns: Array) -> Iterator[Tuple[int, Array]]:
        """Views of the rows before those of ones: the first kx and (kh, kw, C, rows of tiles, pitch)."""
        begin, first, high = 0, 0, self.window.kernel[0]
        for wide in (self.window.kernel[1], self.window.stride[1])[: self.sharing]:
            rows = columns[begin : begin + wide * self.column]
            yield first, rows.reshape(wide, high, -1, *rows.shape[1:]).swapaxes(0, 1)
            begin, first = begin + wide * self.column + 1, first + wide

    def strips(self, workers: int = 1) -> List[ImageRows]:
        """The strips; if there are enough rows, as many for each worker."""
        return image_rows(self.y, ranges(self.y.image_tiles((0, 0))[0], self.high, workers))

    def sizes(self) -> Tuple[int, int, int]:
        """Elements of the split image of a strip, of its columns, and of what is to be pooled."""
        positions = self.high * self.y.pitch
        return self.split.size, self.rows * positions, self.pooled * self.convolution.filters * positions


def _with_bias(call: Call, cut: _Cut) -> List[Array]:
    """What the rows of the columns are multiplied with, for each of the planes that share them: (rows, M)."""
    w = call.inputs[1].T.reshape(cut.convolution.terms, cut.convolution.filters)
    vector = bias_vector(call)
    bias = np.zeros((1, w.shape[1]), w.dtype) if vector is None else vector[None]
    behind = len(w) - cut.window.stride[1] * cut.column
    matrices = [[w, bias], [w[:behind], np.zeros_like(bias), w[behind:], bias]]
    return [in_lines(np.concatenate(parts)) for parts in matrices[: cut.sharing]]


def _products(a: Array, weights: Array, out: Array) -> Iterator[Step]:
    """out = a @ weights, in groups of rows so small that BLAS does not pack them; a is read transposed."""
    rows, depth = a.shape
    most = SMALL_PRODUCT // weights.size if multiplies_small() else 0
    if most < LEAST_ROWS:
        yield multiply(a, weights, out)
        return
    size, longer = divmod(rows, -(-rows // most))
    cut = longer * (size + 1)
    for part, length in ((slice(0, cut), size + 1), (slice(cut, rows), size)):
        if part.start < part.stop:
            left, target = a[part].T.reshape(depth, -1, length), out[part].reshape(-1, length, out.shape[1])
            yield multiply(left.transpose(1, 2, 0), weights, target)
