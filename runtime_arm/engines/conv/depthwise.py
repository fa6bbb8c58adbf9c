"""DEPTHWISE: a depthwise convolution, as one small product of matrices per channel and strip of output rows.

The scratch holds one copy of each image row for each column of the kernel. It is shifted, and the stride picks pixels
from it, so that the pixels under one output column are below each other:

    image row y  ->  lines (y, 0), (y, 1), (y, 2), each as long as an output row

All lines under a strip of R output rows follow each other, so they are a matrix as they stand, (lines, output columns),
and the strip is T @ lines, where row r of T holds the kernel from line r * stride * kw on and zeros elsewhere (T is a
band, a block Toeplitz matrix). The lines of neighbouring strips overlap, without being copied twice. Since zeros in T
are multiplied with pixels, an infinite pixel turns the whole column of its strip into NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, List, Optional, Sequence, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines.conv.epilogue import finish
from runtime_arm.engines.conv.operands import convolution_in, wrong_dtype
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv.convolution import Convolution, conv, conv_relu, onnx_conv
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.kernel import Call, Run, Specs, Work
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ZERO, Step, copy, in_turn, margins, multiply

if TYPE_CHECKING:
    from runtime_arm.engines.conv.depthwise_volumes import Volumes

LINES_NBYTES = 1 << 18  # of a block's lines, which share a second-level cache with X and Y; at least one strip
STRIP_ROWS = 4  # with more rows T has more zeros, with fewer each product is smaller; measured: 2 and 7 are slower
SHORT_IMAGE = 8  # up to this many output rows are one strip: calls would cost more than the zeros
LEAST_COLUMNS = 10  # of an output row; shorter lines cost more to copy than IM2COL's runs (measured at 7)
FLAT = 6  # a multiply in a product with STRIP_ROWS rows takes this many times as long (measured from 5x5 on: 5.5 to 14)


class Block(NamedTuple):
    """Outputs that are computed at once: of one image, begin and end of channels and of output rows."""

    image: int
    channels: Tuple[int, int]
    rows: Tuple[int, int]


class Strips:
    """A depthwise convolution over rows and columns, cut into blocks of whole strips."""

    def __init__(self, convolution: Convolution, itemsize: int):
        self.convolution = convolution
        self.window = self.convolution.window
        self.columns = self.window.output[1]
        self.rows = self.window.output[0] if self.window.output[0] <= SHORT_IMAGE else STRIP_ROWS
        self.line_nbytes = self.window.kernel[1] * self.columns * itemsize
        self.multiplier = self.convolution.filters // max(self.convolution.channels, 1)

    def reach(self, rows: int) -> int:
        """Image rows under that many output rows."""
        return (rows - 1) * self.window.stride[0] + (self.window.kernel[0] - 1) * self.window.dilation[0] + 1

    def blocks(self, workers: int = 1) -> Iterator[Block]:
        """All blocks: several channels, or a part of one; each worker gets as many, if there are enough channels."""
        height = self.window.output[0]
        strips = -(-height // max(self.rows, 1))
        most = max(1, LINES_NBYTES // max(1, self.reach(self.rows) * self.line_nbytes))  # strips
        for image in range(self.convolution.batch):
            for channels in ranges(self.convolution.channels, max(1, most // max(strips, 1)), workers):
                for first, last in ranges(strips, most):
                    yield Block(image, channels, (first * self.rows, min(last * self.rows, height)))

    def lines(self, block: Block) -> Tuple[int, int, int, int]:
        """The shape of a block's lines: channels, image rows, kernel columns, output columns."""
        (first, last), (begin, end) = block.channels, block.rows
        return last - first, self.reach(end - begin), self.window.kernel[1], self.columns

    def band(self, w: Array) -> Array:
        """T: (C, multiplier, 1, rows of a strip, lines under it) of the weights (C * multiplier, 1, kh, kw)."""
        kernel, stride, dilation = self.window.kernel, self.window.stride[0], self.window.dilation[0]
        band = np.zeros((w.shape[0], self.rows, self.reach(self.rows), kernel[1]), w.dtype)
        for row in range(self.rows):
            for tap in range(kernel[0]):
                band[:, row, row * stride + tap * dilation] = w[:, 0, tap]
        return band.reshape(self.convolution.channels, self.multiplier, 1, self.rows, -1)


def strips_of(op: OperatorDef, inputs: Specs) -> Strips:
    assert inputs[0] is not None
    return Strips(convolution_in(op, inputs), inputs[0].dtype.itemsize)


def _volumes_of(op: OperatorDef, inputs: Specs) -> Optional[Volumes]:
    """The convolution if it has three dimensions; None if it has two."""
    convolution, x = convolution_in(op, inputs), inputs[0]
    assert x is not None
    if convolution.window.ndim == 2:
        return None
    from runtime_arm.engines.conv.depthwise_volumes import Volumes  # nets of pictures do without

    return Volumes(convolution, x.dtype.itemsize)


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    w, convolution, wrong = inputs[1], convolution_in(op, inputs), wrong_dtype(inputs[0])
    assert w is not None
    if wrong is not None:
        return wrong
    if convolution.window.ndim not in (2, 3):
        return f"there must be two or three spatial dimensions, got {convolution.window.ndim}"
    if convolution.channels_last:
        return "the order must be NCHW"
    if convolution.group != convolution.channels:
        return f"every channel must be a group, got {convolution.group} groups of {convolution.channels} channels"
    if convolution.window.ndim == 2 and convolution.window.output[1] < LEAST_COLUMNS:
        return f"an output row must have at least {LEAST_COLUMNS} pixels to pay, got {convolution.window.output[1]}"
    if w.value is None:
        return "the weights must be constant"
    volumes = _volumes_of(op, inputs)
    return None if volumes is None else volumes.refusal()


def work(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    """Fitted to images of 14 to 112 columns: short rows, strides and dilations cost copies, large kernels products."""
    volumes = _volumes_of(op, inputs)
    if volumes is not None:
        return volumes.work()
    window = strips_of(op, inputs).window
    apart = 1.8 if max(window.stride + window.dilation) > 1 else 1
    taps = (STRIP_ROWS + window.kernel[0] - 1) * window.kernel[1]
    products = FLAT * max(0, taps - (STRIP_ROWS + 2) * 3)  # beyond those of 3x3
    return Work(0, ((90 + 1800 / window.output[1]) * apart + products) * outputs[0].size)


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    volumes = _volumes_of(op, inputs)
    if volumes is not None:
        return volumes.scratch(outputs[0].dtype)
    strips = strips_of(op, inputs)
    sizes = [int(np.prod(strips.lines(block))) for block in strips.blocks()]
    return [TensorSpec((max(sizes, default=0),), outputs[0].dtype)]


@conv.kernel("DEPTHWISE", supports=supports, scratch=scratch, work=work, splits_work=True)
@conv_relu.kernel("DEPTHWISE", supports=supports, scratch=scratch, work=work, splits_work=True)
@onnx_conv.kernel("DEPTHWISE", supports=supports, scratch=scratch, work=work, splits_work=True)
def depthwise(call: Call) -> Run:
    volumes = _volumes_of(call.op, call.in_specs)
    if volumes is not None:
        return volumes.bind(call)
    strips = strips_of(call.op, call.in_specs)
    band = call.packed(f"band of {strips.rows}", lambda: strips.band(call.inputs[1]))
    blocks = call.mine(list(strips.blocks(call.workers)))
    return in_turn([step for block in blocks for step in _bind(call, strips, band, block)])


def _bind(call: Call, strips: Strips, band: Array, block: Block) -> List[Step]:
    shape, (begin, end), channels = strips.lines(block), block.rows, slice(*block.channels)
    filters = slice(channels.start * strips.multiplier, channels.stop * strips.multiplier)
    lines = call.scratch[0][: int(np.prod(shape))].reshape(shape)
    y = call.outputs[0][block.image, filters, begin:end]
    parts = y.reshape(shape[0], strips.multiplier, end - begin, strips.columns)
    whole = (end - begin) // strips.rows * strips.rows
    steps = list(fill_lines(lines, call.inputs[0][block.image, channels], strips, begin))
    for first, last, rows in ((0, whole, strips.rows), (whole, end - begin, end - begin - whole)):
        if first < last:
            under = strips_under(lines, strips, first, (last - first) // rows, rows)
            out = parts[:, :, first:last].reshape(*parts.shape[:2], -1, rows, strips.columns)
            steps.append(multiply(band[channels, :, :, :rows, : under.shape[-2]], under, out))
    return [*steps, *finish(call, y.reshape(y.shape[0], -1), False, filters)]


def strips_under(lines: Array, strips: Strips, first: int, count: int, rows: int) -> Array:
    """The lines under ``count`` strips from output row ``first`` on: (channels, 1, count, lines, output columns)."""
    step, line = lines.strides[1] * strips.window.stride[0], lines.strides[2]
    view: Array = as_strided(
        lines[:, first * strips.window.stride[0] :],
        (lines.shape[0], 1, count, strips.reach(rows) * lines.shape[2], lines.shape[3]),
        (lines.strides[0], 0, step * rows, line, lines.itemsize),
    )
    return view


def fill_lines(lines: Array, x: Array, strips: Strips, begin: int, padding: Array = ZERO) -> Iterator[Step]:
    """Copies the image rows under the output rows from ``begin`` on into the lines, and the one element ``padding``."""
    window = strips.window
    top = begin * window.stride[0] - window.head[0]
    inside = slice(min(max(-top, 0), lines.shape[1]), max(min(window.image[0] - top, lines.shape[1]), 0))
    rows = slice(inside.start + top, inside.stop + top)
    for tap in range(window.kernel[1]):
        overlap, target = window.overlap(1, tap), lines[:, :, tap]
        if overlap is None or inside.start >= inside.stop:
            yield copy(target, padding)
            continue
        yield copy(target[:, inside, overlap.out], x[:, rows, overlap.image])
        for margin in margins(target, (inside, overlap.out)):
            yield copy(margin, padding)
