"""IM2COL from a plain image of few channels into tiles: the first convolution of most networks.

With three channels a column is too short to copy pixel by pixel. Here the columns lie the other way round, one row of
many pixels for each tap and channel:

    split     S[p, q, c, position] = X[c, s * m * row + p, s * m * column + q]    once a block, for every phase
    columns   A[(kx, ky, c), position] = S[p, q, c, position + shift]              long runs, those of a phase at once
    multiply  Y[py, px, position, m]   = A^T @ W^T                                 BLAS reads A transposed

s is the stride, m the tile of the output. Rows of S are as long as those of the output, if they hold the columns under
one of its rows and zeros beside them. Then a run is a block of rows.

Two planes side by side meet the same pixels but for s columns of the kernel, so they share A. Ones carry the bias:

    kx = 0 .. kw - 1          the first plane has the rows from here ...
    ones                      ... to here,                                      W, b
    kx = kw .. kw - 1 + s
    ones                      and the second one those from kx = s to here,     W[: kw - s], 0, W[kw - s :], b
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.blocks import ranges
from runtime_arm.engines import tiled
from runtime_arm.engines.gemm import SMALL_PRODUCT, multiplies_small
from runtime_arm.engines.steps import ONE, ZERO, Step, copy, in_lines, margins, multiply, shaped
from runtime_arm.engines.tiled_epilogue import in_place
from runtime_arm.kernel import Call, Run
from runtime_arm.layouts import Strip, Tiles
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv import Convolution
from runtime_arm.tensor import TensorSpec

if TYPE_CHECKING:
    from runtime_arm.engines.strip_pooling import Pooling


LEAST_ROWS = 64  # that the kernels for small matrices are worth their calls for


class _Block(NamedTuple):
    """Rows of tiles of one image; positions from the first column of tiles to the pitch."""

    image: int
    first: int
    last: int


class _Tap(NamedTuple):
    """How many rows or columns of tiles away, and in which phase of theirs, a tap meets pixels."""

    shift: int
    phase: int


class Stem:
    """A convolution from (N, C, H, W) into tiles ``y``, cut into blocks of whole rows of tiles.

    block: bytes of the columns and products of a block. pooling: what the output has of the results.
    """

    def __init__(self, convolution: Convolution, y: Tiles, itemsize: int, block: int,
                 pooling: Optional[Pooling] = None):
        self.convolution = convolution
        self.window = convolution.window
        self.y = y
        self.step = self.window.stride[0] * y.tile, self.window.stride[1] * y.tile
        self.pooled = 0 if pooling is None else pooling.taps  # planes whose products lie in scratch
        self.apart = [step // math.gcd(step, d) for step, d in zip(self.step, self.window.dilation)]  # taps of a phase
        in_pairs = (y.tile if pooling is None else pooling.stride) % 2 == 0  # the planes come so
        overlap = self.window.dilation[1] == 1 and self.window.stride[1] <= self.window.kernel[1]
        self.shares = 2 if in_pairs and overlap else 1  # planes that share columns
        self.column = self.window.kernel[0] * convolution.channels  # terms of a column of the kernel
        products = convolution.filters * max(1, self.pooled)
        self.high = max(1, block // ((self.rows + products) * y.pitch * itemsize))
        last = [k - 1 for k in self.window.kernel]
        self.below = self.tap(0, y.tile - 1, last[0]).shift  # rows that a block meets below its own
        self.left = -self.tap(1, 0, 0).shift  # zeros in front of a row
        self.right = max(0, self.tap(1, y.tile - 1, last[1]).shift)
        met = [y.image_tiles((phase, phase))[1] + self.tap(1, phase, last[1]).shift for phase in range(y.tile)]
        self.wide = max(y.pitch, -(-self.window.image[1] // self.step[1]) + self.left, *met)

    @property
    def rows(self) -> int:
        """Of the columns, those of ones with them."""
        return self.convolution.terms + 1 + (self.shares - 1) * (self.window.stride[1] * self.column + 1)

    def terms(self, second: int) -> slice:
        """Which rows the first plane multiplies, or the second one of those that share columns."""
        return slice(self.window.stride[1] * self.column, self.rows) if second else slice(self.convolution.terms + 1)

    def taps(self, columns: Array) -> Iterator[Tuple[int, Array]]:
        """Views of the rows in front of those of ones: the first kx and (C, kh, kw, rows, pitch)."""
        begin, first, high = 0, 0, self.window.kernel[0]
        for wide in (self.window.kernel[1], self.window.stride[1])[: self.shares]:
            rows = columns[begin : begin + wide * self.column]
            yield first, rows.reshape(wide, high, -1, *rows.shape[1:]).transpose(2, 1, 0, 3, 4)
            begin, first = begin + wide * self.column + 1, first + wide

    def tap(self, axis: int, phase: int, k: int) -> _Tap:
        """What a row (axis 0) or column (axis 1) of the kernel meets under outputs of a plane, from the block's top."""
        pixel = phase * self.window.stride[axis] + k * self.window.dilation[axis]
        return _Tap(*divmod(pixel - (self.window.head[1] if axis else 0), self.step[axis]))

    def blocks(self, workers: int) -> List[_Block]:
        rows = self.y.image_tiles((0, 0))[0]
        return [_Block(image, *part) for image in range(self.y.batch) for part in ranges(rows, self.high, workers)]

    def length(self, rows: int) -> int:
        """Positions of a channel of the split image under so many rows of tiles."""
        return self.left + (rows + self.below) * self.wide + self.right

    def sizes(self) -> Tuple[int, int, int]:
        """Elements of the split image of a block, of its columns, and of what is to be pooled."""
        rows = min(self.high, self.y.image_tiles((0, 0))[0])
        positions, convolution = rows * self.y.pitch, self.convolution
        split = self.step[0] * self.step[1] * convolution.channels * self.length(rows)
        return split, self.rows * positions, self.pooled * convolution.filters * positions


def scratch(op: OperatorDef, convolution: Convolution, y: Tiles, dtype: np.dtype,
            pooling: Optional[Pooling] = None) -> Sequence[TensorSpec]:
    """y: see ``Stem``."""
    stem = Stem(convolution, y, dtype.itemsize, tiled.block_nbytes(op), pooling)
    return [TensorSpec((size,), dtype) for size in stem.sizes() if size]


def hints(op: OperatorDef, convolution: Convolution, y: Tiles, dtype: np.dtype,
          pooling: Optional[Pooling] = None) -> Sequence[str]:
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
    for block in call.mine(stem.blocks(call.workers)):
        strip = Strip(block.image * y.rows + block.first, block.image * y.rows + block.last, 0, y.pitch, y.pitch)
        landings = in_place(call, to, strip, []) if pooling is None else pooling.landings(
            call, to, strip, [], slice(None), call.scratch[2])  # fmt: skip
        split = shaped(call.scratch[0], *stem.step, convolution.channels, stem.length(block.last - block.first))
        top = block.first * stem.step[0] - stem.window.head[0]
        steps += _split(call.inputs[0][block.image], split, top, stem)
        columns = shaped(call.scratch[1], stem.rows, block.last - block.first, y.pitch)
        steps += [copy(columns[row], ONE) for row in {convolution.terms, stem.rows - 1}]
        for plane, pieces in landings:
            second = plane[1] % stem.shares
            if not second:
                steps += _gather(stem, plane, split, columns)
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


def _gather(stem: Stem, plane: Tuple[int, int], split: Array, columns: Array) -> Iterator[Step]:
    """columns: (their rows, rows, columns), those of a plane and of the one that shares them."""
    py, px = plane
    for first, taps in stem.taps(columns):
        for ky, kx in np.ndindex(*map(min, stem.apart, taps.shape[1:3])):
            target = taps[:, ky :: stem.apart[0], kx :: stem.apart[1]]
            yield copy(target, _met(stem, split, stem.tap(0, py, ky), stem.tap(1, px, first + kx), target.shape))


def _met(stem: Stem, split: Array, down: _Tap, across: _Tap, shape: Tuple[int, ...]) -> Array:
    """What a tap meets, and those behind it that meet the same phases: (C, of ky, of kx, rows, pitch)."""
    plane = split[down.phase, across.phase, :, stem.left + down.shift * stem.wide + across.shift :]
    channel, position = plane.strides
    row = stem.wide * position
    rows, columns = (apart * d // step for apart, d, step in zip(stem.apart, stem.window.dilation, stem.step))
    view: Array = as_strided(plane, shape, (channel, rows * row, columns * position, row, position))
    return view


def _split(image: Array, split: Array, top: int, stem: Stem) -> Iterator[Step]:
    """Copy the rows from ``top`` on, rows and columns apart by phase, with zeros around the image."""
    channels, length = split.shape[2:]
    end = length - stem.right
    yield copy(split[..., : stem.left], ZERO)
    yield copy(split[..., end:], ZERO)
    rows = split[..., stem.left : end].reshape(*stem.step, channels, -1, stem.wide)
    for p, q in np.ndindex(*stem.step):
        target, source = rows[p, q], image[:, (top + p) % stem.step[0] :: stem.step[0], q :: stem.step[1]]
        above = -((top + p) // stem.step[0])  # rows of the target above the image; a part of the image if less than 0
        first, last = (min(max(row, 0), target.shape[1]) for row in (above, above + source.shape[1]))
        inside = slice(first, last), slice(0, source.shape[2])
        yield copy(target[:, inside[0], inside[1]], source[:, first - above : last - above])
        for margin in margins(target, inside):
            yield copy(margin, ZERO)
