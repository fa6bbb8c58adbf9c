"""IM2COL and POINTWISE between blobs in tiles: convolutions as products of matrices over strips.

A convolution of stride s makes tiles of m x m pixels from tiles of s * m x s * m: the output of phase (py, px) meets,
under the tap (ky, kx), the pixel (s * py + ky - head, s * px + kx - head) counted from the edge of the input's tile,
which lies in that tile or in one nearby. So under one tap all outputs of a plane meet pixels of one plane, and these
lie as far apart as the outputs do. Where the input has one plane for all its pixels, the stride passes over some:

    columns   A[position, (ky, kx, c)] = X[plane, position + shift, c]      one copy a tap, or a row of taps
    multiply  Y[py, px, position, m]   = A @ W                              (positions, kh * kw * C) @ (kh * kw * C, M)

A kernel of 1 with stride 1 needs no columns: a plane is the matrix. Where BLAS can add a product to what lies in its
place, bias and addend are put there first (see ``sgemm.py``), which saves passes.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Callable, Iterator, List, Optional, Sequence, Tuple

from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.gemm import Panels, panel_hints
from runtime_arm.engines.conv.pointwise import PASS, weight_cost
from runtime_arm.engines.tiled.algorithm import output_layout
from runtime_arm.engines.tiled.epilogue import (
    Landing,
    Pass,
    bias,
    has_gaps,
    has_summands,
    in_pieces,
    in_place,
    pooled,
)
from runtime_arm.engines.tiled.strip_pooling import Pooling
from runtime_arm.engines.tiled.strips import (
    FLOAT32,
    Target,
    block_hints,
    block_nbytes,
    body,
    clear,
    clear_borders,
    filter_shares,
    in_turn,
    parts_of,
)
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.records import NamedTuple, record
from runtime_arm.registry.engine_preferences import PANEL, hint
from runtime_arm.registry.kernel import Call, Run, Work
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, copy, shaped

LEAST_PACKED = 256  # positions of a strip for which BLAS packs all filters
MOST_PACKED = 5 << 19  # bytes of columns that a strip may take for their sake
SLICE, LEAST_ROWS = 1 << 15, 128  # products, and positions, that are computed at once into a slice of channels
Matrix = Tuple[Array, List[Step]]  # (positions, terms), and what fills it
STRETCH = 700  # what a copy takes for every stretch that it finds contiguous, in multiplies of a large matrix product


@record(frozen=True, eq=False, repr=False)
class Columns:
    """The algorithm by columns, or by planes as they are."""

    convolution: Convolution
    x: Tiles
    y: Tiles
    pooling: Optional[Pooling] = None

    variants = ()
    reads_slices = True
    writes_slices = True

    @property
    def engine(self) -> str:
        return engine_of(self.convolution)

    @property
    def work(self) -> Work:
        copied = 0.0
        if not is_pointwise(self.convolution):
            copied = PASS / 2 + STRETCH / max(self.convolution.channels, 1)
        y = self.y
        return columns_work(self.convolution, copied, y.tile**2 * y.batch * y.image_tiles((0, 0))[0] * y.pitch)

    def most_positions(self, op: OperatorDef, block: int) -> int:
        """Positions of a strip: their columns and products in one plane take the bytes of a block, or more where BLAS
        packs all filters for each strip."""
        convolution = self.convolution
        products = convolution.filters * (1 if self.pooling is None else self.pooling.taps)
        most = max(1, block // ((convolution.terms + products) * FLOAT32.itemsize))
        if gemm.width_for(hint(op, PANEL), most, convolution.terms, convolution.filters):
            return most
        return max(most, min(LEAST_PACKED, MOST_PACKED // (convolution.terms * FLOAT32.itemsize)))

    def scratch(self, op: OperatorDef) -> Sequence[TensorSpec]:
        """Products on the way into a slice, or to be pooled; the columns of a strip, but not for a pointwise
        convolution."""
        most = self.most_positions(op, block_nbytes(op))
        positions = max((strip.size for strip in self.y.strips(most)), default=0)
        filters = self.convolution.filters
        products = positions * filters
        sizes = [on_the_way(products, filters) if self.pooling is None else self.pooling.taps * products]
        if not is_pointwise(self.convolution):
            sizes.append(positions * self.convolution.terms)
        return [TensorSpec((size,), FLOAT32) for size in sizes]

    def hints(self, op: OperatorDef) -> Sequence[str]:
        """Other blocks and panels."""
        rows = min(self.most_positions(op, block_nbytes(op)), self.y.body)
        return [
            *block_hints(op, lambda block: self.y.strips(self.most_positions(op, block))),
            *panel_hints(op, rows, self.convolution.terms, self.convolution.filters),
        ]

    def bind(self, call: Call) -> Run:
        convolution, y, to = self.convolution, self.y, output_layout(self)
        steps: List[Step] = clear_borders(call, to)
        most = self.most_positions(call.op, block_nbytes(call.op))
        shares = filter_shares(call, y, convolution.terms * y.channels)
        panels = Panels.of(call, "by channel", min(most, y.body), call.inputs[1], by_channel, shares)
        strips, filters = parts_of(call, y, most, panels.group, shares)
        panels = panels.columns(filters)
        biases = bias(call, filters)
        matrix_of = partial(_plane if is_pointwise(convolution) else _columns, call, convolution, self.x)
        for strip in strips:
            target = Target(to, strip, filters)
            steps += multiply_strip(call, target, panels, biases, partial(matrix_of, strip), self.pooling)
            steps += clear(call, to, strip, filters)
        return in_turn(steps)


def multiply_strip(
    call: Call,
    target: Target,
    panels: Panels,
    biases: Sequence[Pass],
    matrix_of: Callable[[Tuple[int, int]], Matrix],
    pooling: Optional[Pooling] = None,
) -> Iterator[Step]:
    """The products of a strip, with the addends and the passes after them. matrix_of: the matrix of a plane."""
    adds = pooling is None and has_summands(call) and panels.can_add
    for plane, pieces in landings(call, target, biases, pooling, adds):
        matrix, copies = matrix_of(plane)
        yield from copies
        for positions, products, then, before in pieces:
            if adds:
                yield from (*before, panels.add(matrix[positions], products))
            else:
                yield from panels.multiply(matrix[positions][None], products[None])
            yield from then


def on_the_way(products: int, filters: int) -> int:
    """Elements of the scratch by way of which so many products go into a slice of channels."""
    return min(max(SLICE, LEAST_ROWS * filters), products)


def is_pointwise(convolution: Convolution) -> bool:
    """Whether its kernel and its stride are 1, without padding."""
    window = convolution.window
    return set(window.kernel) == {1} and set(window.stride) == {1} and not any(window.head + window.tail)


def engine_of(convolution: Convolution) -> str:
    """The engine that multiplies matrices for it."""
    return "POINTWISE" if is_pointwise(convolution) else "IM2COL"


def columns_work(convolution: Convolution, copied: float, positions: Optional[int] = None) -> Work:
    """What products over so many positions take, by default over the output's pixels, and copies of so much an element
    of the columns."""
    if positions is None:
        positions = convolution.batch * math.prod(convolution.window.output)
    products = convolution.filters * convolution.terms * (positions + weight_cost())
    return Work(products, copied * positions * convolution.terms)


def by_channel(filters: Array) -> Array:
    """(1, kh * kw * C, M) from (M, C, kh, kw)."""
    matrix: Array = filters.transpose(2, 3, 1, 0).reshape(1, -1, len(filters))
    return matrix


def landings(
    call: Call, target: Target, passes: Sequence[Pass], pooling: Optional[Pooling] = None, adds: bool = False
) -> Iterator[Landing]:
    """Where the products of a strip go, plane by plane, and what follows them: by way of scratch 0 if need be. adds:
    whether they are added to what lies there."""
    if pooling is not None:
        return pooled(call, target, passes, pooling, call.scratch[0])
    output = call.outputs[0][..., target.channels]
    if has_gaps(output):
        return in_pieces(call, target, passes, max(LEAST_ROWS, SLICE // output.shape[-1]), call.scratch[0], adds)
    return in_place(call, target, passes, adds)


def _plane(call: Call, convolution: Convolution, x: Tiles, strip: Strip, plane: Tuple[int, int]) -> Matrix:
    return body(call.inputs[0], x, strip)[plane], []


def _columns(call: Call, convolution: Convolution, x: Tiles, strip: Strip, plane: Tuple[int, int]) -> Matrix:
    columns = shaped(call.scratch[1], strip.size, *convolution.window.kernel, x.channels)
    copies = list(gather(call.inputs[0], convolution, x, strip, plane, columns))
    return columns.reshape(strip.size, convolution.terms), copies


class Met(NamedTuple):
    """The input's positions that a strip of results meets under one tap, as a grid: ``begin`` counts from the first
    position of the body, ``down`` and ``across`` from one row and one column of the grid to the next."""

    begin: int
    rows: int
    columns: int
    down: int
    across: int

    @property
    def last(self) -> int:
        """The last position of the grid."""
        return self.begin + (self.rows - 1) * self.down + (self.columns - 1) * self.across


def met_under(strip: Strip, x: Tiles, window: Window) -> Met:
    """As many positions as the strip has, one behind the other; or, where the input has one plane for all its pixels,
    those that the stride does not pass over."""
    stride = window.stride[0]
    if x.tile > 1 or stride == 1:
        return Met(strip.begin, 1, strip.size, 0, 1)
    begin = stride * (strip.first * x.pitch + strip.left)
    return Met(begin, strip.last - strip.first, strip.right - strip.left, stride * x.pitch, stride)


def gather(
    memory: Array, convolution: Convolution, x: Tiles, strip: Strip, plane: Tuple[int, int], columns: Array
) -> Iterator[Step]:
    """Fill ``columns``, (positions, kh, kw, C), of whatever strides: what each tap meets of X under a strip of one
    plane of the results."""
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
    """For each of the met positions the pixels of ``taps`` neighbours, which follow each other: a view (rows, columns,
    taps, C)."""
    step, channel = positions.strides
    shape = met.rows, met.columns, taps, positions.shape[1]
    view: Array = as_strided(positions, shape, (met.down * step, met.across * step, step, channel))
    return view
