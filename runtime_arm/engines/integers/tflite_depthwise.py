"""INT8_DEPTHWISE: a quantised depthwise convolution, exact in float32; for int16 in float64.

Image rows are converted once, and their columns are distributed to parts by the stride (see ``tflite_rows.py``). A tap
of the kernel then reads runs of ``run`` pixels times all channels, and weights are repeated to runs of that length. One
einsum sums the taps that read one part.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Iterator, List, NamedTuple, Optional, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines.integers.requantisation import Requantisation
from runtime_arm.engines.integers.tflite_rows import (
    Block,
    Layer,
    Rows,
    layer_of,
    packed_layer,
    refusal,
    row_blocks,
    run_of,
)
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.quantised.tflite.products import quantized_conv
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import EINSUM, Step, in_turn


class _Taps(NamedTuple):
    """The taps of a kernel row that read one part of the columns; they have regular distances."""

    part: int
    shift: int  # columns of the part to the first of them
    distance: int  # and from one to the next
    taps: slice


def _taps(window: Window) -> Iterator[_Taps]:
    stride, dilation, kernel = window.stride[1], window.dilation[1], window.kernel[1]
    period = stride // math.gcd(stride, dilation)
    for tap in range(min(period, kernel)):
        part, shift = tap * dilation % stride, tap * dilation // stride
        yield _Taps(part, shift, period * dilation // stride, slice(tap, kernel, period))


def sum_taps(window: Window, run: int, buffer: Array, weights: Array, sums: Array, part: Array) -> Iterator[Step]:
    """sums (rows, runs, run * M) of buffer (parts, image rows, columns, M) times weights (*kernel, run * M).

    ``run`` pixels are one run; ``part`` is a buffer like ``sums``.
    """
    _, row, column, item = buffer.strides
    for index, taps in enumerate(_taps(window)):
        met = weights[:, taps.taps]
        strides = window.dilation[0] * row, taps.distance * column, window.stride[0] * row, run * column, item
        view = as_strided(buffer[taps.part, :, taps.shift :], (*met.shape[:2], *sums.shape), strides)
        yield partial(EINSUM, "abyun,abn->yun", view, met, out=sums if index == 0 else part)
        if index:
            yield partial(np.add, sums, part, sums)


def _rows(layer: Layer) -> Rows:
    convolution = layer.convolution
    return Rows(layer.window, convolution.channels, convolution.filters // convolution.channels, layer.window.stride[1])


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    reason = refusal(op, inputs)
    if reason is not None:
        return reason
    layer = layer_of(op, inputs)
    if layer.convolution.group != layer.convolution.channels:
        return f"every channel must be a group, got {layer.convolution.group} groups"
    if layer.convolution.group == 1:
        return "one channel makes a product of matrices"
    return "the sums may exceed 24 bits" if layer.arithmetic.wide else None


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    """Rows, sums, sums of one part, two buffers to requantise in."""
    layer = layer_of(op, inputs)
    most = max(block.rows for block in _blocks(layer))
    sums = most * layer.window.output[1] * layer.convolution.filters
    dtype = layer.arithmetic.dtype
    return [
        TensorSpec((size,), kind)
        for size, kind in (
            (math.prod(_rows(layer).shape(most)), dtype),
            (sums, dtype),
            (sums, dtype),
            (sums, np.float64),
            (sums, np.float64),
        )
    ]


def _blocks(layer: Layer, workers: int = 1) -> List[Block]:
    filters = layer.convolution.filters
    row_nbytes = 4 * (math.prod(_rows(layer).shape(1)) + layer.window.output[1] * filters)
    return row_blocks(layer.convolution.batch, layer.window, filters, row_nbytes, workers)


@quantized_conv.kernel("INT8_DEPTHWISE", supports=supports, scratch=scratch, splits_work=True)
def bind(call: Call) -> Run:
    layer = packed_layer(call)
    rows, window, filters = _rows(layer), layer.window, layer.convolution.filters
    columns = window.output[1]
    run = run_of(columns, filters)
    taps = np.ascontiguousarray(layer.weights.T, layer.arithmetic.dtype).reshape(*window.kernel, filters)
    weights = np.tile(taps, run)
    centre, length = layer.arithmetic.centre, run * filters
    ending = call.packed("ending", layer.ending)
    blocks = call.mine(_blocks(layer, call.workers))
    most = max((block.rows for block in blocks), default=0) * columns * filters
    requantisation = Requantisation(ending, run, call.scratch[3:], most, len(blocks))
    steps = requantisation.first()
    for block in blocks:
        shape = rows.shape(block.rows)
        buffer = call.scratch[0][: math.prod(shape)].reshape(shape)
        steps += rows.fill(call.inputs[0][block.image], buffer, block.first, layer.products.x.zero_point)
        if centre:
            steps.append(partial(np.subtract, buffer, np.float32(centre), buffer))
        extent = (block.rows, columns // run, length)
        sums, part = (scratch[: math.prod(extent)].reshape(extent) for scratch in call.scratch[1:3])
        steps += sum_taps(window, run, buffer, weights, sums, part)
        out = call.outputs[0][block.image, block.first : block.last].reshape(extent)
        steps += requantisation.steps(sums, out)
    return in_turn(steps)
