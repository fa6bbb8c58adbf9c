"""IM2COL and POINTWISE between blobs in tiles: convolutions as products of matrices over strips of pixels.

A convolution of stride s makes tiles of m x m pixels from tiles of s * m x s * m: output pixel (py, px) of a tile and
tap (ky, kx) meet the pixel (s * py + ky - head, s * px + kx - head) of the same tile, or of one nearby. So under one
tap a whole strip of output tiles meets pixels of one plane, which lie as far apart as the outputs do:

    columns   A[position, (ky, kx, c)] = X[plane, position + shift, c]      one copy a tap, or a row of taps
    multiply  Y[py, px, position, m]   = A @ W                              (positions, kh * kw * C) @ (kh * kw * C, M)

A kernel of 1 and stride 1 needs no columns: a plane is the matrix.
"""

from __future__ import annotations

from typing import Iterator, List, Sequence, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines import tiled
from runtime_arm.engines.gemm import Panels, panel_hints
from runtime_arm.engines.steps import Step, copy
from runtime_arm.engines.tiled_epilogue import bias, finish, has_gaps
from runtime_arm.kernel import Call, Run
from runtime_arm.layouts import Strip, Tiles
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv import Convolution
from runtime_arm.tensor import TensorSpec

SLICE, LEAST_ROWS = 1 << 15, 128  # products, and positions, that are computed at once into a slice of channels


def most_positions(convolution: Convolution, itemsize: int, block: int) -> int:
    """Positions of a plane that are computed at once: their columns and products take the bytes of a block."""
    return max(1, block // ((convolution.terms + convolution.filters) * itemsize))


def scratch(op: OperatorDef, convolution: Convolution, y: Tiles, dtype: np.dtype) -> Sequence[TensorSpec]:
    """Products on the way into a slice; the columns of a block, but not for a pointwise convolution."""
    most = most_positions(convolution, dtype.itemsize, tiled.block_nbytes(op))
    positions = max((strip.size for strip in y.strips(most)), default=0)
    sizes = [min(max(SLICE, LEAST_ROWS * convolution.filters), positions * convolution.filters)]
    if not is_pointwise(convolution):
        sizes.append(positions * convolution.terms)
    return [TensorSpec((size,), dtype) for size in sizes]


def hints(op: OperatorDef, convolution: Convolution, y: Tiles, dtype: np.dtype) -> Sequence[str]:
    """Other blocks and panels."""
    def most(block: int) -> int:
        return most_positions(convolution, dtype.itemsize, block)

    rows = min(most(tiled.block_nbytes(op)), y.body)
    return [*tiled.block_hints(op, lambda block: y.strips(most(block))),
            *panel_hints(op, rows, convolution.terms, convolution.filters)]


def is_pointwise(convolution: Convolution) -> bool:
    window = convolution.window
    return set(window.kernel) == {1} and set(window.stride) == {1} and not any(window.head + window.tail)


def bind(call: Call, convolution: Convolution, x: Tiles, y: Tiles) -> Run:
    steps: List[Step] = tiled.clear_borders(call, call.outputs[0], y)
    most = most_positions(convolution, call.outputs[0].itemsize, tiled.block_nbytes(call.op))
    panels = Panels.of(call, "by channel", min(most, y.body),
                       lambda: call.inputs[1].transpose(2, 3, 1, 0).reshape(1, -1, y.channels))
    strips, filters = tiled.shares_of(call, y, most, convolution.terms * y.channels, panels.group)
    panels = panels.columns(filters)
    biases = bias(call, filters)
    matrices = _planes if is_pointwise(convolution) else _columns
    for strip in strips:
        results = tiled.body(call.outputs[0][..., filters], y, strip)
        for (py, px), matrix, copies in matrices(call, convolution, x, y, strip):
            steps += copies
            if not has_gaps(results):
                steps += panels.multiply(matrix[None], results[py, px][None])
                continue
            piece = max(LEAST_ROWS, SLICE // panels.width)
            for begin in range(0, strip.size, piece):
                positions = slice(begin, min(begin + piece, strip.size))
                shape = 1, 1, positions.stop - begin, panels.width
                products = call.scratch[0][: shape[2] * shape[3]].reshape(shape)
                steps += panels.multiply(matrix[positions][None], products[0])
                part = slice(py, py + 1), slice(px, px + 1), positions
                steps += finish(call, y, strip, biases, products, filters, part)
        if not has_gaps(results):
            steps += finish(call, y, strip, biases, channels=filters)
        steps += tiled.clear(call, y, strip, filters)
    return tiled.in_turn(steps)


Matrix = Tuple[Tuple[int, int], Array, List[Step]]  # plane of the output, (positions, terms), and what fills it


def _planes(call: Call, convolution: Convolution, x: Tiles, y: Tiles, strip: Strip) -> Iterator[Matrix]:
    pixels = tiled.body(call.inputs[0], x, strip)
    for plane in np.ndindex(y.tile, y.tile):
        yield plane, pixels[plane], []


def _columns(call: Call, convolution: Convolution, x: Tiles, y: Tiles, strip: Strip) -> Iterator[Matrix]:
    columns = call.scratch[1][: strip.size * convolution.terms]
    columns = columns.reshape(strip.size, *convolution.window.kernel, x.channels)
    for plane in np.ndindex(y.tile, y.tile):
        copies = list(_gather(call.inputs[0], convolution, x, strip, plane, columns))
        yield plane, columns.reshape(strip.size, convolution.terms), copies


def _gather(memory: Array, convolution: Convolution, x: Tiles, strip: Strip, plane: Tuple[int, int],
            columns: Array) -> Iterator[Step]:
    window, count = convolution.window, strip.size
    for ky in range(window.kernel[0]):
        row, up = x.neighbour(0, plane[0] * window.stride[0] + ky * window.dilation[0] - window.head[0])
        if x.tile == 1 and window.dilation[1] == 1:
            begin = x.guard + strip.begin + up - window.head[1]
            yield copy(columns[:, ky], _runs(memory[0, 0], begin, count, window.kernel[1]))
            continue
        for kx in range(window.kernel[1]):
            column, left = x.neighbour(1, plane[1] * window.stride[1] + kx * window.dilation[1] - window.head[1])
            begin = x.guard + strip.begin + up + left
            yield copy(columns[:, ky, kx], memory[row, column, begin : begin + count])


def _runs(plane: Array, begin: int, count: int, taps: int) -> Array:
    """For each of ``count`` positions the pixels of ``taps`` neighbours, which follow each other: (count, taps, C)."""
    step, channel = plane.strides
    view: Array = as_strided(plane[begin:], (count, taps, plane.shape[1]), (step, step, channel))
    return view
