"""DEPTHWISE for gradients: those of a convolution of every channel by itself, strip by strip, as on the way forward.

The lines under a strip of output rows (see ``depthwise``), multiplied with the strip's errors E = dY, give the products
of all pairs of output rows and lines; those that a tap of the kernel connects are added up:

    E @ lines^T  ->  (rows of a strip, lines);   dW[ki, kj] = the sum over rows r of (r, (r stride + ki) kw + kj)

dX is a convolution of dY, spread out by the stride, with the kernel turned round.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.depthwise import Block, Strips, band_steps, fill_lines, strips_under
from runtime_arm.engines.conv.operands import wrong_dtype
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dialects import forward_form
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import Convolution, convolution_of
from runtime_arm.operators.conv.convolution_gradients import conv_gradient
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, copy, in_turn, multiply, shaped


def _convolution(op: OperatorDef, inputs: Specs) -> Convolution:
    x, w = inputs[:2]
    assert x is not None
    assert w is not None
    return convolution_of(forward_form(op), x, w)


def _turned(convolution: Convolution) -> Convolution:
    """The convolution that makes dX of dY, spread out by the stride."""
    window = convolution.window
    image = tuple((n - 1) * s + 1 for n, s in zip(window.output, window.stride))
    head = tuple(d * (k - 1) - pad for d, k, pad in zip(window.dilation, window.kernel, window.head))
    turned = Window(image, window.kernel, (1, 1), window.dilation, head, (0, 0), window.image)
    return convolution._replace(window=turned)


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    convolution, wrong = _convolution(op, inputs), wrong_dtype(inputs[0])
    if wrong is not None:
        return wrong
    if convolution.window.ndim != 2:
        return f"there must be two spatial dimensions, got {convolution.window.ndim}"
    if convolution.channels_last:
        return "the order must be NCHW"
    if not convolution.group == convolution.channels == convolution.filters:
        return f"every channel must be a group of one filter, got {convolution.group} groups"
    window = convolution.window
    if any(pad > d * (k - 1) for pad, d, k in zip(window.head, window.dilation, window.kernel)):
        return "the padding is wider than the kernel"
    return None if convolution.batch and convolution.channels else "there is nothing to add up"


def _both(op: OperatorDef, inputs: Specs, itemsize: int) -> Tuple[Strips, Strips]:
    convolution = _convolution(op, inputs)
    return Strips(convolution, itemsize), Strips(_turned(convolution), itemsize)


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Lines; products of strips; their sums; the band of the turned kernel; dY spread out, of one block."""
    dtype = outputs[0].dtype
    forward, back = _both(op, inputs, dtype.itemsize)
    lines = max(math.prod(s.lines(block)) for s in (forward, back) for block in s.blocks())
    products = max(math.prod(_products(forward, block)) for block in forward.blocks())
    sums = forward.convolution.channels * forward.rows * _line_count(forward)
    band = back.convolution.channels * back.rows * _line_count(back)
    spread = max(b.channels[1] - b.channels[0] for b in back.blocks()) * math.prod(back.window.image)
    spread = spread if max(forward.window.stride) > 1 else 0
    return [TensorSpec((n,), dtype) for n in (lines, products, sums, band, spread)]


def _line_count(strips: Strips) -> int:
    """The lines under one strip."""
    return strips.reach(strips.rows) * strips.window.kernel[1]


def _products(strips: Strips, block: Block) -> Tuple[int, ...]:
    """The shape of a block's products: channels, strips, rows, lines."""
    channels, rows = block.channels[1] - block.channels[0], block.rows[1] - block.rows[0]
    return channels, -(-rows // strips.rows), strips.rows, _line_count(strips)


@conv_gradient.kernel("DEPTHWISE", supports=supports, scratch=scratch)
def depthwise_gradient(call: Call) -> Run:
    (_, w, dy), (dw, *rest) = call.inputs, call.outputs
    forward, back = _both(call.op, call.in_specs, w.itemsize)
    biased = not call.op.get_bool("no_bias")
    steps: List[Step] = [partial(np.add.reduce, dy, axis=(0, 2, 3), out=rest[0])] if biased and rest else []
    steps += _weight_steps(call, forward, dw)
    dx = rest[1:] if biased else rest
    if dx:
        steps += _data_steps(call, back, dx[0], forward.window.stride)
    return in_turn(steps)


def _weight_steps(call: Call, strips: Strips, dw: Array) -> List[Step]:
    """The sums of all products of strips, (channels, rows, lines), and dW from them."""
    sums = shaped(call.scratch[2], strips.convolution.channels, strips.rows, _line_count(strips))
    steps: List[Step] = [partial(sums.fill, 0)]
    for block in strips.blocks():
        (begin, end), channels = block.rows, slice(*block.channels)
        lines = shaped(call.scratch[0], *strips.lines(block))
        steps += fill_lines(lines, call.inputs[0][block.image, channels], strips, begin)
        errors = call.inputs[2][block.image, channels, begin:end]
        whole = (end - begin) // strips.rows * strips.rows
        for first, last, rows in ((0, whole, strips.rows), (whole, end - begin, end - begin - whole)):
            if first < last:
                under = strips_under(lines, strips, first, (last - first) // rows, rows)[:, 0]
                left = errors[:, first:last].reshape(len(errors), -1, rows, strips.columns)
                product = shaped(call.scratch[1], *left.shape[:3], under.shape[2])
                total = sums[channels, :rows, : under.shape[2]]
                steps += [multiply(left, under.swapaxes(2, 3), product), partial(_add_strips, total, product)]
    return [*steps, partial(_gather_taps, strips, sums, dw)]


def _add_strips(total: Array, product: Array) -> None:
    """Adds the products (channels, strips, rows, lines) over the strips."""
    for strip in range(product.shape[1]):
        np.add(total, product[:, strip], out=total)


def _gather_taps(strips: Strips, sums: Array, dw: Array) -> None:
    """dW[c, 0, ki, kj] = the sum over rows r of sums[c, r, (r stride + ki dilation) kw + kj]."""
    kernel, stride, dilation = strips.window.kernel, strips.window.stride[0], strips.window.dilation[0]
    dw.fill(0)
    for row in range(strips.rows):
        for tap in range(kernel[0]):
            line = (row * stride + tap * dilation) * kernel[1]
            np.add(dw[:, 0, tap], sums[:, row, line : line + kernel[1]], out=dw[:, 0, tap])


def _data_steps(call: Call, strips: Strips, dx: Array, stride: Sequence[int]) -> List[Step]:
    """dX, as on the way forward, by the band of the turned kernel."""
    dy, w = call.inputs[2], call.inputs[1][:, :, ::-1, ::-1]
    band = shaped(call.scratch[3], len(w), 1, 1, strips.rows, _line_count(strips))
    steps = list(band_steps(strips, w, band))
    for block in strips.blocks():
        (begin, end), channels = block.rows, slice(*block.channels)
        source: Any = dy[block.image, channels]
        if max(stride) > 1:
            spread = shaped(call.scratch[4], len(source), *strips.window.image)
            steps += [partial(spread.fill, 0), copy(spread[:, :: stride[0], :: stride[1]], source)]
            source = spread
        lines = shaped(call.scratch[0], *strips.lines(block))
        steps += fill_lines(lines, source, strips, begin)
        out = dx[block.image, channels, begin:end]
        whole = (end - begin) // strips.rows * strips.rows
        for first, last, rows in ((0, whole, strips.rows), (whole, end - begin, end - begin - whole)):
            if first < last:
                under = strips_under(lines, strips, first, (last - first) // rows, rows)
                target = out[:, first:last].reshape(len(out), 1, -1, rows, strips.columns)
                steps.append(multiply(band[channels, :, :, :rows, : under.shape[-2]], under, target))
    return steps
