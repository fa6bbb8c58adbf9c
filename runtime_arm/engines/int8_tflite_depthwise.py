"""INT8_DEPTHWISE: a quantised convolution of every channel by itself, exact in float32.

Image rows are converted once, dealt out by the stride (``int8_tflite_rows``); a tap of the kernel then meets runs of
``run`` pixels times all channels, and weights are repeated to runs of that length. One einsum sums the taps of each
part of the columns.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Iterator, List, NamedTuple, Optional, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines.int8_tflite_rows import Layer, Rows, layer_of, refusal, requantizer_of, row_blocks
from runtime_arm.engines.steps import Step, in_turn
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.tflite_conv import quantized_conv
from runtime_arm.registry import Call, Run, Specs
from runtime_arm.tensor import TensorSpec


class _Taps(NamedTuple):
    """The taps of a kernel row that meet one part of the columns, at regular distances."""

    part: int
    shift: int  # columns of the part to the first of them
    distance: int  # and from one to the next
    taps: slice


def _taps(layer: Layer) -> Iterator[_Taps]:
    stride, dilation, kernel = layer.window.stride[1], layer.window.dilation[1], layer.window.kernel[1]
    period = stride // math.gcd(stride, dilation)
    for tap in range(min(period, kernel)):
        part, shift = tap * dilation % stride, tap * dilation // stride
        yield _Taps(part, shift, period * dilation // stride, slice(tap, kernel, period))


def _rows(layer: Layer) -> Rows:
    convolution = layer.convolution
    return Rows(layer.window, convolution.channels, convolution.filters // convolution.channels,
                layer.window.stride[1])


def _supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    reason = refusal(op, inputs)
    if reason is not None:
        return reason
    layer = layer_of(op, inputs)
    if layer.convolution.group != layer.convolution.channels:
        return f"every channel must be a group, got {layer.convolution.group} groups"
    return "the sums may exceed 24 bits" if layer.arithmetic.wide else None


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    """Rows, sums, sums of one part, two buffers to requantise in."""
    layer = layer_of(op, inputs)
    most = max(block.rows for block in row_blocks(layer, _row_nbytes(layer)))
    sums = most * layer.window.output[1] * layer.convolution.filters
    return [TensorSpec((size,), dtype) for size, dtype in (
        (math.prod(_rows(layer).shape(most)), np.float32), (sums, np.float32), (sums, np.float32),
        (sums, np.float64), (sums, np.float64))]


def _row_nbytes(layer: Layer) -> int:
    return 4 * (math.prod(_rows(layer).shape(1)) + layer.window.output[1] * layer.convolution.filters)


@quantized_conv.kernel("INT8_DEPTHWISE", supports=_supports, scratch=_scratch)
def quantized_depthwise(call: Call) -> Run:
    layer = call.packed("layer", lambda: layer_of(call.op, call.in_specs))
    rows, window, run = _rows(layer), layer.window, layer.run
    filters, columns = layer.convolution.filters, window.output[1]
    weights = np.tile(layer.weights.T.reshape(*window.kernel, filters).astype(np.float32), run)
    centre, length = layer.arithmetic.centre, run * filters
    offset = np.tile(layer.offset, run).astype(np.float32)
    requantize = requantizer_of(layer.products, run, layer.reach)
    steps: List[Step] = []
    for block in row_blocks(layer, _row_nbytes(layer)):
        shape = rows.shape(block.rows)
        buffer = call.scratch[0][: math.prod(shape)].reshape(shape)
        steps += rows.fill(call.inputs[0][block.image], buffer, block.first, layer.products.x.zero_point)
        if centre:
            steps.append(partial(np.subtract, buffer, np.float32(centre), buffer))
        extent = (block.rows, columns // run, length)
        sums, part, *work = [scratch[: math.prod(extent)].reshape(extent) for scratch in call.scratch[1:]]
        steps += _sum_taps(layer, buffer, weights, sums, part)
        out = call.outputs[0][block.image, block.first : block.last].reshape(extent)
        work = [scratch.view(dtype) for scratch, dtype in zip(work, requantize.work_dtypes)]
        steps += [partial(np.add, sums, offset, sums), partial(requantize, sums, out, work)]
    return in_turn(steps)


def _sum_taps(layer: Layer, buffer: Array, weights: Array, sums: Array, part: Array) -> Iterator[Step]:
    """sums (rows, runs, run * M) of buffer (parts, image rows, columns, M) times weights (*kernel, run * M)."""
    window = layer.window
    _, row, column, item = buffer.strides
    for index, taps in enumerate(_taps(layer)):
        met = weights[:, taps.taps]
        view = as_strided(buffer[taps.part, :, taps.shift :], (*met.shape[:2], *sums.shape),
                          (window.dilation[0] * row, taps.distance * column, window.stride[0] * row,
                           layer.run * column, item))
        yield partial(np.einsum, "abyun,abn->yun", view, met, out=sums if index == 0 else part)
        if index:
            yield partial(np.add, sums, part, sums)
