"""IM2COL: copies the pixels under the kernel into columns, block by block, and multiplies them with the filters.

The columns of a block take COLUMN_NBYTES: output rows, or whole images if they are small. Each tap of the kernel is one
strided copy into the columns; padding is written there too, so X is never padded. The products go straight into Y.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv import (  # noqa: F401  (declared before IM2COL, so preferred to it)
    depthwise,
    fft,
    winograd,
)
from runtime_arm.engines.conv.epilogue import finish
from runtime_arm.engines.conv.operands import beyond_three, convolution_in, wrong_dtype
from runtime_arm.engines.conv.pointwise import PASS, STRIDED, products, splits_filters
from runtime_arm.engines.conv.small_columns import SmallColumns
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Index, Window
from runtime_arm.operators.conv.convolution import conv, conv_relu, onnx_conv
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.kernel import Call, Run, Specs, Work
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ZERO, Step, copy, in_turn, margins, multiply

COLUMN_NBYTES = 1 << 20  # about a second-level cache; but a block has at least one row of the output
SLIM = 32  # a multiply takes this many times as long in a product with one filter: BLAS packs as much for it


class Block(NamedTuple):
    """Outputs that are computed at once: begin and end of images, slices and rows; always whole rows."""

    images: Tuple[int, int]
    slices: Tuple[int, int]
    rows: Tuple[int, int]


def blocks(
    batch: int, window: Window, row_nbytes: int, block_nbytes: Optional[int] = None, workers: int = 1
) -> Iterator[Block]:
    """Cuts the outputs of a window over three dimensions into blocks of nearly equal size; each worker gets as many.

    row_nbytes: what one row of outputs takes. block_nbytes: what a block may take, by default COLUMN_NBYTES.
    """
    slices, rows, _ = window.output
    most = max(1, (block_nbytes or COLUMN_NBYTES) // max(row_nbytes, 1))
    if most >= slices * rows and batch >= workers:
        for images in ranges(batch, most // max(slices * rows, 1), workers):
            yield Block(images, (0, slices), (0, rows))
        return
    most = min(most, max(1, -(-slices * rows // workers)))
    for image in range(batch):
        for outer in ranges(slices, max(1, most // rows), workers):
            for inner in ranges(rows, most, workers if slices == 1 else 1):
                yield Block((image, image + 1), outer, inner)


class Place(NamedTuple):
    """Where a block lies: images, and pixels of the output in each; ``batch`` and ``size`` say how many of both."""

    images: slice
    pixels: slice
    batch: int
    size: int


class CutColumns:
    """The matrix of columns of a window over slices, rows and columns of pixels, cut into blocks.

    height: its elements for each pixel of the output.
    """

    def __init__(self, batch: int, window: Window, height: int, itemsize: int, workers: int = 1):
        three = window.in_three()
        assert three is not None
        self.window: Window = three
        self.height = height
        self.blocks = list(blocks(batch, three, height * three.output[2] * itemsize, workers=workers))

    @property
    def largest(self) -> int:
        """Elements that the columns of the largest block take."""
        return max(map(self.size, self.blocks), default=0)

    def place(self, block: Block) -> Place:
        """Where the block lies in the output."""
        images, pixels = slice(*block.images), pixels_of(block, self.window)
        return Place(images, pixels, images.stop - images.start, pixels.stop - pixels.start)

    def extent(self, block: Block) -> Tuple[int, int, int]:
        """Slices, rows and columns of a block."""
        return block.slices[1] - block.slices[0], block.rows[1] - block.rows[0], self.window.output[2]

    def size(self, block: Block) -> int:
        """Elements that a block's columns take."""
        return (block.images[1] - block.images[0]) * self.height * math.prod(self.extent(block))


class Columns(CutColumns):
    """A convolution whose columns are cut into blocks."""

    def __init__(self, op: OperatorDef, inputs: Specs, workers: int = 1):
        convolution = self.convolution = convolution_in(op, inputs)
        assert inputs[0] is not None
        height, itemsize = convolution.group * convolution.terms, inputs[0].dtype.itemsize
        super().__init__(convolution.batch, convolution.window, height, itemsize, workers)


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return wrong_dtype(inputs[0]) or beyond_three(convolution_in(op, inputs).window)


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    small = SmallColumns.of(op, inputs)
    return [TensorSpec((max(Columns(op, inputs).largest, small.scratch if small else 0),), outputs[0].dtype)]


def work(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    convolution = convolution_in(op, inputs)
    window = convolution.window
    pixels = convolution.batch * math.prod(window.output)
    copy = PASS if window.stride[-1] == 1 else STRIDED
    slim = 1 if convolution.group == 1 else 1 + SLIM * convolution.group / convolution.filters
    return Work(slim * products(convolution), copy * pixels * convolution.channels * math.prod(window.kernel))


@conv.kernel("IM2COL", supports=supports, scratch=scratch, work=work, splits_work=True)
@conv_relu.kernel("IM2COL", supports=supports, scratch=scratch, work=work, splits_work=True)
@onnx_conv.kernel("IM2COL", supports=supports, scratch=scratch, work=work, splits_work=True)
def im2col(call: Call) -> Run:
    small = SmallColumns.of(call.op, call.in_specs) if call.workers == 1 else None
    if small is not None:
        return in_turn(small.steps(call))
    columns = Columns(call.op, call.in_specs, call.workers)
    if columns.convolution.channels_last:
        return in_turn([step for block in call.mine(columns.blocks) for step in _channels_last(call, columns, block)])
    mine, filters = _part(call, columns)
    return in_turn([step for block in mine for step in _channels_first(call, columns, block, filters)])


def _part(call: Call, columns: Columns) -> Tuple[Sequence[Block], slice]:
    """This worker's blocks and filters."""
    convolution = columns.convolution
    pixels = convolution.batch * math.prod(convolution.window.output)
    weights, outputs = convolution.filters * convolution.terms, pixels * convolution.filters
    if convolution.group > 1 or not splits_filters(call.workers, pixels, weights, outputs):
        return call.mine(columns.blocks), slice(None)
    return Columns(call.op, call.in_specs).blocks, call.slice_of(convolution.filters)


def _channels_first(call: Call, columns: Columns, block: Block, filters: slice) -> List[Step]:
    """columns: (N, group, C / group, *kernel, pixels), products: W @ columns, (N, group, M / group, pixels).

    filters: those that are computed, if there is one group.
    """
    group, terms = columns.convolution.group, columns.convolution.terms
    depth, width = columns.convolution.channels // group, columns.convolution.filters // group
    window, extent = columns.window, columns.extent(block)
    images, pixels, count, size = columns.place(block)
    buffer = call.scratch[0][: columns.size(block)]
    x = call.inputs[0][images].reshape(count, group, depth, *window.image)
    y = call.outputs[0][images].reshape(count, group, width, math.prod(window.output))[:, :, filters, pixels]
    flat = call.outputs[0][images].reshape(count, group * width, math.prod(window.output))[:, filters, pixels]
    w = call.inputs[1].reshape(group, width, terms)[:, filters]
    return [
        *fill_columns(buffer.reshape(count, group, depth, *window.kernel, *extent), x, window, block),
        multiply(w, buffer.reshape(count, group, terms, size), y),
        *finish(call, flat, False, filters),
    ]


def _channels_last(call: Call, columns: Columns, block: Block) -> List[Step]:
    """columns: (N, group, pixels, *kernel, C / group), products: columns @ W, (N, pixels, group, M / group)."""
    group, terms = columns.convolution.group, columns.convolution.terms
    depth, width = columns.convolution.channels // group, columns.convolution.filters // group
    window, extent = columns.window, columns.extent(block)
    images, pixels, count, size = columns.place(block)
    buffer = call.scratch[0][: columns.size(block)]
    x = call.inputs[0][images].reshape(count, *window.image, group, depth).transpose(0, 4, 5, 1, 2, 3)
    y = call.outputs[0][images].reshape(count, math.prod(window.output), group, width)[:, pixels]
    taps = buffer.reshape(count, group, *extent, *window.kernel, depth).transpose(0, 1, 8, 5, 6, 7, 2, 3, 4)
    w = call.inputs[1].reshape(group, width, terms).swapaxes(1, 2)
    return [
        *fill_columns(taps, x, window, block),
        multiply(buffer.reshape(count, group, size, terms), w, y.swapaxes(1, 2)),
        *finish(call, y.reshape(count, size, group * width), True),
    ]


def pixels_of(block: Block, window: Window) -> slice:
    """The places of the block's outputs among those of an image."""
    _, rows, columns = window.output
    first = (block.slices[0] * rows + block.rows[0]) * columns
    last = ((block.slices[1] - 1) * rows + block.rows[1]) * columns
    return slice(first, last)


def fill_columns(taps: Array, x: Array, window: Window, block: Block, padding: Array = ZERO) -> Iterator[Step]:
    """Copies the pixels that each tap meets; places in the padding get the one element of ``padding``.

    taps: (N, group, C / group, *kernel, *extent of the block), x: (N, group, C / group, *image).
    """
    ranges = (block.slices, block.rows, (0, window.output[2]))
    in_runs = window.stride[1:] == (1, 1) and window.image[2] == window.output[2] and x.strides[-1] == x.itemsize
    overlaps = [
        [window.overlap(axis, k, *ranges[axis]) for k in range(size)] for axis, size in enumerate(window.kernel)
    ]
    for tap, found in zip(np.ndindex(*window.kernel), product(*overlaps)):
        target = taps[:, :, :, tap[0], tap[1], tap[2]]
        met = [overlap for overlap in found if overlap is not None]
        if len(met) < len(tap):
            yield copy(target, padding)
            continue
        inside: Index = (..., *[overlap.out for overlap in met])
        pixels: Index = (..., *[overlap.image for overlap in met])
        if in_runs:
            whole: Index = (slice(None),)
            shift = tap[2] * window.dilation[2] - window.head[2]
            yield _copy_run(target[inside[:-1] + whole], x[pixels[:-1] + whole], shift)
        else:
            yield copy(target[inside], x[pixels])
        for margin in margins(target, inside[1:]):
            yield copy(margin, padding)


def _copy_run(target: Array, source: Array, shift: int) -> Step:
    """Copies rows, shifted to the left by ``shift`` pixels, as one run; pixels that wrap around land in the margins."""
    to, of = (view.reshape(*view.shape[:-2], view.shape[-2] * view.shape[-1]) for view in (target, source))
    left, right = max(shift, 0), max(-shift, 0)
    return copy(to[..., right : to.shape[-1] - left], of[..., left : of.shape[-1] - right])
