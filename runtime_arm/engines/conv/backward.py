"""IM2COL for gradients: those of a convolution, and of a transposed one, as products of matrices, block by block.

A block is some output rows of a window, or several images if they are small. Its pixels are copied into columns, as in
the forward pass. With the columns K of X, the errors E = dY and the filters W, all of one block:

    a convolution             dW += E K^T,  and  W^T E, written over K, is added to dX tap by tap
    a transposed convolution  with the columns K of dY:  dW += X K^T,  dX = W K

If it takes less time, dX of a convolution of stride 1 is a convolution itself, of dY with flipped filters:
dX = W' K' with the columns K' of dY. Then nothing is added up in memory.

Images follow each other in the columns, so that a product sums over many pixels: adding to dW after every product costs
as much as the product over ``FEW`` pixels.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Iterator, List, Optional, Sequence

import numpy as np

from runtime_arm.engines.conv import (  # noqa: F401  (declared before IM2COL, so preferred to it)
    depthwise_backward,
    winograd_backward,
)
from runtime_arm.engines.conv.col2im import scatter
from runtime_arm.engines.conv.gradient_columns import (
    Cut,
    Shape,
    WeightSum,
    bias_steps,
    gradient_work,
    shape_of,
    turned,
    wanted,
    weight_steps,
)
from runtime_arm.engines.conv.im2col import fill_columns, pixels_of
from runtime_arm.engines.conv.operands import beyond_three, wrong_dtype
from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution_gradients import conv_gradient
from runtime_arm.operators.conv.transposed_gradients import conv_transpose_gradient
from runtime_arm.registry.kernel import Call, Run, Specs, Work
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, copy, in_turn, multiply, shaped


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    shape = shape_of(op, inputs)
    if shape.channels_last and op.type == "ConvTransposeGradient":
        return "the order must be NCHW"
    if not outputs[0].size or any(spec is not None and not spec.size for spec in inputs):
        return "there is nothing to add up"
    return wrong_dtype(inputs[0]) or beyond_three(shape.window)


def _turned(op: OperatorDef, shape: Shape) -> List[Shape]:
    """How dX is computed of dY: a shape, or nothing."""
    scattered = op.type == "ConvTransposeGradient" or shape.is_product or shape.channels_last
    return [] if scattered else turned(shape)


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """The columns of a block, its outputs from several images; the two of ``WeightSum``; the flipped filters."""
    dtype = outputs[0].dtype
    shape = shape_of(op, inputs)
    cut, back = Cut(shape, dtype.itemsize), _turned(op, shape)
    rooms = [cut.room, *[Cut(one, dtype.itemsize).room for one in back]]
    sizes = [max(sizes) for sizes in zip(*rooms)]
    return [TensorSpec((n,), dtype) for n in (*sizes, *WeightSum.sizes(cut), outputs[0].size if back else 0)]


def work(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    shape = shape_of(op, inputs)
    columns = PASS * shape.batch * math.prod(shape.window.output) * shape.terms * shape.group
    return Work(2 * gradient_work(shape), 2 * columns)


@conv_gradient.kernel("IM2COL", supports=supports, scratch=scratch, work=work)
def conv_im2col(call: Call) -> Run:
    (_, w, dy), (db, dx) = call.inputs, wanted(call)
    shape = shape_of(call.op, call.in_specs)
    cut, back = Cut(shape, w.itemsize), _turned(call.op, shape)
    if shape.channels_last:
        return in_turn(list(_channels_last_steps(call, cut, db, dx)))
    steps: List[Step] = list(bias_steps(dy, (shape.batch, shape.group * shape.outer, cut.pixels), db))
    scattered = None if back or shape.is_product else dx
    if scattered is not None:
        steps.append(partial(scattered.fill, 0))
    steps += weight_steps(call, cut, scattered)
    if dx is not None and shape.is_product:
        filters = w.reshape(shape.group, shape.outer, shape.inner).swapaxes(1, 2)
        errors, result = (a.reshape(shape.batch, shape.group, -1, cut.pixels) for a in (dy, dx))
        steps.append(multiply(filters, errors, result))
    if dx is not None:
        for one in back:
            steps += _turned_steps(call, Cut(one, w.itemsize), dx)
    return in_turn(steps)


def _channels_last_steps(call: Call, cut: Cut, db: Optional[Array], dx: Optional[Array]) -> Iterator[Step]:
    """All gradients where the channels come last; the columns are (group, pixels, *kernel, inner)."""
    (x, w, dy), (room, _, *buffers) = call.inputs, call.scratch
    shape, window, total = cut.shape, cut.window, WeightSum(cut, call.outputs[0], buffers)
    filters, errors = w.reshape(shape.group, shape.outer, shape.terms), dy.reshape(-1, shape.group, shape.outer)
    if db is not None:
        yield partial(np.add.reduce, errors.reshape(len(errors), -1), axis=0, out=db)
    if dx is not None and not shape.is_product:
        yield partial(dx.fill, 0)
    for block in cut.blocks:
        images, pixels = slice(*block.images), pixels_of(block, window)
        extent, begin = cut.extent(block), block.images[0] * cut.pixels + pixels.start
        own = slice(begin, begin + math.prod(extent))
        part = errors[own].swapaxes(0, 1)
        if shape.is_product:
            yield from total.add(part.swapaxes(1, 2), x.reshape(len(errors), shape.group, -1)[own].transpose(1, 2, 0))
            if dx is not None:
                yield multiply(part, filters, dx.reshape(len(errors), shape.group, -1)[own].swapaxes(0, 1))
            continue
        taps = shaped(room, shape.group, *extent, *window.kernel, shape.inner)
        columns, apart = taps.reshape(shape.group, -1, shape.terms), taps.transpose(1, 0, 8, 5, 6, 7, 2, 3, 4)
        yield from fill_columns(apart, _channels_in_front(x, shape, window)[images], window, block)
        yield from total.add(part.swapaxes(1, 2), columns.swapaxes(1, 2))
        if dx is not None:
            yield multiply(part, filters, columns)
            yield from scatter(apart, _channels_in_front(dx, shape, window)[images], window, block)
    yield from total.finish()


def _channels_in_front(image: Array, shape: Shape, window: Window) -> Array:
    """(N, *image, C) as (N, group, inner, *image)."""
    turned_round: Array = image.reshape(shape.batch, *window.image, shape.group, shape.inner).transpose(
        0, 4, 5, 1, 2, 3
    )
    return turned_round


def _turned_steps(call: Call, cut: Cut, dx: Array) -> Iterator[Step]:
    """dX = W' K', with the columns K' of dY: ``cut`` is that of the flipped convolution."""
    (_, w, dy), (room, several, *_, spare) = call.inputs, call.scratch
    shape, kernel = cut.shape, cut.window.kernel
    filters = shaped(spare, shape.group, shape.inner, *kernel, shape.outer)
    given = w.reshape(shape.group, shape.inner, shape.outer, *kernel)[..., ::-1, ::-1, ::-1]
    yield copy(filters, given.transpose(0, 1, 3, 4, 5, 2))
    for block in cut.blocks:
        _, columns, filling = cut.columns(block, dy, room)
        yield from filling
        part, result = cut.outputs(block, dx, several)
        yield multiply(filters.reshape(shape.group, shape.terms, shape.outer).swapaxes(1, 2), columns, result)
        if len(part) > 1:
            yield copy(part, cut.images_first(result, part))


@conv_transpose_gradient.kernel("IM2COL", supports=supports, scratch=scratch)
def conv_transpose_im2col(call: Call) -> Run:
    (x, w, dy), (db, dx) = call.inputs, wanted(call)
    shape = shape_of(call.op, call.in_specs)
    cut = Cut(shape, w.itemsize)
    pixels = math.prod(cut.window.image)
    steps: List[Step] = list(bias_steps(dy, (shape.batch, shape.group * shape.inner, pixels), db))
    room, several, *buffers = call.scratch
    total = WeightSum(cut, call.outputs[0], buffers)
    for block in cut.blocks:
        _, columns, filling = cut.columns(block, dy, room)
        part, pixels_of_x = cut.outputs(block, x, several)
        steps += filling
        if len(part) > 1:
            steps.append(copy(cut.images_first(pixels_of_x, part), part))
        steps += total.add(pixels_of_x, columns)
        if dx is not None:
            target, result = cut.outputs(block, dx, several)
            steps.append(multiply(w.reshape(shape.group, shape.outer, shape.terms), columns, result))
            if len(part) > 1:
                steps.append(copy(target, cut.images_first(result, part)))
    return in_turn([*steps, *total.finish()])
