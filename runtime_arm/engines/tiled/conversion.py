"""Copies from one layout to another: (N, C, H, W) into tiles and back, tiles of one size into those of another."""

from __future__ import annotations

from math import gcd
from typing import Iterable, Iterator, List, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines.tiled.strips import in_turn
from runtime_arm.netdef import Array
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.layouts import Layout, Tiles, in_tiles
from runtime_arm.registry.steps import ZERO, Step, copy


def bind(call: Call, source: Layout, target: Layout) -> Run:
    """Copies input 0, in the layout ``source``, into output 0, in ``target``. None stands for (N, C, H, W).

    Workers split the rows of the image, as they do elsewhere: most of what a worker reads it wrote itself.
    """
    x, y = call.inputs[0], call.outputs[0]
    steps: List[Step] = []
    if source is not None:
        x, source = in_tiles(x, source)
    if target is not None:
        y, target = in_tiles(y, target)
        if call.worker == 0 and not call.ragged:
            steps = [copy(view, ZERO) for view in _everything_outside(target, y)]
        pairs = _from_plain(x, y, target) if source is None else _between(x, source, y, target)
    else:
        assert source is not None
        pairs = _to_plain(x, source, y)
    return in_turn([*steps, *(copy(to, of) for to, of in _rows_of(call, pairs))])


def _rows_of(call: Call, pairs: Iterable[Tuple[Array, Array]]) -> Iterator[Tuple[Array, Array]]:
    for to, of in pairs:
        rows = call.slice_of(to.shape[-3])
        yield to[..., rows, :, :], of[..., rows, :, :]


def _everything_outside(layout: Tiles, memory: Array) -> Iterator[Array]:
    yield from layout.borders(memory)
    for strip in layout.strips(layout.body):
        yield from layout.outside(memory, strip)


def _from_plain(x: Array, memory: Array, layout: Tiles) -> Iterator[Tuple[Array, Array]]:
    m = layout.tile
    for py, px in np.ndindex(m, m):
        yield layout.pixels(memory, (py, px)), x[:, :, py::m, px::m].transpose(0, 2, 3, 1)


def _to_plain(memory: Array, layout: Tiles, y: Array) -> Iterator[Tuple[Array, Array]]:
    for of, to in _from_plain(y, memory, layout):
        yield to, of


def _between(x: Array, source: Tiles, y: Array, target: Tiles) -> Iterator[Tuple[Array, Array]]:
    """Views (to, of) of the same pixels, (..., rows, columns, C), that lie evenly in both layouts.

    If one layout has all pixels in one plane, they are of several planes of the other one. Else they are the pixels as
    far apart, in rows and columns, as the least common multiple of both tiles.
    """
    if source.tile == 1:
        yield from _spread(y, target, x, source)
    elif target.tile == 1:
        yield from ((to, of) for of, to in _spread(x, source, y, target))
    else:
        yield from _apart(x, source, y, target)


def _spread(planes: Array, tiles: Tiles, plane: Array, plain: Tiles) -> Iterator[Tuple[Array, Array]]:
    """Groups of planes with as many rows and columns of tiles inside of the image, and their pixels where these lie in
    one plane: (rows, columns of a tile, batch, rows, columns, C)."""
    pixels, tile = plain.pixels(plane, (0, 0)), tiles.tile
    image, row, column, channel = pixels.strides
    for down, across, rows, columns in tiles.groups():
        of = tiles.grid(planes[down, across])[..., :rows, :columns, :]
        strides = (row, column, image, tile * row, tile * column, channel)
        yield of, as_strided(pixels[:, down.start :, across.start :], of.shape, strides)


def _apart(x: Array, source: Tiles, y: Array, target: Tiles) -> Iterator[Tuple[Array, Array]]:
    """One plane of either: if one tile is a multiple of the other, all pixels of a plane of the larger tiles lie in one
    plane of the smaller ones."""
    m, n = source.tile, target.tile
    period = m * n // gcd(m, n)
    for py, px in np.ndindex(period, period):
        of = source.pixels(x, (py % m, px % m))[:, py // m :: period // m, px // m :: period // m]
        to = target.pixels(y, (py % n, px % n))[:, py // n :: period // n, px // n :: period // n]
        if to.size:
            yield to, of
