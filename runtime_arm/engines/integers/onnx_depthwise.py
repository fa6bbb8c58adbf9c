"""INT8_DEPTHWISE: a depthwise QLinearConv, as strips of products (see ``conv/depthwise.py``).

The lines under a strip are pixels as float32; padding is the zero point. Sums are far below 2**24, so float32 holds
them exactly.
"""

from __future__ import annotations

import math
from functools import partial
from typing import List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.depthwise import LEAST_COLUMNS, Block, Strips, fill_lines, strips_under
from runtime_arm.engines.conv.operands import convolution_in
from runtime_arm.engines.integers.arithmetic import EXACT, weights_of
from runtime_arm.engines.integers.onnx_operands import QLINEAR, operand, supports
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.onnx.products import qlinear_conv
from runtime_arm.operators.quantised.parameters import parameters
from runtime_arm.operators.quantised.rounding import Requantizer
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn, multiply

LARGEST = 255 * 255  # magnitude of a product


def _strips(op: OperatorDef, inputs: Specs) -> Strips:
    x, w = inputs[QLINEAR.x], inputs[QLINEAR.w]
    assert x is not None
    return Strips(convolution_in(op, [x.with_dtype(np.float32), w]), 4)


def _supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    reason = supports(op, inputs, outputs)
    if reason is not None:
        return reason
    convolution = convolution_in(op, [inputs[QLINEAR.x], inputs[QLINEAR.w]])
    if convolution.window.ndim != 2 or convolution.group != convolution.channels or convolution.group == 1:
        return "every channel of a picture must be a group"
    if convolution.window.output[1] < LEAST_COLUMNS:
        return f"an output row must have at least {LEAST_COLUMNS} pixels to pay, got {convolution.window.output[1]}"
    bias = operand(inputs, QLINEAR.bias)
    largest = 0 if bias is None else int(np.abs(bias.value.astype(np.int64)).max(initial=0))
    exact = convolution.terms * LARGEST + largest < EXACT
    return None if exact else "the sums may exceed 24 bits"


def _sizes(strips: Strips, block: Block) -> Tuple[int, int]:
    """Elements of a block's lines and of its sums."""
    filters, rows = (block.channels[1] - block.channels[0]) * strips.multiplier, block.rows[1] - block.rows[0]
    return math.prod(strips.lines(block)), filters * rows * strips.columns


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    strips = _strips(op, inputs)
    sizes = [_sizes(strips, block) for block in strips.blocks()]
    return [TensorSpec((max(part, default=0),), np.float32) for part in zip(*sizes or [(0, 0)])]


@qlinear_conv.kernel("INT8_DEPTHWISE", supports=_supports, scratch=_scratch, splits_work=True)
def qlinear_depthwise(call: Call) -> Run:
    inputs, strips = call.inputs, _strips(call.op, call.in_specs)
    px, pw = parameters(call.op, "X", inputs[1], inputs[2]), parameters(call.op, "W", inputs[4], inputs[5])
    py = parameters(call.op, "Y", inputs[6], inputs[7])
    w = inputs[QLINEAR.w]
    weights = weights_of(w, inputs[5])
    band = call.packed(f"band of {strips.rows}", lambda: strips.band(weights.reshape(w.shape).astype(np.float32)))
    bias = operand(inputs, QLINEAR.bias)
    offset = (
        ((0 if bias is None else bias) - int(px.zero_point) * weights.sum(1, dtype=np.int64))
        .astype(np.float32)
        .reshape(-1, 1, 1)
    )
    multiplier = np.broadcast_to(px.scale * pw.scale / py.scale, len(w)).reshape(-1, 1, 1)
    limits = np.iinfo(call.outputs[0].dtype)
    steps: List[Step] = []
    for block in call.mine(list(strips.blocks(call.workers))):
        sums, multiplying = _multiplied(call, strips, band, block)
        filters = slice(block.channels[0] * strips.multiplier, block.channels[1] * strips.multiplier)
        requantize = Requantizer("onnx_even", multiplier[filters], int(py.zero_point), int(limits.min), int(limits.max))
        out = call.outputs[0][block.image, filters, slice(*block.rows)]
        steps += [*multiplying, partial(np.add, sums, offset[filters], sums), partial(requantize, sums, out, (sums,))]
    return in_turn(steps)


def _multiplied(call: Call, strips: Strips, band: Array, block: Block) -> Tuple[Array, List[Step]]:
    """The sums of a block, (filters, rows, columns), and the steps that compute them."""
    shape, (begin, end), channels = strips.lines(block), block.rows, slice(*block.channels)
    lines, sums = (buffer[:size] for buffer, size in zip(call.scratch, _sizes(strips, block)))
    lines = lines.reshape(shape)
    parts = sums.reshape(shape[0], strips.multiplier, end - begin, strips.columns)
    steps = list(fill_lines(lines, call.inputs[0][block.image, channels], strips, begin, call.inputs[2].reshape(())))
    whole = (end - begin) // strips.rows * strips.rows
    for first, last, rows in ((0, whole, strips.rows), (whole, end - begin, end - begin - whole)):
        if first < last:
            under = strips_under(lines, strips, first, (last - first) // rows, rows)
            out = parts[:, :, first:last].reshape(*parts.shape[:2], -1, rows, strips.columns)
            steps.append(multiply(band[channels, :, :, :rows, : under.shape[-2]], under, out))
    return sums.reshape(-1, end - begin, strips.columns), steps
