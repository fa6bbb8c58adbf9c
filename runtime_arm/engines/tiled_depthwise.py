"""DEPTHWISE between blobs in tiles: one sum of products over all taps, for long rows of pixels and channels.

With the channels last, a strip of positions is one row of numbers, and the weights repeat with every pixel. So they are
laid out along the row once, and ``einsum`` multiplies and adds up what lies under each tap, a view of X:

    Y[run, i] = sum over taps of  W[tap, i] * X[run, i + distance of the tap]        i: q pixels * channels

A stride of 2 reads tiles of 2 x 2: taps that meet the same plane form one sum, and the sums are added.
"""

from __future__ import annotations

from functools import partial
from typing import Dict, Iterator, List, Sequence, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines import tiled
from runtime_arm.engines.steps import Step
from runtime_arm.kernel import Call, Run
from runtime_arm.layouts import Strip, Tiles
from runtime_arm.netdef import Array
from runtime_arm.operators.conv import Convolution
from runtime_arm.tensor import TensorSpec

RUN = 4096  # elements of a run, about: with fewer, calls of the inner loop cost more than its work
BLOCK = 1 << 16  # elements of a strip


def scratch(convolution: Convolution, x: Tiles, y: Tiles, dtype: np.dtype) -> Sequence[TensorSpec]:
    """What the sums take that are to be added to the first."""
    if x.tile == 1:
        return ()
    most = max((strip.size for strip in y.strips(max(1, BLOCK // y.channels))), default=0)
    return [TensorSpec((most * y.channels,), dtype)]


def bind(call: Call, convolution: Convolution, x: Tiles, y: Tiles) -> Run:
    steps: List[Step] = tiled.clear_borders(call, call.outputs[0], y)
    weights = np.ascontiguousarray(call.inputs[1][:, 0].transpose(1, 2, 0))  # (kh, kw, C)
    for strip in tiled.strips_of(call, y, max(1, BLOCK // y.channels)):
        steps += _sums(call, convolution, x, y, strip, weights)
        steps += tiled.finish(call, y, strip)
    return tiled.in_turn(steps)


def _sums(call: Call, convolution: Convolution, x: Tiles, y: Tiles, strip: Strip, weights: Array) -> Iterator[Step]:
    target = tiled.body(call.outputs[0], y, strip)[0, 0]
    for number, (plane, taps) in enumerate(_by_plane(convolution, x).items()):
        out = target if number == 0 else call.scratch[0][: target.size].reshape(target.shape)
        yield from _sum(call, x, strip, plane, taps, weights, out)
        if number:
            yield partial(np.add, target, out, out=target)


Taps = List[Tuple[int, int, int]]  # kernel row, kernel column, positions away


def _by_plane(convolution: Convolution, x: Tiles) -> Dict[Tuple[int, int], Taps]:
    """The taps that meet each plane of X."""
    window, planes = convolution.window, {}  # type: ignore[var-annotated]
    for ky, kx in np.ndindex(*window.kernel):
        row, up = x.neighbour(0, ky * window.dilation[0] - window.head[0])
        column, left = x.neighbour(1, kx * window.dilation[1] - window.head[1])
        planes.setdefault((row, column), []).append((ky, kx, up + left))
    return planes


def _sum(call: Call, x: Tiles, strip: Strip, plane: Tuple[int, int], taps: Taps, weights: Array,
         out: Array) -> Iterator[Step]:
    """out = sum over the taps of a plane, which form a grid: rows ``a`` apart, columns ``b`` apart."""
    rows, columns = sorted({ky for ky, _, _ in taps}), sorted({kx for _, kx, _ in taps})
    away = {(ky, kx): distance for ky, kx, distance in taps}
    first = away[rows[0], columns[0]]
    down = away[rows[1], columns[0]] - first if len(rows) > 1 else 0
    right = away[rows[0], columns[1]] - first if len(columns) > 1 else 0
    chosen = weights[np.ix_(rows, columns)]
    source, channels = call.inputs[0][plane], x.channels
    step, begin = source.strides[0], x.guard + strip.begin + first
    for at, runs, pixels in _runs(strip.size, max(1, RUN // channels)):
        shape = (len(rows), len(columns), runs, pixels * channels)
        strides = (down * step, right * step, pixels * step, source.itemsize)
        seen = as_strided(source[begin + at :], shape, strides)
        key = f"{rows} {columns} {pixels}"
        along = call.packed(key, lambda: np.ascontiguousarray(np.tile(chosen, pixels)))  # noqa: B023 (called at once)
        result = out[at : at + runs * pixels].reshape(runs, pixels * channels)
        yield partial(np.einsum, "abyn,abn->yn", seen, along, out=result)


def _runs(count: int, most: int) -> Iterator[Tuple[int, int, int]]:
    """Begin, number of runs and positions of a run: as many of ``most`` positions as there are, then the rest."""
    runs = count // most
    if runs:
        yield 0, runs, most
    if count > runs * most:
        yield runs * most, 1, count - runs * most
