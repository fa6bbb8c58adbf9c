"""COL2IM: a transposed convolution as a product of matrices whose columns are added into Y.

The columns of a block take COLUMN_NBYTES: rows of X, or whole images if they are small. Each tap of the kernel is one
strided addition; values that would fall into the padding are left out.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Iterator, List, Optional, Sequence

import numpy as np

from runtime_arm.engines.conv.im2col import Block, CutColumns
from runtime_arm.engines.conv.operands import beyond_three, bias_of, wrong_dtype
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Index, Window
from runtime_arm.operators.conv.transposed import conv_transpose, onnx_conv_transpose, transposed_of
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ZERO, Step, copy, in_turn, multiply


class Columns(CutColumns):
    """A transposed convolution whose columns are cut into blocks of X."""

    def __init__(self, op: OperatorDef, inputs: Specs):
        x, w = inputs[0], inputs[1]
        assert x is not None
        assert w is not None
        transposed = self.transposed = transposed_of(op, x, w)
        super().__init__(transposed.batch, transposed.window, transposed.width, x.dtype.itemsize)


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    x, w = inputs[0], inputs[1]
    assert x is not None
    assert w is not None
    return wrong_dtype(x) or beyond_three(transposed_of(op, x, w).window)


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return [TensorSpec((Columns(op, inputs).largest,), outputs[0].dtype)]


@conv_transpose.kernel("COL2IM", supports=supports, scratch=scratch)
@onnx_conv_transpose.kernel("COL2IM", supports=supports, scratch=scratch)
def col2im(call: Call) -> Run:
    columns = Columns(call.op, call.in_specs)
    transposed, y = columns.transposed, call.outputs[0]
    given = bias_of(call)
    bias = ZERO if given is None else given
    if bias.ndim and not transposed.channels_last:
        bias = bias.reshape(-1, *[1] * (y.ndim - 2))
    bind = _bind_channels_last if transposed.channels_last else _bind_channels_first
    return in_turn([copy(y, bias), *[step for block in columns.blocks for step in bind(call, columns, block)]])


def _bind_channels_first(call: Call, columns: Columns, block: Block) -> List[Step]:
    """columns: W^T @ X, (N, group, M / group, *kernel, pixels)."""
    transposed, window = columns.transposed, columns.window
    group = transposed.group
    depth, width = transposed.channels // group, transposed.filters // group
    images, pixels, count, size = columns.place(block)
    buffer = call.scratch[0][: columns.size(block)]
    x = call.inputs[0][images].reshape(count, group, depth, math.prod(window.output))[..., pixels]
    y = call.outputs[0][images].reshape(count, group, width, *window.image)
    w = call.inputs[1].reshape(group, depth, transposed.width // group).swapaxes(1, 2)
    taps = buffer.reshape(count, group, width, *window.kernel, *columns.extent(block))
    product = multiply(w, x, buffer.reshape(count, group, transposed.width // group, size))
    return [product, *scatter(taps, y, window, block)]


def _bind_channels_last(call: Call, columns: Columns, block: Block) -> List[Step]:
    """columns: X @ W, (N, group, pixels, *kernel, M / group)."""
    transposed, window = columns.transposed, columns.window
    group = transposed.group
    depth, width = transposed.channels // group, transposed.filters // group
    images, pixels, count, size = columns.place(block)
    buffer = call.scratch[0][: columns.size(block)]
    x = call.inputs[0][images].reshape(count, math.prod(window.output), group, depth)[:, pixels].swapaxes(1, 2)
    y = call.outputs[0][images].reshape(count, *window.image, group, width).transpose(0, 4, 5, 1, 2, 3)
    w = call.inputs[1].reshape(group, depth, transposed.width // group)
    taps = buffer.reshape(count, group, *columns.extent(block), *window.kernel, width)
    product = multiply(x, w, buffer.reshape(count, group, size, transposed.width // group))
    return [product, *scatter(taps.transpose(0, 1, 8, 5, 6, 7, 2, 3, 4), y, window, block)]


def scatter(taps: Array, y: Array, window: Window, block: Block) -> Iterator[Step]:
    """Adds what each tap contributes. taps: (N, group, M / group, *kernel, *extent of the block), y: (..., *image)."""
    ranges = (block.slices, block.rows, (0, window.output[2]))
    for tap in np.ndindex(*window.kernel):
        source = taps[:, :, :, tap[0], tap[1], tap[2]]
        met = [overlap for axis, k in enumerate(tap) if (overlap := window.overlap(axis, k, *ranges[axis]))]
        if len(met) == len(tap):
            inside: Index = (..., *[overlap.out for overlap in met])
            pixels: Index = (..., *[overlap.image for overlap in met])
            yield partial(np.add, y[pixels], source[inside], out=y[pixels])
