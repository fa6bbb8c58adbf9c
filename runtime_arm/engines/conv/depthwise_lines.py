"""The gradients of depthwise convolutions by small products of matrices, all rows of a block at once.

A line is as long as a row of the output and holds the pixels that one column of the kernel reads in an image row. The
lines of one column of the kernel follow each other without gaps, as do rows of several images. With a stride, image
rows are sorted by their remainder when divided by it, so that the rows of one tap follow each other:

    X  ->  lines (C, phase, kernel column, images, rows, output columns)

A row of the kernel is then a distance within these lines, so that one product makes a row of dW:

    dW[ki] = (lines, moved by ki) @ dY

dX is made of lines of dY, moved by the distance of the kernel's columns. Each phase of the image is a convolution of
stride 1 of dY with the taps that fall on it; one product makes the contribution of each row of the kernel to each
phase:

    dX of a phase = the sum over its ki of (W[ki] @ lines), moved by ki
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.steps import ZERO, Step, copy, margins, multiply, shaped

BLOCK_NBYTES = 1 << 20  # of what a block has in scratch memory; at least one channel of an image


class Axis(NamedTuple):
    """One dimension of a window: tap k of output o falls on the pixel stride (o + shifts[k]) + phases[k]."""

    image: int
    output: int
    stride: int
    phases: Tuple[int, ...]
    shifts: Tuple[int, ...]

    @property
    def reach(self) -> int:
        """By how much the shifts of two taps differ at most."""
        return max(self.shifts) - min(self.shifts)

    @property
    def phased(self) -> int:
        """Pixels of the longest phase."""
        return -(-self.image // self.stride)

    def taps(self, phase: int) -> List[int]:
        return [tap for tap, its in enumerate(self.phases) if its == phase]


def axis_of(window: Window, axis: int) -> Axis:
    stride = window.stride[axis]
    places = [k * window.dilation[axis] - window.head[axis] for k in range(window.kernel[axis])]
    phases, shifts = tuple(place % stride for place in places), tuple(place // stride for place in places)
    return Axis(window.image[axis], window.output[axis], stride, phases, shifts)


class Block(NamedTuple):
    """What is computed at once: begin and end of images and of channels."""

    images: Tuple[int, int]
    channels: Tuple[int, int]

    @property
    def counts(self) -> Tuple[int, int]:
        """Channels and images."""
        return self.channels[1] - self.channels[0], self.images[1] - self.images[0]

    def part(self, blob: Array) -> Array:
        """The block's part of a blob (N, C, rows, columns), channels in front."""
        part: Array = blob[slice(*self.images), slice(*self.channels)].swapaxes(0, 1)
        return part


class Lines:
    """A depthwise convolution of two dimensions, cut into blocks."""

    def __init__(self, convolution: Convolution, itemsize: int) -> None:
        window = self.window = convolution.window
        self.rows, self.columns = axis_of(window, 0), axis_of(window, 1)
        self.row_phases, self.column_phases = (sorted(set(axis.phases)) for axis in (self.rows, self.columns))
        self.shifts = sorted(set(self.columns.shifts))
        self.height = self.rows.output + self.rows.reach  # rows of a line's matrix, for one image
        self.back_height = self.rows.phased + self.rows.reach
        self._batch, self._channels = convolution.batch, convolution.channels
        top = -min(self.rows.shifts) * self.rows.stride
        kernel, dilation = (self.rows.stride, window.kernel[1]), (1, window.dilation[1])
        output = (self.height, self.columns.output)
        self._cut = Window(window.image, kernel, window.stride, dilation, (top, window.head[1]), (0, 0), output)
        self._itemsize = itemsize

    def blocks(self, elements: int) -> Iterator[Block]:
        """All blocks, of as many channels of all images as fit. elements: those in scratch, of a channel and image."""
        most = max(1, BLOCK_NBYTES // max(1, elements * self._itemsize))
        for channels in ranges(self._channels, max(1, most // self._batch)):
            for images in ranges(self._batch, most):
                yield Block(images, channels)

    @property
    def plane(self) -> int:
        """Elements of a line's matrix, for one channel and image."""
        return self.height * self.columns.output

    @property
    def ahead(self) -> int:
        """Elements of all lines, for one channel and image."""
        return len(self.row_phases) * self.window.kernel[1] * self.plane

    @property
    def back_plane(self) -> int:
        return self.back_height * self.columns.phased

    @property
    def results(self) -> int:
        """Rows of kernels that make dX: one for each phase of the columns and each row of the kernel."""
        return len(self.column_phases) * self.window.kernel[0]

    def shape(self, block: Block) -> Tuple[int, ...]:
        """The shape of a block's lines."""
        channels, images = block.counts
        size = (images, self.height, self.columns.output)
        return (channels, len(self.row_phases), self.window.kernel[1], *size)

    def fill(self, lines: Array, x: Array) -> Iterator[Step]:
        """Copies the part of X of a block, (C, images, rows, columns), into its lines."""
        for at, phase in enumerate(self.row_phases):
            for tap in range(self.window.kernel[1]):
                target, rows, columns = lines[:, at, tap], self._cut.overlap(0, phase), self._cut.overlap(1, tap)
                if rows is None or columns is None:
                    yield copy(target, ZERO)
                    continue
                yield copy(target[..., rows.out, columns.out], x[..., rows.image, columns.image])
                for margin in margins(target, (rows.out, columns.out)):
                    yield copy(margin, ZERO)

    def moved(self, lines: Array, tap: int) -> Array:
        """The part of a block's lines that a row of the kernel reads: (C, kernel columns, elements)."""
        _, height, width = lines.shape[3:]
        begin = (self.rows.shifts[tap] - min(self.rows.shifts)) * width
        count = (lines.shape[3] * height - self.rows.reach) * width
        of_phase = lines[:, self.row_phases.index(self.rows.phases[tap])]
        moved: Array = of_phase.reshape(*of_phase.shape[:2], -1)[..., begin : begin + count]
        return moved


def weight_steps(
    lines: Lines, block: Block, x: Array, dy: Array, dw: Array, buffers: Sequence[Array]
) -> Iterator[Step]:
    """dW += the block's part. buffers: for lines, for dY with rows of zeros, and for the part; see ``weight_sizes``."""
    filled = shaped(buffers[0], *lines.shape(block))
    channels, images = block.counts
    errors = shaped(buffers[1], channels, images, lines.height, lines.columns.output)
    yield from lines.fill(filled, block.part(x))
    yield copy(errors[:, :, : lines.rows.output], block.part(dy))
    if lines.rows.reach:
        yield copy(errors[:, :, lines.rows.output :], ZERO)
    kernel = lines.window.kernel
    part, column = shaped(buffers[2], kernel[0], channels, kernel[1], 1), errors.reshape(channels, -1, 1)
    for tap in range(kernel[0]):
        under = lines.moved(filled, tap)
        yield multiply(under, column[:, : under.shape[2]], part[tap])
    total = dw[slice(*block.channels), 0]
    yield partial(np.add, total, part[..., 0].swapaxes(0, 1), out=total)


def weight_sizes(lines: Lines, block: Block) -> Tuple[int, int, int]:
    channels, images = block.counts
    together = channels * images
    return together * lines.ahead, together * lines.plane, channels * math.prod(lines.window.kernel)


def kernel_steps(lines: Lines, w: Array, kernels: Array) -> Iterator[Step]:
    """Sorts the weights (C, 1, kh, kw) into (C, results, shifts), the kernels that make dX."""
    yield copy(kernels, ZERO)
    for row, tap in np.ndindex(*lines.window.kernel):
        result = lines.column_phases.index(lines.columns.phases[tap]) * lines.window.kernel[0] + row
        yield copy(kernels[:, result, lines.shifts.index(lines.columns.shifts[tap])], w[:, 0, row, tap])


def data_steps(
    lines: Lines, block: Block, kernels: Array, dy: Array, dx: Array, buffers: Sequence[Array]
) -> Iterator[Step]:
    """The block's dX. buffers: for the lines of dY and for their products; see ``data_sizes``."""
    channels, images = block.counts
    plane = (images, lines.back_height, lines.columns.phased)
    filled = shaped(buffers[0], channels, len(lines.shifts), *plane)
    products = shaped(buffers[1], channels, lines.results, *plane)
    rows = _shifted(lines.back_height, lines.rows.output, max(lines.rows.shifts))
    for at, shift in enumerate(lines.shifts):
        columns = _shifted(lines.columns.phased, lines.columns.output, shift)
        target = filled[:, at]
        yield copy(target[..., rows[0], columns[0]], block.part(dy)[..., rows[1], columns[1]])
        for margin in margins(target, (rows[0], columns[0])):
            yield copy(margin, ZERO)
    flat = [array.reshape(channels, array.shape[1], -1) for array in (filled, products)]
    yield multiply(kernels[slice(*block.channels)], flat[0], flat[1])
    for phases in np.ndindex(lines.rows.stride, lines.columns.stride):
        yield from _sum_phase(lines, phases, products, block.part(dx))


def data_sizes(lines: Lines, block: Block) -> Tuple[int, int]:
    together = math.prod(block.counts) * lines.back_plane
    return together * len(lines.shifts), together * lines.results


def _sum_phase(lines: Lines, phases: Tuple[int, ...], products: Array, dx: Array) -> Iterator[Step]:
    """The pixels of one phase: the sum over the rows of the kernel that fall on them."""
    target = dx[..., phases[0] :: lines.rows.stride, phases[1] :: lines.columns.stride]
    if not target.size:
        return
    terms = []
    for tap in lines.rows.taps(phases[0]) if phases[1] in lines.column_phases else []:
        result = lines.column_phases.index(phases[1]) * lines.window.kernel[0] + tap
        begin = max(lines.rows.shifts) - lines.rows.shifts[tap]
        terms.append(products[:, result, :, begin : begin + target.shape[2], : target.shape[3]])
    if len(terms) < 2:
        yield copy(target, terms[0] if terms else ZERO)
        return
    for term in terms[1:-1]:
        yield partial(np.add, terms[0], term, out=terms[0])
    yield partial(np.add, terms[0], terms[-1], out=target)


def _shifted(size: int, given: int, shift: int) -> Tuple[slice, slice]:
    """Where ``given`` elements lie among ``size`` if they are moved by ``shift``, and which of them."""
    begin, end = min(max(shift, 0), size), max(min(size, given + shift), 0)
    end = max(begin, end)
    return slice(begin, end), slice(begin - shift, end - shift)


def wrong_kind(convolution: Convolution) -> Optional[str]:
    """Why lines cannot compute a convolution; None if they can."""
    if convolution.window.ndim != 2:
        return f"there must be two spatial dimensions, got {convolution.window.ndim}"
    if convolution.channels_last:
        return "the order must be NCHW"
    if not convolution.group == convolution.channels == convolution.filters:
        return f"every channel must be a group of one filter, got {convolution.group} groups"
    return None if convolution.batch and convolution.channels else "there is nothing to add up"


def largest(sizes: Any) -> List[int]:
    """For each buffer the most that a block needs."""
    return [max(of_buffer) for of_buffer in zip(*sizes)]
