"""INT8: convolutions of 8-bit integers by float32 GEMM, exact.

float32 holds every integer up to 2**24. So a sum of integers is exact, in any order of addition, as long as the
magnitudes of its terms add up to less. The weights determine the largest possible sum. If it is too large, 128 is
subtracted from pixels of uint8, which halves their magnitude. If it is still too large, the sum is cut into slices that
are small enough, and the slices are added in float64, which holds every integer up to 2**53.

    sum of w * (x - zero)  =  sum of w * (x - centre)  +  (centre - zero) * sum of w

So pixels are only converted to float32, padding is the zero point, and the second term is one number per filter, added
with the bias.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Callable, List, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.im2col import Block, Columns, fill_columns, pixels_of
from runtime_arm.engines.integers import onnx_depthwise  # noqa: F401  (declared before INT8, so preferred to it)
from runtime_arm.engines.integers.arithmetic import Arithmetic, choose_arithmetic, slices_of, weights_of
from runtime_arm.engines.integers.onnx_operands import OPERANDS, operand, supports
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.onnx.products import conv_integer, qlinear_conv
from runtime_arm.operators.quantised.parameters import parameters
from runtime_arm.operators.quantised.rounding import Requantizer
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn, multiply

Finish = Callable[[Array, Array, Array], Step]  # (sums, work, y) -> the step that makes outputs of a block's sums


def columns_of(op: OperatorDef, inputs: Specs, workers: int = 1) -> Columns:
    """The blocks of the convolution, with columns of float32."""
    operands = OPERANDS[op.type]
    x = inputs[operands.x]
    assert x is not None
    return Columns(op, [x.with_dtype(np.float32), inputs[operands.w]], workers)


def _arithmetic(op: OperatorDef, inputs: Specs) -> Arithmetic:
    operands = OPERANDS[op.type]
    x, w = inputs[operands.x], inputs[operands.w]
    zero, w_zero, bias = (operand(inputs, i) for i in (operands.x_zero_point, operands.w_zero_point, operands.bias))
    assert x is not None
    assert w is not None
    assert w.value is not None
    limits = np.iinfo(x.dtype)
    zero_points = [0] if zero is None else [int(limits.min), int(limits.max)]
    if zero is not None and zero.value is not None:
        zero_points = [int(zero.value.reshape(()))]
    offsets = np.zeros(w.shape[0], np.int64) if bias is None else bias.value.astype(np.int64)
    weights = weights_of(w.value, None if w_zero is None else w_zero.value)
    return choose_arithmetic(weights, offsets, x.dtype, zero_points)


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    columns = columns_of(op, inputs)
    most = columns.largest
    sums = most // max(columns.height, 1) * columns.convolution.filters
    specs = [TensorSpec((most,), np.float32), TensorSpec((sums,), np.float32)]
    return [*specs, TensorSpec((sums,), np.float64)] if _arithmetic(op, inputs).wide else specs


@qlinear_conv.kernel("INT8", supports=supports, scratch=scratch, splits_work=True)
def qlinear_convolution(call: Call) -> Run:
    """Every pass, also that of requantising, runs on one block."""
    inputs = call.inputs
    px, pw = parameters(call.op, "X", inputs[1], inputs[2]), parameters(call.op, "W", inputs[4], inputs[5])
    py = parameters(call.op, "Y", inputs[6], inputs[7])
    multiplier = (px.scale * pw.scale / py.scale).reshape(-1, 1)
    limits = np.iinfo(call.outputs[0].dtype)
    requantize = Requantizer("onnx_even", multiplier, int(py.zero_point), int(limits.min), int(limits.max))
    return _convolution(call, lambda sums, work, y: partial(requantize, sums, y, (work,)))


@conv_integer.kernel("INT8", supports=supports, scratch=scratch, splits_work=True)
def integer_convolution(call: Call) -> Run:
    return _convolution(call, lambda sums, work, y: partial(np.copyto, y, sums, casting="unsafe"))


def _convolution(call: Call, finish: Finish) -> Run:
    operands, columns = OPERANDS[call.op.type], columns_of(call.op, call.in_specs, call.workers)
    arithmetic, convolution = _arithmetic(call.op, call.in_specs), columns.convolution
    w, w_zero, bias = (operand(call.inputs, i) for i in (operands.w, operands.w_zero_point, operands.bias))
    slices = call.packed("slices", lambda: slices_of(weights_of(w, w_zero), convolution.group, arithmetic.slice_terms))
    totals = call.packed("totals", lambda: weights_of(w, w_zero).sum(1, dtype=np.int64))
    x, zero_point = call.inputs[operands.x], operand(call.inputs, operands.x_zero_point)
    zero_point = np.zeros((), x.dtype) if zero_point is None else zero_point.reshape(())
    offset = np.zeros((convolution.filters, 1), np.float64 if arithmetic.wide else np.float32)
    whole = np.empty_like(totals)

    def set_offset() -> None:
        np.multiply(totals, arithmetic.centre - int(zero_point), out=whole)
        if bias is not None:
            np.add(whole, bias, out=whole)
        offset[:, 0] = whole

    steps: List[Step] = [set_offset]
    y = call.outputs[0].reshape(convolution.batch, convolution.filters, math.prod(columns.window.output))
    for block in call.mine(columns.blocks):
        steps += _column_steps(call, columns, block, x, zero_point, arithmetic.centre)
        sums, work, product = _product_steps(call, columns, block, slices)
        out = y[slice(*block.images), :, pixels_of(block, columns.window)]
        steps += [*product, partial(np.add, sums, offset, sums), finish(sums, work, out)]
    return in_turn(steps)


def _column_steps(call: Call, columns: Columns, block: Block, x: Array, zero_point: Array, centre: int) -> List[Step]:
    """Pixels under the kernel as float32, less the centre: (images, group, C / group, *kernel, pixels)."""
    convolution, window = columns.convolution, columns.window
    buffer, images = call.scratch[0][: columns.size(block)], slice(*block.images)
    shape = images.stop - images.start, convolution.group, convolution.channels // convolution.group
    taps = buffer.reshape(*shape, *window.kernel, *columns.extent(block))
    steps = list(fill_columns(taps, x[images].reshape(*shape, *window.image), window, block, zero_point))
    return [*steps, partial(np.subtract, buffer, np.float32(centre), buffer)] if centre else steps


def _product_steps(
    call: Call, columns: Columns, block: Block, slices: Sequence[Tuple[slice, Array]]
) -> Tuple[Array, Array, List[Step]]:
    """The sums (images, M, pixels), a float32 buffer of their shape, and the steps that compute them.

    The buffer is the sums themselves where these are float32.
    """
    convolution, count = columns.convolution, block.images[1] - block.images[0]
    pixels = math.prod(columns.extent(block))
    shape = (count, convolution.filters, pixels)
    buffers = [buffer[: math.prod(shape)].reshape(shape) for buffer in call.scratch[1:]]
    sums, work = buffers[-1], buffers[0]
    products = work.reshape(count, convolution.group, convolution.filters // convolution.group, pixels)
    factors = call.scratch[0][: columns.size(block)].reshape(count, convolution.group, convolution.terms, pixels)
    steps: List[Step] = []
    for part, weights in slices:
        steps.append(multiply(weights, factors[:, :, part], products))
        if sums is not work:
            steps.append(partial(np.copyto, sums, work) if part.start == 0 else partial(np.add, sums, work, sums))
    return sums, work, steps
