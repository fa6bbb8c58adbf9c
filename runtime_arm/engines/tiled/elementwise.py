"""Elementwise and channelwise operators between blobs in tiles."""

from __future__ import annotations

from functools import partial
from typing import List, Sequence, Union

import numpy as np

from runtime_arm.engines.tiled.epilogue import by_channel, finish
from runtime_arm.engines.tiled.strips import Target, body, clear, clear_borders, in_turn, strips_of
from runtime_arm.netdef import Array
from runtime_arm.operators.common.copying import are_same
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.layouts import Planes, Tiles
from runtime_arm.registry.steps import ZERO, Step, copy


def bind_elementwise(call: Call, kernel_run: Run, layout: Tiles) -> Run:
    """Run the plain kernel over all of the memory, then clear everything outside the images: f(0) need not be 0."""
    y = call.outputs[0]
    clears = [copy(view, ZERO) for strip in layout.strips(layout.body) for view in layout.outside(y, strip)]
    return in_turn([kernel_run, *clears, *(copy(view, ZERO) for view in layout.borders(y))])


def bind_concat(call: Call, inputs: Sequence[Tiles], output: Tiles) -> Run:
    """The inputs side by side along the channels. Inputs that are already in place are not copied."""
    steps: List[Step] = []
    begin = 0
    for memory, layout in zip(call.inputs, inputs):
        place = call.outputs[0][..., begin : begin + layout.channels]
        if not are_same(place, memory):
            steps.append(copy(place, memory))
        begin += layout.channels
    return in_turn(list(call.mine(steps)))


def bind_mean(call: Call, layout: Union[Tiles, Planes]) -> Run:
    """Output 0, (N, C, 1, 1) = the mean over each image. Everything outside the images is zero and does not count."""
    x, y = call.inputs[0], call.outputs[0]
    tiles = layout.tiles if isinstance(layout, Planes) else layout
    count, pixels = tiles.tile**2, tiles.rows * tiles.pitch
    weights = np.full((1, pixels), 1 / (tiles.height * tiles.width), x.dtype)
    total = y.reshape(1, tiles.batch, 1, tiles.channels)
    sums = total if count == 1 else np.empty((count, *total.shape[1:]), x.dtype)
    if isinstance(layout, Planes):
        body = x[..., tiles.guard : tiles.guard + tiles.body].reshape(count, 1, tiles.channels, pixels)
        product = partial(np.matmul, body, weights.T, out=sums.swapaxes(2, 3))
    else:
        planes = tiles.grid(x)  # (tile, tile, batch, rows, pitch, C)
        product = partial(np.matmul, weights, planes.reshape(count, tiles.batch, pixels, tiles.channels), out=sums)
    return in_turn([product] if count == 1 else [product, partial(np.add.reduce, sums, 0, None, total[0])])


def bind_affine(call: Call, scale: Array, bias: Array, layout: Tiles) -> Run:
    """Y = scale[c] * X + bias[c], then what the operator adds and its activation; strip by strip."""
    steps: List[Step] = clear_borders(call, layout)
    multiply, add = by_channel(np.multiply, scale), by_channel(np.add, bias)
    for strip in strips_of(call, layout, max(1, BLOCK // layout.channels)):
        x, y = (body(memory, layout, strip) for memory in (call.inputs[0], call.outputs[0]))
        steps += multiply(y, x)
        steps += finish(call, Target(layout, strip), [add])
        steps += clear(call, layout, strip)
    return in_turn(steps)
