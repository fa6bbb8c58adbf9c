"""IM2COL and POINTWISE between blobs in tiles: convolutions as products of matrices over strips of pixels.

A convolution of stride s makes tiles of m x m pixels from tiles of s * m x s * m: output pixel (py, px) of a tile and
tap (ky, kx) meet the pixel (s * py + ky - head, s * px + kx - head) of the same tile, or of one nearby. So under one
tap a whole strip of output tiles meets pixels of one plane, which lie as far apart as the outputs do. Where all pixels
share one plane, s passes over some of them:

    columns   A[position, (ky, kx, c)] = X[plane, position + shift, c]      one copy a tap, or a row of taps
    multiply  Y[py, px, position, m]   = A @ W                              (positions, kh * kw * C) @ (kh * kw * C, M)

A kernel of 1 and stride 1 needs no columns: a plane is the matrix.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.gemm import Panels, panel_hints
from runtime_arm.engines.tiled import strips as tiled
from runtime_arm.engines.tiled.epilogue import Landing, Pass, Piece, bias, finish, has_gaps, in_place
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.registry.engine_wishes import PANEL, hint
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, copy, shaped

if TYPE_CHECKING:
    from runtime_arm.engines.tiled.strip_pooling import Pooling

LEAST_PACKED = 256  # positions of a block for which BLAS packs all filters
MOST_PACKED = 5 << 19  # bytes of columns that a block may take for their sake
SLICE, LEAST_ROWS = 1 << 15, 128  # products, and positions, that are computed at once into a slice of channels


def most_positions(
    op: OperatorDef, convolution: Convolution, itemsize: int, block: int, pooling: Optional[Pooling] = None
) -> int:
    """Positions of a plane that are computed at once: their columns and products take the bytes of a block, or more
    where BLAS packs all filters for each block."""
    products = convolution.filters * (1 if pooling is None else pooling.taps)
    most = max(1, block // ((convolution.terms + products) * itemsize))
    if gemm.width_for(hint(op, PANEL), most, convolution.terms, convolution.filters):
        return most
    return max(most, min(LEAST_PACKED, MOST_PACKED // (convolution.terms * itemsize)))


def scratch(
    op: OperatorDef, convolution: Convolution, y: Tiles, dtype: np.dtype, pooling: Optional[Pooling] = None
) -> Sequence[TensorSpec]:
    """Products on the way into a slice, or to be pooled; the columns of a block, but not for a pointwise convolution.

    y: see ``bind``.
    """
    most = most_positions(op, convolution, dtype.itemsize, tiled.block_nbytes(op), pooling)
    positions = max((strip.size for strip in y.strips(most)), default=0)
    products, piece = positions * convolution.filters, max(SLICE, LEAST_ROWS * convolution.filters)
    sizes = [min(piece, products) if pooling is None else pooling.taps * products]
    if not is_pointwise(convolution):
        sizes.append(positions * convolution.terms)
    return [TensorSpec((size,), dtype) for size in sizes]


def hints(
    op: OperatorDef, convolution: Convolution, y: Tiles, dtype: np.dtype, pooling: Optional[Pooling] = None
) -> Sequence[str]:
    """Other blocks and panels."""

    def most(block: int) -> int:
        return most_positions(op, convolution, dtype.itemsize, block, pooling)

    rows = min(most(tiled.block_nbytes(op)), y.body)
    return [
        *tiled.block_hints(op, lambda block: y.strips(most(block))),
        *panel_hints(op, rows, convolution.terms, convolution.filters),
    ]


def is_pointwise(convolution: Convolution) -> bool:
    window = convolution.window
    return set(window.kernel) == {1} and set(window.stride) == {1} and not any(window.head + window.tail)


def bind(call: Call, convolution: Convolution, x: Tiles, y: Tiles, pooling: Optional[Pooling] = None) -> Run:
    """y: the layout of the convolution's results, whether the output has them or what is pooled of them."""
    to = y if pooling is None else pooling.after(y)
    steps: List[Step] = tiled.clear_borders(call, call.outputs[0], to)
    most = most_positions(call.op, convolution, call.outputs[0].itemsize, tiled.block_nbytes(call.op), pooling)
    panels = Panels.of(call, "by channel", min(most, y.body), lambda: by_channel(call.inputs[1]))
    strips, filters = tiled.parts_of(call, y, most, convolution.terms * y.channels, panels.group)
    panels = panels.columns(filters)
    biases = bias(call, filters)
    for strip in strips:
        matrix_of = partial(_plane if is_pointwise(convolution) else _columns, call, convolution, x, strip)
        for plane, pieces in landings(call, to, strip, biases, filters, pooling):
            matrix, copies = matrix_of(plane)
            steps += copies
            for positions, target, then in pieces:
                steps += panels.multiply(matrix[positions][None], target[None])
                steps += then
        steps += tiled.clear(call, to, strip, filters)
    return tiled.in_turn(steps)


def by_channel(filters: Array) -> Array:
    """(1, kh * kw * C, M) from (M, C, kh, kw)."""
    matrix: Array = filters.transpose(2, 3, 1, 0).reshape(1, -1, len(filters))
    return matrix


def landings(
    call: Call, y: Tiles, strip: Strip, biases: Sequence[Pass], filters: slice, pooling: Optional[Pooling]
) -> Iterator[Landing]:
    """Where the products of a strip go, plane by plane, and what follows; by way of scratch 0 if need be."""
    if pooling is not None:
        return pooling.landings(call, y, strip, biases, filters, call.scratch[0])
    is_slice = has_gaps(call.outputs[0][..., filters])
    return (_in_pieces if is_slice else in_place)(call, y, strip, biases, filters)


def _in_pieces(call: Call, y: Tiles, strip: Strip, biases: Sequence[Pass], filters: slice) -> Iterator[Landing]:
    """By way of the scratch."""
    width = call.outputs[0][..., filters].shape[-1]
    most = max(LEAST_ROWS, SLICE // width)
    for py, px in np.ndindex(y.tile, y.tile):
        pieces: List[Piece] = []
        for begin in range(0, strip.size, most):
            positions = slice(begin, min(begin + most, strip.size))
            products = shaped(call.scratch[0], 1, 1, positions.stop - begin, width)
            part = slice(py, py + 1), slice(px, px + 1), positions
            then = list(finish(call, y, strip, biases, products, filters, part))
            pieces.append((positions, products[0, 0], then))
        yield (py, px), pieces


Matrix = Tuple[Array, List[Step]]  # (positions, terms), and what fills it


def _plane(call: Call, convolution: Convolution, x: Tiles, strip: Strip, plane: Tuple[int, int]) -> Matrix:
    return tiled.body(call.inputs[0], x, strip)[plane], []


def _columns(call: Call, convolution: Convolution, x: Tiles, strip: Strip, plane: Tuple[int, int]) -> Matrix:
    columns = shaped(call.scratch[1], strip.size, *convolution.window.kernel, x.channels)
    copies = list(gather(call.inputs[0], convolution, x, strip, plane, columns))
    return columns.reshape(strip.size, convolution.terms), copies


class Met(NamedTuple):
    """The input's positions that a strip of results meets under one tap: ``begin`` counts from the body's first one,
    ``down`` and ``across`` from one row and column to the next."""

    begin: int
    rows: int
    columns: int
    down: int
    across: int

    @property
    def last(self) -> int:
        return self.begin + (self.rows - 1) * self.down + (self.columns - 1) * self.across


def met_under(strip: Strip, x: Tiles, window: Window) -> Met:
    """As many as the strip has, or, where all pixels share one plane, those that the stride does not pass over."""
    stride = window.stride[0]
    if x.tile > 1 or stride == 1:
        return Met(strip.begin, 1, strip.size, 0, 1)
    begin = stride * (strip.first * x.pitch + strip.left)
    return Met(begin, strip.last - strip.first, strip.right - strip.left, stride * x.pitch, stride)


def gather(
    memory: Array, convolution: Convolution, x: Tiles, strip: Strip, plane: Tuple[int, int], columns: Array
) -> Iterator[Step]:
    """columns, (positions, kh, kw, C), of whatever strides: what each tap meets under a strip of a plane of outputs."""
    window = convolution.window
    met = met_under(strip, x, window)
    taps = columns.reshape(met.rows, met.columns, *columns.shape[1:])
    for ky in range(window.kernel[0]):
        row, up = x.neighbour(0, plane[0] * window.stride[0] + ky * window.dilation[0] - window.head[0])
        if x.tile == 1 and window.dilation[1] == 1:
            begin = x.guard + met.begin + up - window.head[1]
            yield copy(taps[:, :, ky], runs(memory[0, 0, begin:], met, window.kernel[1]))
            continue
        for kx in range(window.kernel[1]):
            column, left = x.neighbour(1, plane[1] * window.stride[1] + kx * window.dilation[1] - window.head[1])
            begin = x.guard + met.begin + up + left
            yield copy(taps[:, :, ky, kx : kx + 1], runs(memory[row, column, begin:], met, 1))


def runs(positions: Array, met: Met, taps: int) -> Array:
    """For each of the met positions the pixels of ``taps`` neighbours, which follow each other: (rows, columns, taps,
    C)."""
    step, channel = positions.strides
    shape = met.rows, met.columns, taps, positions.shape[1]
    view: Array = as_strided(positions, shape, (met.down * step, met.across * step, step, channel))
    return view
