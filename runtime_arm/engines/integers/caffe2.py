"""INT8: Caffe2's Int8Conv, Int8ConvRelu and Int8FC by float32 GEMM, exact as ``onnx.py`` explains."""

from __future__ import annotations

import math
from functools import partial
from typing import List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.im2col import Block, Columns, fill_columns, pixels_of
from runtime_arm.engines.conv.operands import beyond_three
from runtime_arm.engines.integers.arithmetic import Arithmetic, choose_arithmetic, slices_of, weights_of
from runtime_arm.engines.integers.onnx_matmul import Factors, IntegerProduct
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv.convolution import convolution_of
from runtime_arm.operators.layout.reshape import product
from runtime_arm.operators.quantised.caffe2.conversion import quantization_of
from runtime_arm.operators.quantised.caffe2.products import int8_conv, int8_fc, requantizer_of
from runtime_arm.operators.quantised.parameters import all_known
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn, multiply

CONSTANTS = "the weights and the bias must be constants"


def _known(inputs: Specs) -> Tuple[TensorSpec, TensorSpec, TensorSpec]:
    x, w, b = inputs
    assert x is not None
    assert w is not None
    assert b is not None
    return x, w, b


def _columns(op: OperatorDef, inputs: Specs, workers: int = 1) -> Columns:
    x, w, _ = _known(inputs)
    return Columns(op, [x.with_dtype(np.float32), w], workers)


def _weights(op: OperatorDef, w: TensorSpec) -> Array:
    """Weights less their zero point, int16 (M, terms)."""
    assert w.value is not None
    return weights_of(w.value, np.asarray(quantization_of(op, "the weights", w).zero_point))


def _arithmetic(op: OperatorDef, inputs: Specs) -> Arithmetic:
    x, w, b = _known(inputs)
    assert b.value is not None
    zero_point = quantization_of(op, "X", x).zero_point
    return choose_arithmetic(_weights(op, w), b.value.astype(np.int64), x.dtype, [zero_point])


def _supports_conv(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    x, w, _ = _known(inputs)
    if not all_known(inputs[1:]):
        return CONSTANTS
    return beyond_three(convolution_of(op, x, w).window)


def _requantizing(size: int) -> List[TensorSpec]:
    """What the rounding rule works in."""
    return [TensorSpec((size,), np.int64), TensorSpec((size,), np.int64)]


def _conv_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Columns, float32 sums, two buffers of int64; float64 sums where they are wide."""
    columns = _columns(op, inputs)
    most = columns.largest
    sums = most // max(columns.height, 1) * columns.convolution.filters
    specs = [TensorSpec((most,), np.float32), TensorSpec((sums,), np.float32), *_requantizing(sums)]
    return [*specs, TensorSpec((sums,), np.float64)] if _arithmetic(op, inputs).wide else specs


@int8_conv.kernel("INT8", supports=_supports_conv, scratch=_conv_scratch, splits_work=True)
def int8_convolution(call: Call) -> Run:
    arithmetic = _arithmetic(call.op, call.in_specs)
    columns = _columns(call.op, call.in_specs, call.workers)
    x, w, _ = _known(call.in_specs)
    group = columns.convolution.group
    slices = call.packed("slices", lambda: slices_of(_weights(call.op, w), group, arithmetic.slice_terms))
    totals = call.packed("totals", lambda: _weights(call.op, w).sum(1, dtype=np.int64))
    zero_point = quantization_of(call.op, "X", x).zero_point
    sums_dtype = np.float64 if arithmetic.wide else np.float32
    offset = (call.inputs[2] + (arithmetic.centre - zero_point) * totals).astype(sums_dtype)
    requantize = requantizer_of(call.op, x, w)
    steps: List[Step] = []
    for block in call.mine(columns.blocks):
        steps += _fill(call, columns, block, zero_point, arithmetic.centre)
        sums, out, work = _block_buffers(call, columns, block)
        steps += _products(call, columns, block, slices, sums)
        steps += [partial(np.add, sums, offset, sums), partial(requantize, sums, out, work)]
    return in_turn(steps)


def _fill(call: Call, columns: Columns, block: Block, zero_point: int, centre: int) -> List[Step]:
    """Pixels under the kernel as float32, less the centre: (images, group, pixels, *kernel, C / group)."""
    convolution, window = columns.convolution, columns.window
    group, depth = convolution.group, convolution.channels // convolution.group
    images = slice(*block.images)
    count = images.stop - images.start
    buffer = call.scratch[0][: columns.size(block)]
    x = call.inputs[0][images].reshape(count, *window.image, group, depth).transpose(0, 4, 5, 1, 2, 3)
    taps = buffer.reshape(count, group, *columns.extent(block), *window.kernel, depth)
    steps = list(fill_columns(taps.transpose(0, 1, 8, 5, 6, 7, 2, 3, 4), x, window, block, np.uint8(zero_point)))
    return [*steps, partial(np.subtract, buffer, np.float32(centre), buffer)] if centre else steps


def _block_buffers(call: Call, columns: Columns, block: Block) -> Tuple[Array, Array, Sequence[Array]]:
    """Sums and outputs of a block, (images, pixels, M), and the rounding rule's buffers of that shape."""
    convolution = columns.convolution
    pixels = pixels_of(block, columns.window)
    shape = (block.images[1] - block.images[0], pixels.stop - pixels.start, convolution.filters)
    buffers = [buffer[: math.prod(shape)].reshape(shape) for buffer in call.scratch[1:]]
    y = call.outputs[0].reshape(convolution.batch, math.prod(columns.window.output), convolution.filters)
    return buffers[3] if len(buffers) > 3 else buffers[0], y[slice(*block.images), pixels], buffers[1:3]


def _products(
    call: Call, columns: Columns, block: Block, slices: Sequence[Tuple[slice, Array]], sums: Array
) -> List[Step]:
    """The steps that compute the sums, in float32 slice by slice."""
    group, terms = columns.convolution.group, columns.convolution.terms
    count, pixels, filters = sums.shape
    factors = call.scratch[0][: columns.size(block)].reshape(count, group, pixels, terms)
    work = call.scratch[1][: sums.size].reshape(sums.shape)
    products = work.reshape(count, pixels, group, filters // group).swapaxes(1, 2)
    steps: List[Step] = []
    for part, weights in slices:
        steps.append(multiply(factors[..., part], weights.swapaxes(1, 2), products))
        if sums.dtype == np.float64:
            steps.append(partial(np.copyto, sums, work) if part.start == 0 else partial(np.add, sums, work, sums))
    return steps


def _product(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> IntegerProduct:
    x, w, b = _known(inputs)
    assert w.value is not None
    assert b.value is not None
    terms = product(x.shape[1:])
    zero_points = [
        TensorSpec.known(np.uint8(quantization_of(op, what, spec).zero_point))
        for what, spec in (("X", x), ("the weights", w))
    ]
    weights = TensorSpec.known(w.value.reshape(-1, terms).T)
    factors = Factors(TensorSpec((x.shape[0], terms), np.uint8), zero_points[0], weights, zero_points[1])
    return IntegerProduct(factors, outputs[0], int(np.abs(b.value.astype(np.int64)).max(initial=0)))


def _supports_fc(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return None if all_known(inputs[1:]) else CONSTANTS


def _fc_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    matrix = _product(op, inputs, outputs)
    return [*matrix.scratch(), *_requantizing(matrix.step * matrix.columns)]


@int8_fc.kernel("INT8", supports=_supports_fc, scratch=_fc_scratch)
def int8_fully_connected(call: Call) -> Run:
    matrix = _product(call.op, call.in_specs, call.out_specs)
    x, w, _ = _known(call.in_specs)
    requantize, bias = requantizer_of(call.op, x, w), call.inputs[2]

    def finish(sums: Array, work: Array, y: Array) -> List[Step]:
        integers = [buffer[: y.size].reshape(y.shape) for buffer in call.scratch[-2:]]
        return [partial(np.add, sums, bias, sums, casting="same_kind"), partial(requantize, sums, y, integers)]

    zero_points = [np.asarray(quantization_of(call.op, "X", spec).zero_point, np.uint8) for spec in (x, w)]
    factors = Factors(
        call.inputs[0].reshape(-1, matrix.terms),
        zero_points[0],
        call.inputs[1].reshape(-1, matrix.terms).T,
        zero_points[1],
    )
    return in_turn(matrix.steps(call, factors, finish))
