"""DEPTHWISE in three dimensions (frames, rows, columns): one product of matrices per channel and strip of frames.

A line is as long as rows of the output together, and those under them: it holds the pixels that one column of the
kernel reads in a frame. With a stride, rows of the image are sorted by their remainder when divided by it, a phase
each, so that the rows of one tap follow each other:

    X  ->  for each phase: lines (C, frame, kernel column, rows * output columns)

All lines under a strip of R output frames follow each other, so they are a matrix as they stand, and row (tap, r) of T
holds the kernel's row ``tap`` from line r * stride * kw on and zeros elsewhere (T is a band for each tap):

    T (taps * R, lines) @ lines (lines, rows * columns) -> the contribution of each row of the kernel, moved by its row

Y is the sum of these, each from the row on at which its tap begins. Since zeros in T are multiplied with pixels, an
infinite pixel makes NaN at its place in other frames of its strip.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Iterator, List, Optional, Sequence, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines.conv.depthwise_lines import axis_of
from runtime_arm.engines.conv.epilogue import finish
from runtime_arm.netdef import Array
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.kernel import Call, Run, Work
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ZERO, Step, copy, in_turn, margins, multiply

BLOCK_NBYTES = 1 << 19  # of a block's lines and products, which share a second-level cache with X and Y
MOST_NBYTES = 1 << 22  # of the smallest block
STRIP_FRAMES = 4  # at most; measured: 3 to 5 take the same time, 7 and 8 up to a third more
PRODUCT, LINE, STRIDED_LINE, SUM = 4, 31, 124, 60  # what each takes for an output, in units of ``Work``


class Phase(NamedTuple):
    """Rows ``number`` + k stride of the image, the kernel's rows that meet them, and the shift of the first of these.

    shifts: how many rows of the phase each of them begins behind the first.
    """

    number: int
    taps: Tuple[int, ...]
    first: int
    shifts: Tuple[int, ...]


class Block(NamedTuple):
    """Outputs that are computed at once: of one image, begin and end of channels, of strips and of output rows."""

    image: int
    channels: Tuple[int, int]
    strips: Tuple[int, int]
    rows: Tuple[int, int]


class Volumes:
    """A depthwise convolution over frames, rows and columns, cut into blocks of whole strips."""

    def __init__(self, convolution: Convolution, itemsize: int):
        self.convolution, self.window = convolution, convolution.window
        self.frames, self.rows, self.columns = self.window.output
        self.strips = -(-self.frames // STRIP_FRAMES) if self.window.kernel[0] > 1 else self.frames
        self.strip = -(-self.frames // max(self.strips, 1))
        self.multiplier = convolution.filters // max(convolution.channels, 1)
        self.phases = list(self._phases())
        lines = self.lines_of(1) * len(self.phases) + self.multiplier * self.window.kernel[1] * self.strip
        self._row_nbytes = lines * self.columns * itemsize

    def _phases(self) -> Iterator[Phase]:
        axis = axis_of(self.window, 1)
        for number in sorted(set(axis.phases)):
            taps = axis.taps(number)
            first = min(axis.shifts[tap] for tap in taps)
            yield Phase(number, tuple(taps), first, tuple(axis.shifts[tap] - first for tap in taps))

    def lines_of(self, strips: int) -> int:
        """How many lines are under this many strips."""
        stride, reach = self.window.stride[0], (self.window.kernel[0] - 1) * self.window.dilation[0]
        return ((strips * self.strip - 1) * stride + reach + 1) * self.window.kernel[2]

    def blocks(self, workers: int = 1) -> Iterator[Block]:
        """All blocks: several channels, or a part of one; each worker gets as many, if there are enough channels."""
        rows = max(1, min(BLOCK_NBYTES // max(self._row_nbytes, 1), self.rows))
        strips = max(1, BLOCK_NBYTES // max(rows * self._row_nbytes, 1))
        for image in range(self.convolution.batch):
            for channels in ranges(self.convolution.channels, max(1, strips // max(self.strips, 1)), workers):
                for some in ranges(self.strips, strips):
                    for part in ranges(self.rows, rows):
                        yield Block(image, channels, some, part)

    def lines(self, block: Block, phase: Phase) -> Tuple[int, int, int, int, int]:
        """The shape of a block's lines: channels, frames, kernel columns, rows, columns."""
        (first, last), (begin, end), (top, bottom), columns = block.channels, block.strips, block.rows, self.columns
        kernel = self.window.kernel[2]
        return last - first, self.lines_of(end - begin) // kernel, kernel, bottom - top + max(phase.shifts), columns

    def products(self, block: Block, phase: Phase) -> Tuple[int, ...]:
        """The shape of a block's products: channels, multiplier, strips, taps, frames of a strip, rows, columns."""
        channels, _, _, *pixels = self.lines(block, phase)
        strips = block.strips[1] - block.strips[0]
        return (channels, self.multiplier, strips, len(phase.taps), self.strip, *pixels)

    def band(self, w: Array, phase: Phase) -> Array:
        """T: (C, multiplier, 1, taps * frames of a strip, lines under it) of W (C * multiplier, 1, kt, kh, kw)."""
        kernel, stride, dilation = self.window.kernel, self.window.stride[0], self.window.dilation[0]
        lines = self.lines_of(1) // kernel[2]
        band = np.zeros((w.shape[0], len(phase.taps), self.strip, lines, kernel[2]), w.dtype)
        for row, tap in enumerate(phase.taps):
            for frame in range(self.strip):
                for when in range(kernel[0]):
                    band[:, row, frame, frame * stride + when * dilation] = w[:, 0, when, tap]
        return band.reshape(self.convolution.channels, self.multiplier, 1, len(phase.taps) * self.strip, -1)

    def refusal(self) -> Optional[str]:
        """Why it would take too much memory; None if it does not."""
        nbytes = self._row_nbytes * (1 + max((max(phase.shifts) for phase in self.phases), default=0))
        fits = nbytes <= MOST_NBYTES
        return None if fits else f"the smallest block takes {nbytes} bytes of lines, more than {MOST_NBYTES}"

    def work(self) -> Work:
        """Fitted to the layers of x3d, mvit and csn, and to kernels of 1 to 9 in each dimension."""
        outputs = self.convolution.batch * self.convolution.filters * math.prod(self.window.output)
        lines = len(self.phases) * self.window.kernel[2] * self.window.stride[0]
        taps, copying = self.window.kernel[1], LINE if self.window.stride[2] == 1 else STRIDED_LINE
        return Work(PRODUCT * taps * self.lines_of(1) * outputs, (copying * lines + SUM * taps) * outputs)

    def scratch(self, dtype: np.dtype) -> Sequence[TensorSpec]:
        """The lines and the products of a block, those of all phases one after the other."""
        sizes = [
            [sum(math.prod(shape(block, phase)) for phase in self.phases) for block in self.blocks()]
            for shape in (self.lines, self.products)
        ]
        return [TensorSpec((max(column, default=0),), dtype) for column in sizes]

    def bind(self, call: Call) -> Run:
        w, blocks = call.inputs[1], call.mine(list(self.blocks(call.workers)))
        bands = call.packed(f"bands of {self.strip}", lambda: [self.band(w, phase) for phase in self.phases])
        return in_turn([step for block in blocks for step in _bind(call, self, bands, block)])


def _bind(call: Call, volumes: Volumes, bands: Sequence[Array], block: Block) -> List[Step]:
    channels, (begin, end), columns = slice(*block.channels), block.rows, volumes.columns
    filters = slice(channels.start * volumes.multiplier, channels.stop * volumes.multiplier)
    steps: List[Step] = []
    parts: List[Array] = []
    free = list(call.scratch[:2])
    for phase, band in zip(volumes.phases, bands):
        lines, products = volumes.lines(block, phase), volumes.products(block, phase)
        under, found = (buffer[: math.prod(shape)] for buffer, shape in zip(free, (lines, products)))
        free = [buffer[taken.size :] for buffer, taken in zip(free, (under, found))]
        steps += _fill(under.reshape(lines), call.inputs[0][block.image, channels], volumes, block, phase)
        out = found.reshape(*products[:3], products[3] * products[4], -1)
        steps.append(multiply(band[channels], _strips_under(under.reshape(lines), volumes, out.shape[2]), out))
        each = found.reshape(*products[:5], -1)
        for row, shift in enumerate(phase.shifts):
            parts.append(each[:, :, :, row, :, shift * columns : (shift + end - begin) * columns])
    frames = slice(block.strips[0] * volumes.strip, min(block.strips[1] * volumes.strip, volumes.frames))
    y = call.outputs[0][block.image, filters, frames, begin:end]
    y = y.reshape(*y.shape[:2], -1)
    steps += _add_up(parts, y.reshape(-1, volumes.multiplier, *y.shape[1:]))
    results = y.reshape(len(y), -1) if end - begin == volumes.rows else y.swapaxes(0, 1)
    return [*steps, *finish(call, results, False, filters)]


def _fill(lines: Array, x: Array, volumes: Volumes, block: Block, phase: Phase) -> Iterator[Step]:
    """Copies the pixels under a block into the lines of a phase, with zeros around them."""
    window, stride = volumes.window, volumes.window.stride[1]
    begin = block.strips[0] * volumes.strip * window.stride[0] - window.head[0]
    frames = _inside(begin, lines.shape[1], window.image[0])
    top = block.rows[0] + phase.first
    rows = _inside(top, lines.shape[3], -(-(window.image[1] - phase.number) // stride))
    of_phase = x[:, frames.start + begin : frames.stop + begin, (rows.start + top) * stride + phase.number :: stride]
    for tap in range(window.kernel[2]):
        overlap, target = window.overlap(2, tap), lines[:, :, tap]
        if overlap is None or frames.start >= frames.stop or rows.start >= rows.stop:
            yield copy(target, ZERO)
            continue
        met = of_phase[:, :, : rows.stop - rows.start, overlap.image]
        yield copy(target[:, frames, rows, overlap.out], met)
        for margin in margins(target, (frames, rows, overlap.out)):
            yield copy(margin, ZERO)


def _inside(begin: int, count: int, most: int) -> slice:
    """Which of ``count`` places from ``begin`` on lie among the first ``most``."""
    return slice(min(max(-begin, 0), count), max(min(most - begin, count), 0))


def _strips_under(lines: Array, volumes: Volumes, strips: int) -> Array:
    """The lines under each strip: (channels, 1, strips, lines, pixels)."""
    step = lines.strides[1] * volumes.window.stride[0] * volumes.strip
    pixels = lines.shape[3] * lines.shape[4]
    view: Array = as_strided(
        lines,
        (lines.shape[0], 1, strips, volumes.lines_of(1), pixels),
        (lines.strides[0], 0, step, pixels * lines.itemsize, lines.itemsize),
    )
    return view


def _add_up(parts: Sequence[Array], y: Array) -> Iterator[Step]:
    """Adds up what each row of the kernel adds, (C, multiplier, strips, frames of a strip, pixels), into Y, (C,
    multiplier, frames, pixels). The last strip may have fewer frames."""
    strip, total = parts[0].shape[3], y.shape[2]
    whole = total // strip
    pieces = [(slice(0, whole), strip)] if whole else []
    if whole * strip < total:
        pieces.append((slice(whole, whole + 1), total - whole * strip))
    for strips, frames in pieces:
        begin = strips.start * strip
        out = y[:, :, begin : begin + (strips.stop - strips.start) * frames]
        out = out.reshape(*y.shape[:2], -1, frames, y.shape[3])
        first, *others = (part[:, :, strips, :frames] for part in parts)
        if not others:
            yield copy(out, first)
            continue
        yield partial(np.add, first, others[0], out)
        for other in others[1:]:
            yield partial(np.add, out, other, out)
