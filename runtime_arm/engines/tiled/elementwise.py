"""Operators between blobs in tiles that care for nothing but numbers, or for nothing but channels."""

from __future__ import annotations

from functools import partial
from typing import List, Sequence

import numpy as np

from runtime_arm.engines.tiled import strips as tiled
from runtime_arm.engines.tiled.epilogue import by_channel, finish
from runtime_arm.netdef import Array
from runtime_arm.operators.common.copying import are_same
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.layouts import Tiles
from runtime_arm.registry.steps import ZERO, Step, copy


def bind_elementwise(call: Call, kernel_run: Run, layout: Tiles) -> Run:
    """Run the plain kernel over everything, then clear what is of no image: f(0) need not be 0."""
    y = call.outputs[0]
    clears = [copy(view, ZERO) for strip in layout.strips(layout.body) for view in layout.outside(y, strip)]
    return tiled.in_turn([kernel_run, *clears, *(copy(view, ZERO) for view in layout.borders(y))])


def bind_concat(call: Call, inputs: Sequence[Tiles], output: Tiles) -> Run:
    """Side by side along the channels; what lies there already is left alone."""
    steps: List[Step] = []
    begin = 0
    for memory, layout in zip(call.inputs, inputs):
        place = call.outputs[0][..., begin : begin + layout.channels]
        if not are_same(place, memory):
            steps.append(copy(place, memory))
        begin += layout.channels
    return tiled.in_turn(list(call.mine(steps)))


def bind_mean(call: Call, layout: Tiles) -> Run:
    """Output 0, (N, C, 1, 1) = the mean over each image; what is of no image is zero and does not count."""
    x, y = call.inputs[0], call.outputs[0]
    planes = layout.grid(x)  # (tile, tile, batch, rows, pitch, C)
    weights = np.full((1, layout.rows * layout.pitch), 1 / (layout.height * layout.width), x.dtype)
    sums = np.empty((layout.tile**2, layout.batch, 1, layout.channels), x.dtype)
    flat = planes.reshape(layout.tile**2, layout.batch, layout.rows * layout.pitch, layout.channels)
    total = y.reshape(layout.batch, 1, layout.channels)
    return tiled.in_turn([partial(np.matmul, weights, flat, out=sums), partial(np.add.reduce, sums, 0, None, total)])


def bind_affine(call: Call, scale: Array, bias: Array, layout: Tiles) -> Run:
    """Y = scale[c] * X + bias[c], then what the operator adds and its activation; strip by strip."""
    steps: List[Step] = tiled.clear_borders(call, call.outputs[0], layout)
    multiply, add = by_channel(np.multiply, scale), by_channel(np.add, bias)
    for strip in tiled.strips_of(call, layout, max(1, BLOCK // layout.channels)):
        x, y = (tiled.body(memory, layout, strip) for memory in (call.inputs[0], call.outputs[0]))
        steps += multiply(y, x)
        steps += finish(call, layout, strip, [add])
        steps += tiled.clear(call, layout, strip)
    return tiled.in_turn(steps)
