"""POINTWISE with one factor for each channel of X that is known only when the net runs, as in squeeze-and-excitation.

    Y = (X * gate) @ W = X @ (gate^T * W)

The factors are multiplied into the weights if these are fewer than X; else into X, strip by strip. X may be in planes:
BLAS reads it transposed.
"""

from __future__ import annotations

from copy import copy as twin_of
from functools import partial
from typing import Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.epilogue import tail_scratch
from runtime_arm.engines.conv.gemm import Panels
from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.engines.tiled.columns import Columns, by_channel, is_pointwise, landings
from runtime_arm.engines.tiled.convolution_options import constant_convolution, pointwise_layouts
from runtime_arm.engines.tiled.epilogue import bias
from runtime_arm.engines.tiled.option import Option, may_run, tiling
from runtime_arm.engines.tiled.strips import (
    FLOAT32,
    Target,
    block_nbytes,
    body,
    clear,
    clear_borders,
    filter_shares,
    in_turn,
    parts_of,
)
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.fused.gated_convolution import LAYERS
from runtime_arm.records import record
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Kernel, Run, Specs, Work
from runtime_arm.registry.layouts import Planes, Tiles, in_tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, shaped

CALL = 64  # elements that take as long as a row of a panel, to be multiplied


@record(frozen=True, eq=False, repr=False)
class Gated:
    """The algorithm of a gated convolution: that of the convolution, and the layout of X, tiles or planes of such."""

    columns: Columns
    of: Union[Tiles, Planes]

    @property
    def pixels(self) -> int:
        """Positions in all planes."""
        return self.columns.x.tile**2 * self.columns.x.body

    @property
    def weights(self) -> float:
        """What it takes to multiply the weights instead of X, in channels of X."""
        y = self.columns.y
        panel = gemm.panel_width(y.body, self.columns.x.channels, y.channels) or y.channels
        return y.channels + CALL * y.channels / panel

    @property
    def work(self) -> Work:
        own, passed = self.columns.work, PASS * self.columns.x.channels
        return own._replace(moves=own.moves + passed * min(self.weights, self.pixels))

    def scratch(self, op: OperatorDef) -> Sequence[TensorSpec]:
        """Products on the way into a slice; the weights, or X of a strip, with their factors."""
        most = self.columns.most_positions(op, block_nbytes(op))
        positions = max(strip.size for strip in self.columns.y.strips(most))
        count = self.columns.y.channels if self.weights < self.pixels else positions
        return [*self.columns.scratch(op), TensorSpec((self.columns.x.channels * count,), FLOAT32)]

    def bind(self, call: Call, gate: Array) -> Run:
        """The function that runs the convolution that ``call`` is of, whose input 0 lies as ``of`` says."""
        y, x = self.columns.y, in_tiles(call.inputs[0], self.of)[0]
        most = self.columns.most_positions(call.op, block_nbytes(call.op))
        shares = filter_shares(call, y, self.columns.convolution.terms * y.channels)
        panels = Panels.of(call, "by channel", min(most, y.body), call.inputs[1], by_channel, shares)
        strips, filters = parts_of(call, y, most, panels.group, shares)
        panels, buffer = panels.columns(filters), call.scratch[1]
        steps: List[Step] = clear_borders(call, y)
        in_weights = self.weights < self.pixels
        if in_weights and strips:
            fill, panels = panels.scaled(gate, buffer)
            steps.append(fill)
        biases = bias(call, filters)
        for strip in strips:
            for plane, pieces in landings(call, Target(y, strip, filters), biases):
                matrix = body(x, self.columns.x, strip)[plane]
                if not in_weights:
                    step, matrix = _scaled(matrix, gate, buffer)
                    steps.append(step)
                for positions, products, then, _ in pieces:
                    steps += panels.multiply(matrix[positions][None], products[None])
                    steps += then
            steps += clear(call, y, strip, filters)
        return in_turn(steps)


def _scaled(matrix: Array, gate: Array, buffer: Array) -> Tuple[Step, Array]:
    """(positions, C) times the gate in a buffer, which has the order of the matrix in memory."""
    if matrix.strides[0] < matrix.strides[1]:
        scaled = shaped(buffer, *matrix.shape[::-1])
        return partial(np.multiply, matrix.T, gate[:, None], out=scaled), scaled.T
    scaled = shaped(buffer, *matrix.shape)
    return partial(np.multiply, matrix, gate, out=scaled), scaled


@tiling(Kind.GATED_CONVOLUTION)
def gated_convolutions(
    op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]
) -> Iterator[Option]:
    """Of one image; a gate is for all of its pixels."""
    _, layer = LAYERS.of(op).op
    x, gate, y = inputs[0], inputs[1], outputs[0]
    assert x is not None
    assert gate is not None
    convolution = constant_convolution(layer, [x, *inputs[2:]], y.shape)
    if convolution is None or not is_pointwise(convolution) or convolution.group > 1:
        return
    if gate.shape != (1, x.shape[1], 1, 1) or not may_run(layer, "POINTWISE"):
        return
    for tiles, to in pointwise_layouts(convolution, x, y):
        for of in (tiles, Planes(tiles)) if gemm.multiplies_small() else (tiles,):
            yield _option(inputs, Gated(Columns(convolution, tiles, to), of))


def _option(inputs: Specs, algorithm: Gated) -> Option:
    y = algorithm.columns.y
    layouts = tuple(
        algorithm.of if at == 0 else y if at == 4 and spec is not None else None for at, spec in enumerate(inputs)
    )
    kernel = Kernel(
        algorithm.columns.engine,
        partial(_bind, algorithm=algorithm),
        scratch=partial(_scratch, algorithm),
        splits_work=True,
        reads_slices=y.channels > 1 and isinstance(algorithm.of, Tiles),
        writes_slices=y.channels > 1,
        skips_outside=True,
    )
    return Option(layouts, (y,), kernel, algorithm.work)


def _scratch(algorithm: Gated, op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    _, layer = LAYERS.of(op).op
    return [
        *algorithm.scratch(layer),
        *tail_scratch(layer, [inputs[0], *inputs[2:]], [algorithm.columns.y.storage(FLOAT32)]),
    ]


def _bind(call: Call, algorithm: Gated) -> Run:
    inner = twin_of(call.of(LAYERS.of(call.op).op[1]))
    inner.inputs = [call.inputs[0], *call.inputs[2:]]
    return algorithm.bind(inner, call.inputs[1].reshape(-1))
