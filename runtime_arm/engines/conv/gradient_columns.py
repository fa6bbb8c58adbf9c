"""Common parts of the gradients of convolutions: their shapes, their columns block by block, and the sum for dW."""

from __future__ import annotations

import math
from functools import partial
from typing import Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.col2im import scatter
from runtime_arm.engines.conv.im2col import COLUMN_NBYTES, Block, blocks, fill_columns, pixels_of
from runtime_arm.engines.conv.pointwise import weight_cost
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dialects import forward_form
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import convolution_of
from runtime_arm.operators.conv.transposed import transposed_of
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Specs
from runtime_arm.registry.steps import Step, copy, multiply, shaped

FEW = 512  # pixels of a block, if its columns take no more than MOST_NBYTES
MOST_NBYTES = 4 << 20
NARROW = 128  # up to this many rows the first operand of a product should be the one with more

# What takes how long, relative to copying an element into the columns (measured at 7 to 56 pixels a side):
SCATTERED, TURNED, MULTIPLY = 2.8, 3.5, 0.07  # adding an element of the columns to dX, turning one of W, a multiply


class Shape(NamedTuple):
    """A convolution from an image to an output: the gradient's own, or that which the transposed one reverses.

    inner, outer: the channels of image and output in each group. The weights are (group, outer, inner, *kernel).
    """

    window: Window
    channels_last: bool
    batch: int
    group: int
    inner: int
    outer: int

    @property
    def terms(self) -> int:
        return self.inner * math.prod(self.window.kernel)

    @property
    def is_product(self) -> bool:
        """Whether every pixel of the output meets one pixel of the image, in the same order."""
        window = self.window
        return set(window.kernel) | set(window.stride) == {1} and not any(window.head + window.tail)

    @property
    def swaps(self) -> bool:
        """Whether dW is computed transposed."""
        return self.outer < self.terms and self.outer <= NARROW


def shape_of(op: OperatorDef, inputs: Specs) -> Shape:
    x, w = inputs[:2]
    assert x is not None
    assert w is not None
    if op.type == "ConvTransposeGradient":
        back = transposed_of(forward_form(op), x, w)
        depth, width = back.filters // back.group, back.channels // back.group
        return Shape(back.window, back.channels_last, back.batch, back.group, depth, width)
    convolution = convolution_of(forward_form(op), x, w)
    group = convolution.group
    depth, width = convolution.channels // group, convolution.filters // group
    return Shape(convolution.window, convolution.channels_last, convolution.batch, group, depth, width)


def turned(shape: Shape) -> List[Shape]:
    """The convolution that makes dX of dY and the flipped filters, if there is one and it pays; else nothing.

    Its columns are copies of dY, whereas ``scatter`` reads, adds and writes; but the filters have to be flipped.
    """
    three = shape.window.in_three()
    assert three is not None
    head = tuple(d * (k - 1) - pad for d, k, pad in zip(three.dilation, three.kernel, three.head))
    if set(three.stride) != {1} or min(head) < 0:
        return []
    before, behind = (shape.batch * math.prod(pixels) for pixels in (three.image, three.output))
    more = MULTIPLY * shape.outer * shape.inner * (before - behind)
    if shape.outer * (before + TURNED * shape.inner) + more > SCATTERED * shape.inner * behind:
        return []
    window = Window(three.output, three.kernel, three.stride, three.dilation, head, (0, 0, 0), three.image)
    return [shape._replace(window=window, inner=shape.outer, outer=shape.inner)]


class Cut:
    """The columns of a convolution, cut into blocks."""

    def __init__(self, shape: Shape, itemsize: int) -> None:
        three = shape.window.in_three()
        assert three is not None
        self.shape, self.window = shape, three
        height = shape.group * shape.terms * itemsize
        nbytes = max(COLUMN_NBYTES, min(MOST_NBYTES, FEW * height))
        self.blocks = list(blocks(shape.batch, three, height * three.output[2], nbytes))
        self.pixels = math.prod(three.output)
        one_image = all(block.images[1] - block.images[0] == 1 for block in self.blocks)
        self.needs_room = not (shape.is_product and one_image)

    def extent(self, block: Block) -> Tuple[int, ...]:
        """Images, slices, rows and columns of a block."""
        ranges = (block.images, block.slices, block.rows)
        return (*(end - begin for begin, end in ranges), self.window.output[2])

    def columns(self, block: Block, image: Array, buffer: Array) -> Tuple[Array, Array, List[Step]]:
        """A block's columns in the buffer: (group, inner, *kernel, images, slices, rows, columns); the same as
        (group, terms, pixels); and the steps that fill them from an image (N, group * inner, *image)."""
        shape, images = self.shape, slice(*block.images)
        apart = image.reshape(shape.batch, shape.group, shape.inner, *self.window.image)[images]
        if not self.needs_room:
            pixels = image.reshape(shape.batch, shape.group, shape.inner, self.pixels)
            return apart, pixels[block.images[0], :, :, pixels_of(block, self.window)], []
        taps = shaped(buffer, shape.group, shape.inner, *self.window.kernel, *self.extent(block))
        steps = list(fill_columns(np.moveaxis(taps, 5, 0), apart, self.window, block))
        return taps, taps.reshape(shape.group, shape.terms, -1), steps

    def outputs(self, block: Block, output: Array, buffer: Array) -> Tuple[Array, Array]:
        """The block's part of an array (N, group * outer, *output), (images, group, outer, pixels), and the same as
        (group, outer, images * pixels): in ``buffer`` if it is of several images, else in place."""
        images, shape = slice(*block.images), self.shape
        rows = output.reshape(shape.batch, shape.group, shape.outer, self.pixels)
        part = rows[images, :, :, pixels_of(block, self.window)]
        if len(part) == 1:
            return part, part[0]
        return part, shaped(buffer, shape.group, shape.outer, part.shape[0] * part.shape[3])

    def images_first(self, joined: Array, part: Array) -> Array:
        """What ``outputs`` gives in a buffer, with the dimensions of the block's part."""
        apart: Array = joined.reshape(self.shape.group, self.shape.outer, len(part), -1).transpose(2, 0, 1, 3)
        return apart

    @property
    def most_pixels(self) -> int:
        return max((math.prod(self.extent(block)) for block in self.blocks), default=0)

    @property
    def room(self) -> Tuple[int, int]:
        """Elements of the buffers of columns and of outputs."""
        shape, most = self.shape, self.most_pixels
        several = any(block.images[1] - block.images[0] > 1 for block in self.blocks)
        columns = shape.group * shape.terms * most if self.needs_room else 0
        return columns, shape.group * shape.outer * most if several else 0


class WeightSum:
    """dW, the sum over all blocks of E K^T: (group, outer, terms). Where E has few rows, K E^T is computed, which BLAS
    does faster. buffers: for that, and for the contribution of a block, of ``sizes``."""

    def __init__(self, cut: Cut, dw: Array, buffers: Sequence[Array]) -> None:
        shape = self._shape = cut.shape
        self._dw = dw.reshape(shape.group, shape.outer, shape.terms)
        self._sum = shaped(buffers[0], shape.group, shape.terms, shape.outer) if shape.swaps else self._dw
        self._buffer, self._is_first = buffers[1], True

    @staticmethod
    def sizes(cut: Cut) -> Tuple[int, int]:
        size = cut.shape.group * cut.shape.outer * cut.shape.terms
        return size if cut.shape.swaps else 0, size if len(cut.blocks) > 1 else 0

    def add(self, errors: Array, columns: Array) -> Iterator[Step]:
        """Adds a block: (group, outer, pixels) and (group, terms, pixels)."""
        a, b = (columns, errors) if self._shape.swaps else (errors, columns)
        if self._is_first:
            self._is_first = False
            yield multiply(a, b.swapaxes(1, 2), self._sum)
            return
        product = shaped(self._buffer, *self._sum.shape)
        yield multiply(a, b.swapaxes(1, 2), product)
        yield partial(np.add, self._sum, product, out=self._sum)

    def finish(self) -> Iterator[Step]:
        if self._shape.swaps:
            yield copy(self._dw, self._sum.swapaxes(1, 2))


def wanted(call: Call) -> Tuple[Optional[Array], Optional[Array]]:
    """The arrays of db and dX, where the operator names them."""
    outputs: List[Optional[Array]] = list(call.outputs)
    if call.op.get_bool("no_bias"):
        outputs.insert(1, None)
    outputs += [None] * (3 - len(outputs))
    return outputs[1], outputs[2]


def bias_steps(dy: Array, shape: Sequence[int], db: Optional[Array]) -> Iterator[Step]:
    """db = the sum of dY over images and pixels. shape: (N, channels, pixels)."""
    if db is not None:
        yield partial(np.add.reduce, dy.reshape(shape), axis=(0, 2), out=db)


def weight_steps(call: Call, cut: Cut, dx: Optional[Array]) -> Iterator[Step]:
    """dW; and dX from the same columns, if it is given."""
    (x, w, dy), (room, several, *buffers) = call.inputs, call.scratch
    shape, total = cut.shape, WeightSum(cut, call.outputs[0], buffers)
    filters = w.reshape(shape.group, shape.outer, shape.terms).swapaxes(1, 2)
    for block in cut.blocks:
        taps, columns, filling = cut.columns(block, x, room)
        yield from filling
        part, errors = cut.outputs(block, dy, several)
        if len(part) > 1:
            yield copy(cut.images_first(errors, part), part)
        yield from total.add(errors, columns)
        if dx is not None:
            yield multiply(filters, errors, columns)
            image = dx.reshape(shape.batch, shape.group, shape.inner, *cut.window.image)
            yield from scatter(np.moveaxis(taps, 5, 0), image[slice(*block.images)], cut.window, block)
    yield from total.finish()


def gradient_work(shape: Shape) -> float:
    """The multiplies of dW, and of dX, and what it takes to read the weights from memory."""
    pixels = shape.batch * math.prod(shape.window.output)
    return shape.group * shape.outer * shape.terms * (pixels + weight_cost())
