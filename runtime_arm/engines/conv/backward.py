"""IM2COL for gradients: those of a convolution, and of a transposed one, as products of matrices, block by block.

A block is some output rows of a window, or several images if they are small. Its pixels are copied into columns, as for
the way forward. With the columns K of X, the errors E = dY and the filters W, all of one block:

    a convolution             dW += E K^T,  and  W^T E, written over K, is added to dX tap by tap
    a transposed convolution  with the columns K of dY:  dW += X K^T,  dX = W K

Images lie one behind the other in the columns, so that a product sums over many pixels: what is added to dW after every
product costs as much as the product over ``FEW`` pixels.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv import depthwise_backward  # noqa: F401  (declared before IM2COL, so preferred to it)
from runtime_arm.engines.conv.col2im import scatter
from runtime_arm.engines.conv.im2col import COLUMN_NBYTES, Block, blocks, fill_columns, pixels_of
from runtime_arm.engines.conv.operands import beyond_three, wrong_dtype
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dialects import forward_form
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import convolution_of
from runtime_arm.operators.conv.convolution_gradients import conv_gradient
from runtime_arm.operators.conv.transposed import transposed_of
from runtime_arm.operators.conv.transposed_gradients import conv_transpose_gradient
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, copy, in_turn, multiply, shaped

FEW = 512  # pixels of a block, if its columns take no more than MOST_NBYTES
MOST_NBYTES = 4 << 20


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

    def extent(self, block: Block) -> Tuple[int, ...]:
        """Images, slices, rows and columns of a block."""
        ranges = (block.images, block.slices, block.rows)
        return (*(end - begin for begin, end in ranges), self.window.output[2])

    def columns(self, block: Block, buffer: Array) -> Array:
        """A block's columns: (group, inner, *kernel, images, slices, rows, columns)."""
        return shaped(buffer, self.shape.group, self.shape.inner, *self.window.kernel, *self.extent(block))

    def outputs(self, block: Block, output: Array, buffer: Array) -> Tuple[Array, Array]:
        """The block's part of an array (N, group * outer, *output), (images, group, outer, pixels), and the same as
        (group, outer, images * pixels): in ``buffer`` if it is of several images, else in place."""
        images, shape = slice(*block.images), self.shape
        rows = output.reshape(shape.batch, shape.group, shape.outer, self.pixels)
        part = rows[images, :, :, pixels_of(block, self.window)]
        if len(part) == 1:
            return part, part[0]
        return part, shaped(buffer, shape.group, shape.outer, part.shape[0] * part.shape[3])

    @property
    def most_pixels(self) -> int:
        return max((math.prod(self.extent(block)) for block in self.blocks), default=0)


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    shape = shape_of(op, inputs)
    if shape.channels_last:
        return "the order must be NCHW"
    if not outputs[0].size or any(spec is not None and not spec.size for spec in inputs):
        return "there is nothing to add up"
    return wrong_dtype(inputs[0]) or beyond_three(shape.window)


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """The columns of a block, its outputs from several images, and its part of dW."""
    dtype = outputs[0].dtype
    shape = shape_of(op, inputs)
    cut = Cut(shape, dtype.itemsize)
    several = any(block.images[1] - block.images[0] > 1 for block in cut.blocks)
    outer = shape.group * shape.outer * cut.most_pixels if several else 0
    partial_sum = outputs[0].size if len(cut.blocks) > 1 else 0
    return [TensorSpec((n,), dtype) for n in (shape.group * shape.terms * cut.most_pixels, outer, partial_sum)]


def _wanted(call: Call) -> Tuple[Optional[Array], Optional[Array]]:
    """The arrays of db and dX, where the operator names them."""
    outputs: List[Optional[Array]] = list(call.outputs)
    if call.op.get_bool("no_bias"):
        outputs.insert(1, None)
    outputs += [None] * (3 - len(outputs))
    return outputs[1], outputs[2]


def _bias(dy: Array, shape: Sequence[int], db: Optional[Array]) -> Iterator[Step]:
    """db = the sum of dY over images and pixels. shape: (N, channels, pixels)."""
    if db is not None:
        yield partial(np.add.reduce, dy.reshape(shape), axis=(0, 2), out=db)


def _add_up(first: bool, a: Array, b: Array, total: Array, buffer: Array) -> List[Step]:
    """total = a @ b for the first block; total += a @ b for the others, by way of the buffer."""
    if first:
        return [multiply(a, b, total)]
    product = shaped(buffer, *total.shape)
    return [multiply(a, b, product), partial(np.add, total, product, out=total)]


@conv_gradient.kernel("IM2COL", supports=supports, scratch=scratch)
def conv_im2col(call: Call) -> Run:
    (_, w, dy), (db, dx) = call.inputs, _wanted(call)
    shape = shape_of(call.op, call.in_specs)
    cut = Cut(shape, w.itemsize)
    steps: List[Step] = list(_bias(dy, (shape.batch, shape.group * shape.outer, cut.pixels), db))
    if dx is not None and not shape.is_product:
        steps.append(partial(dx.fill, 0))
    for index, block in enumerate(cut.blocks):
        steps += _conv_block(call, cut, block, index == 0, None if shape.is_product else dx)
    if dx is not None and shape.is_product:
        filters = w.reshape(shape.group, shape.outer, shape.inner).swapaxes(1, 2)
        errors, result = (a.reshape(shape.batch, shape.group, -1, cut.pixels) for a in (dy, dx))
        steps.append(multiply(filters, errors, result))
    return in_turn(steps)


def _conv_block(call: Call, cut: Cut, block: Block, first: bool, dx: Optional[Array]) -> List[Step]:
    (x, w, dy), (room, several, product) = call.inputs, call.scratch
    shape, images = cut.shape, slice(*block.images)
    taps = cut.columns(block, room)
    columns = taps.reshape(shape.group, shape.terms, -1)
    image = (shape.batch, shape.group, shape.inner, *cut.window.image)
    part, errors = cut.outputs(block, dy, several)
    steps = list(_filled(taps, x.reshape(image)[images], cut.window, block))
    if len(part) > 1:
        steps.append(copy(errors.reshape(shape.group, shape.outer, len(part), -1).transpose(2, 0, 1, 3), part))
    total = call.outputs[0].reshape(shape.group, shape.outer, shape.terms)
    steps += _add_up(first, errors, columns.swapaxes(1, 2), total, product)
    if dx is not None:
        steps.append(multiply(w.reshape(shape.group, shape.outer, shape.terms).swapaxes(1, 2), errors, columns))
        steps += scatter(_in_front(taps), dx.reshape(image)[images], cut.window, block)
    return steps


def _in_front(taps: Array) -> Array:
    """The columns with the images in front: (N, group, inner, *kernel, slices, rows, columns)."""
    return np.moveaxis(taps, 5, 0)


def _filled(taps: Array, image: Array, window: Window, block: Block) -> Iterator[Step]:
    yield from fill_columns(_in_front(taps), image, window, block)


@conv_transpose_gradient.kernel("IM2COL", supports=supports, scratch=scratch)
def conv_transpose_im2col(call: Call) -> Run:
    (_, w, dy), (db, dx) = call.inputs, _wanted(call)
    shape = shape_of(call.op, call.in_specs)
    cut = Cut(shape, w.itemsize)
    pixels = math.prod(cut.window.image)
    steps: List[Step] = list(_bias(dy, (shape.batch, shape.group * shape.inner, pixels), db))
    for index, block in enumerate(cut.blocks):
        steps += _transposed_block(call, cut, block, index == 0, dx)
    return in_turn(steps)


def _transposed_block(call: Call, cut: Cut, block: Block, first: bool, dx: Optional[Array]) -> List[Step]:
    (x, w, dy), (room, several, product) = call.inputs, call.scratch
    shape, images = cut.shape, slice(*block.images)
    taps = cut.columns(block, room)
    columns = taps.reshape(shape.group, shape.terms, -1)
    image = (shape.batch, shape.group, shape.inner, *cut.window.image)
    part, pixels = cut.outputs(block, x, several)
    steps = list(_filled(taps, dy.reshape(image)[images], cut.window, block))
    apart: Any = pixels.reshape(shape.group, shape.outer, len(part), -1).transpose(2, 0, 1, 3)
    if len(part) > 1:
        steps.append(copy(apart, part))
    total = call.outputs[0].reshape(shape.group, shape.outer, shape.terms)
    steps += _add_up(first, pixels, columns.swapaxes(1, 2), total, product)
    if dx is not None:
        target, result = cut.outputs(block, dx, several)
        steps.append(multiply(w.reshape(shape.group, shape.outer, shape.terms), columns, result))
        if len(part) > 1:
            steps.append(copy(target, apart))
    return steps
