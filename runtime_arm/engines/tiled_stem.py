"""IM2COL from a plain image of few channels into tiles: the first convolution of most networks.

With three channels a column is too short to copy pixel by pixel. Here the columns lie the other way round, one row of
many pixels for each tap and channel:

    split     S[q, c, y, :] = X[c, y, q :: s * m]                      once a block, for every phase q of the columns
    columns   A[(c, ky, kx), position] = S[phase, c, row, column]      long runs
    multiply  Y[py, px, position, m] = A^T @ W^T                       BLAS reads A transposed

s is the stride, m the tile of the output; a last row of ones in A carries the bias.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.blocks import ranges
from runtime_arm.engines import tiled
from runtime_arm.engines.steps import ONE, ZERO, Step, copy, margins, multiply, shaped
from runtime_arm.engines.tiled_epilogue import in_place
from runtime_arm.kernel import Call, Run
from runtime_arm.layouts import Strip, Tiles
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv import Convolution
from runtime_arm.tensor import TensorSpec

if TYPE_CHECKING:
    from runtime_arm.engines.strip_pooling import Pooling


class _Block(NamedTuple):
    """Rows of tiles of one image; positions from the first column of tiles to the pitch."""

    image: int
    first: int
    last: int


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
        products = convolution.filters * max(1, self.pooled)
        self.high = max(1, block // ((convolution.terms + 1 + products) * y.pitch * itemsize))
        self.reach = [(k - 1) * d + 1 for k, d in zip(self.window.kernel, self.window.dilation)]
        self.margin = -(-self.window.head[1] // self.step[1])  # columns of a phase to the left of the image
        self.wide = y.pitch + self.margin + (self.reach[1] + (y.tile - 1) * self.window.stride[1]) // self.step[1] + 1

    def blocks(self, workers: int) -> List[_Block]:
        rows = self.y.image_tiles((0, 0))[0]
        return [_Block(image, *part) for image in range(self.y.batch) for part in ranges(rows, self.high, workers)]

    def image_rows(self, rows: int) -> int:
        """Rows of the image under rows of tiles."""
        return (rows * self.y.tile - 1) * self.window.stride[0] + self.reach[0]

    def sizes(self) -> Tuple[int, int, int]:
        """Elements of the split rows of a block, of its columns, and of what is to be pooled."""
        rows = min(self.high, self.y.image_tiles((0, 0))[0])
        positions, convolution = rows * self.y.pitch, self.convolution
        split = self.step[1] * convolution.channels * self.image_rows(rows) * self.wide
        return split, (convolution.terms + 1) * positions, self.pooled * convolution.filters * positions


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
    weights = call.packed("with bias", lambda: _with_bias(call, convolution))
    to = y if pooling is None else pooling.after(y)
    steps: List[Step] = tiled.clear_borders(call, call.outputs[0], to)
    for block in call.mine(stem.blocks(call.workers)):
        strip = Strip(block.image * y.rows + block.first, block.image * y.rows + block.last, 0, y.pitch, y.pitch)
        landings = in_place(call, to, strip, []) if pooling is None else pooling.landings(
            call, to, strip, [], slice(None), call.scratch[2])  # fmt: skip
        split, copies = _split_rows(call, stem, block)
        steps += copies
        columns = shaped(call.scratch[1], stem.convolution.terms + 1, block.last - block.first, y.pitch)
        steps.append(copy(columns[-1], ONE))
        for plane, pieces in landings:
            steps += _gather(stem, plane, split, columns[:-1])
            for positions, target, then in pieces:
                steps.append(multiply(columns.reshape(len(columns), -1)[:, positions].T, weights, target))
                steps += then
        steps += tiled.clear(call, to, strip)
    return tiled.in_turn(steps)


def _with_bias(call: Call, convolution: Convolution) -> Array:
    """(C * kh * kw + 1, M), the last row is the bias."""
    w = call.inputs[1].reshape(convolution.filters, -1)
    bias = call.inputs[2] if len(call.inputs) > 2 and call.inputs[2] is not None else np.zeros(len(w), w.dtype)
    return np.ascontiguousarray(np.concatenate([w.T, bias[None]]))


def _split_rows(call: Call, stem: Stem, block: _Block) -> Tuple[Array, List[Step]]:
    """The rows of the image under a block, (phases, C, rows, columns), and what fills them."""
    high = stem.image_rows(block.last - block.first)
    split = shaped(call.scratch[0], stem.step[1], stem.convolution.channels, high, stem.wide)
    top = block.first * stem.y.tile * stem.window.stride[0] - stem.window.head[0]
    return split, list(_split(call.inputs[0][block.image], split, top, stem))


def _gather(stem: Stem, plane: Tuple[int, int], split: Array, columns: Array) -> Iterator[Step]:
    """columns: (C * kh * kw, rows, columns), those of one plane."""
    window, (rows, pitch), (py, px) = stem.window, columns.shape[1:], plane
    taps = columns.reshape(stem.convolution.channels, *window.kernel, rows, pitch)
    for ky, kx in np.ndindex(*window.kernel):
        row = py * window.stride[0] + ky * window.dilation[0]
        shift, phase = divmod(px * window.stride[1] + kx * window.dilation[1] - window.head[1], stem.step[1])
        begin = stem.margin + shift
        yield copy(taps[:, ky, kx], split[phase, :, row :: stem.step[0], begin : begin + pitch][:, :rows])


def _split(image: Array, split: Array, top: int, stem: Stem) -> Iterator[Step]:
    """Copy the rows from ``top`` on, their columns apart by phase, with zeros around the image."""
    high, (height, width) = split.shape[2], image.shape[1:]
    inside = slice(min(max(-top, 0), high), max(min(height - top, high), 0))
    for phase in range(stem.step[1]):
        count = min(max(0, -(-(width - phase) // stem.step[1])), stem.wide - stem.margin)
        columns = slice(stem.margin, stem.margin + count)
        if inside.start >= inside.stop or not count:
            yield copy(split[phase], ZERO)
            continue
        source = image[:, inside.start + top : inside.stop + top, phase :: stem.step[1]]
        yield copy(split[phase][:, inside, columns], source[:, :, :count])
        for margin in margins(split[phase], (inside, columns)):
            yield copy(margin, ZERO)
