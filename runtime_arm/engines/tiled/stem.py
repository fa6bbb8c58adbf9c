"""IM2COL from a plain image of few channels into tiles: the first convolution of most networks.

The columns lie with one row of many pixels for each tap and channel:

    split     S = the image, apart by phase                       once a block (see ``phase_split.py``)
    columns   A[(kx, ky, c), position] = what the taps meet of S   long runs
    multiply  Y[py, px, position, m]   = A^T @ W^T                 BLAS reads A transposed

Two planes side by side meet the same pixels but for s columns of the kernel, so they share A; s is the stride. Ones
carry the bias:

    kx = 0 .. kw - 1          the first plane has the rows from here ...
    ones                      ... to here,                                      W, b
    kx = kw .. kw - 1 + s
    ones                      and the second one those from kx = s to here,     W[: kw - s], 0, W[kw - s :], b
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.gemm import SMALL_PRODUCT, multiplies_small
from runtime_arm.engines.tiled import strips as tiled
from runtime_arm.engines.tiled.epilogue import in_place
from runtime_arm.engines.tiled.phase_split import PhaseSplit
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ONE, Step, copy, in_lines, multiply, shaped

if TYPE_CHECKING:
    from runtime_arm.engines.tiled.strip_pooling import Pooling


LEAST_ROWS = 64  # that the kernels for small matrices are worth their calls for


class _Block(NamedTuple):
    """Rows of tiles of one image; positions from the first column of tiles to the pitch."""

    image: int
    first: int
    last: int


class Stem:
    """A convolution from (N, C, H, W) into tiles ``y``, cut into blocks of whole rows of tiles.

    block: bytes of the columns and products of a block. pooling: what the output has of the results.
    """

    def __init__(
        self, convolution: Convolution, y: Tiles, itemsize: int, block: int, pooling: Optional[Pooling] = None
    ):
        self.convolution = convolution
        self.window = convolution.window
        self.y = y
        self.pooled = 0 if pooling is None else pooling.taps  # planes whose products lie in scratch
        in_pairs = (y.tile if pooling is None else pooling.stride) % 2 == 0  # the planes come so
        overlap = self.window.dilation[1] == 1 and self.window.stride[1] <= self.window.kernel[1]
        self.shares = 2 if in_pairs and overlap else 1  # planes that share columns
        self.column = self.window.kernel[0] * convolution.channels  # terms of a column of the kernel
        products = convolution.filters * max(1, self.pooled)
        most = max(1, block // ((self.rows + products) * y.pitch * itemsize))
        self.high = min(most, y.image_tiles((0, 0))[0])
        self.split = PhaseSplit(self.window, convolution.channels, y, y.pitch, self.high)

    @property
    def rows(self) -> int:
        """Of the columns, those of ones with them."""
        return self.convolution.terms + 1 + (self.shares - 1) * (self.window.stride[1] * self.column + 1)

    def terms(self, second: int) -> slice:
        """Which rows the first plane multiplies, or the second one of those that share columns."""
        return slice(self.window.stride[1] * self.column, self.rows) if second else slice(self.convolution.terms + 1)

    def taps(self, columns: Array) -> Iterator[Tuple[int, Array]]:
        """Views of the rows in front of those of ones: the first kx and (kh, kw, C, rows, pitch)."""
        begin, first, high = 0, 0, self.window.kernel[0]
        for wide in (self.window.kernel[1], self.window.stride[1])[: self.shares]:
            rows = columns[begin : begin + wide * self.column]
            yield first, rows.reshape(wide, high, -1, *rows.shape[1:]).swapaxes(0, 1)
            begin, first = begin + wide * self.column + 1, first + wide

    def blocks(self, workers: int) -> List[_Block]:
        rows = self.y.image_tiles((0, 0))[0]
        return [_Block(image, *part) for image in range(self.y.batch) for part in ranges(rows, self.high, workers)]

    def sizes(self) -> Tuple[int, int, int]:
        """Elements of the split image of a block, of its columns, and of what is to be pooled."""
        positions = self.high * self.y.pitch
        return self.split.size, self.rows * positions, self.pooled * self.convolution.filters * positions


def scratch(
    op: OperatorDef, convolution: Convolution, y: Tiles, dtype: np.dtype, pooling: Optional[Pooling] = None
) -> Sequence[TensorSpec]:
    """y: see ``Stem``."""
    stem = Stem(convolution, y, dtype.itemsize, tiled.block_nbytes(op), pooling)
    return [TensorSpec((size,), dtype) for size in stem.sizes() if size]


def hints(
    op: OperatorDef, convolution: Convolution, y: Tiles, dtype: np.dtype, pooling: Optional[Pooling] = None
) -> Sequence[str]:
    """Other blocks."""

    def blocks(nbytes: int) -> Sequence[object]:
        return Stem(convolution, y, dtype.itemsize, nbytes, pooling).blocks(1)

    return list(tiled.block_hints(op, blocks))


def bind(call: Call, convolution: Convolution, y: Tiles, pooling: Optional[Pooling] = None) -> Run:
    """y: see ``Stem``."""
    stem = Stem(convolution, y, call.outputs[0].itemsize, tiled.block_nbytes(call.op), pooling)
    weights = call.packed(f"for {stem.shares} planes", lambda: _with_bias(call, stem))
    to = y if pooling is None else pooling.after(y)
    steps: List[Step] = tiled.clear_borders(call, call.outputs[0], to)
    for number, block in enumerate(call.mine(stem.blocks(call.workers))):
        strip = Strip(block.image * y.rows + block.first, block.image * y.rows + block.last, 0, y.pitch, y.pitch)
        landings = (
            in_place(call, to, strip, [])
            if pooling is None
            else pooling.landings(call, to, strip, [], slice(None), call.scratch[2])
        )
        rows = slice(block.first, block.last)
        steps += stem.split.fill(call.inputs[0][block.image], call.scratch[0], rows, number > 0)
        columns = shaped(call.scratch[1], stem.rows, block.last - block.first, y.pitch)
        steps += [copy(columns[row], ONE) for row in {convolution.terms, stem.rows - 1}]
        for plane, pieces in landings:
            second = plane[1] % stem.shares
            if not second:
                for first, taps in stem.taps(columns):
                    steps += stem.split.meet(call.scratch[0], plane, taps, first=first)
            terms = columns.reshape(len(columns), -1)[stem.terms(second)]
            for positions, target, then in pieces:
                steps += _products(terms[:, positions].T, weights[second], target)
                steps += then
        steps += tiled.clear(call, to, strip)
    return tiled.in_turn(steps)


def _with_bias(call: Call, stem: Stem) -> List[Array]:
    """What the rows of columns are multiplied with, for each of the planes that share them: (rows, M)."""
    w = call.inputs[1].T.reshape(stem.convolution.terms, stem.convolution.filters)
    bias = call.inputs[2] if len(call.inputs) > 2 and call.inputs[2] is not None else np.zeros(w.shape[1], w.dtype)
    behind = len(w) - stem.window.stride[1] * stem.column
    matrices = [[w, bias[None]], [w[:behind], np.zeros_like(bias[None]), w[behind:], bias[None]]]
    return [in_lines(np.concatenate(parts)) for parts in matrices[: stem.shares]]


def _products(a: Array, weights: Array, out: Array) -> Iterator[Step]:
    """out = a @ weights, in blocks of rows small enough for the kernels that do not pack; a is read transposed."""
    rows, depth = a.shape
    most = SMALL_PRODUCT // weights.size if multiplies_small() else 0
    if most < LEAST_ROWS:
        yield multiply(a, weights, out)
        return
    blocks = -(-rows // most)
    size, longer = divmod(rows, blocks)
    cut = longer * (size + 1)
    for part, length in ((slice(0, cut), size + 1), (slice(cut, rows), size)):
        if part.start < part.stop:
            left, target = a[part].T.reshape(depth, -1, length), out[part].reshape(-1, length, out.shape[1])
            yield multiply(left.transpose(1, 2, 0), weights, target)
