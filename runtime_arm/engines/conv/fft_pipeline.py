"""The buffers of the engine FFT, and the order in which a block of tiles uses them; see ``fft.py`` for the steps."""

from __future__ import annotations

from functools import partial
from typing import Iterator, Tuple

import numpy as np

from runtime_arm.engines.conv.epilogue import finish
from runtime_arm.engines.conv.fft_tiles import Block, Side, Tiling
from runtime_arm.engines.conv.fft_transforms import PLANES, Spectrum, basis, frequencies, inverse
from runtime_arm.netdef import Array
from runtime_arm.registry.kernel import Call
from runtime_arm.registry.steps import ZERO, Step, copy, multiply, shaped


class Pipeline:
    """One block on its way through the buffers."""

    def __init__(self, call: Call, tiling: Tiling, block: Block):
        self.call, self.tiling, self.block = call, tiling, block
        self.front, self.back = call.scratch[:2]
        self.group = block.groups[1] - block.groups[0]
        self.extent = (block.rows[1] - block.rows[0], block.columns[1] - block.columns[0])
        self.width = block.filters[1] - block.filters[0]
        self.channels, self.filters = self.group * tiling.depth, self.group * self.width

    def transform(self) -> Iterator[Step]:
        """From the image to the planes of its spectra, in the first buffer."""
        (p, q), (rows, columns), tiling = self.tiling.period, self.extent, self.tiling
        first = self.block.groups[0] * tiling.depth
        top, bottom = tiling.rows.pixels(self.block.rows[0])[0], tiling.rows.pixels(self.block.rows[1] - 1)[1]
        x = self.call.inputs[0][self.block.image, first : first + self.channels, top:bottom]
        lines = shaped(self.front, q, columns, self.channels, bottom - top)
        merged = (1, x.shape[0] * x.shape[1]) if x.flags.c_contiguous else x.shape[:2]
        for column in range(columns):
            matrix, pixels = self._reading(tiling.columns, self.block.columns[0] + column)
            target = lines[:, column].reshape(q, *merged).swapaxes(0, 1)
            yield _product(matrix, x[..., pixels].reshape(*merged, len(matrix.T)).swapaxes(1, 2), target)
        flat = lines.reshape(q * columns * self.channels, bottom - top).T
        spectra = shaped(self.back, rows, p, q * columns * self.channels)
        for row in range(rows):
            matrix, pixels = self._reading(tiling.rows, self.block.rows[0] + row)
            yield _product(matrix, flat[pixels.start - top : pixels.stop - top], spectra[row])
        planes = self._planes(self.front, self.channels)
        yield from Spectrum(tiling.period).split(self._real(self.back, self.channels), planes)

    def multiply(self, filters: Array) -> Iterator[Step]:
        """From the spectra of the pixels to those of the outputs, in the first buffer, to the outputs' columns."""
        (p, q), (rows, columns), tiling = self.tiling.period, self.extent, self.tiling
        u = filters[:, :, slice(*self.block.groups), :, slice(*self.block.filters)]
        shape = (*filters.shape[:2], rows * columns, self.group)
        pixels, outputs = shaped(self.front, *shape, tiling.depth), shaped(self.back, *shape, self.width)
        if tiling.depth == 1:
            yield partial(np.multiply, pixels, u.reshape(*u.shape[:2], 1, *u.shape[2::2]), out=outputs)
        else:
            yield multiply(pixels.swapaxes(2, 3), u, outputs.swapaxes(2, 3))
        planes = self._planes(self.back, self.filters)
        yield from Spectrum(tiling.period).join(planes, self._real(self.front, self.filters))
        back = inverse(p, tiling.rows.tile).T.astype(self.back.dtype)
        width = q * columns * self.filters
        yield multiply(back, shaped(self.front, rows, p, width), shaped(self.back, rows, tiling.rows.tile, width))

    def transform_back(self) -> Iterator[Step]:
        """From the outputs' columns, in the second buffer, to the outputs."""
        (rows, columns), tiling, tile = self.extent, self.tiling, self.tiling.rows.tile
        begin, left = self.block.rows[0] * tile, self.block.columns[0] * tiling.columns.tile
        end, right = (
            min(n * side.tile, side.output)
            for n, side in ((self.block.rows[1], tiling.rows), (self.block.columns[1], tiling.columns))
        )
        first = self.block.groups[0] * tiling.width + self.block.filters[0]
        filters = slice(first, first + self.filters)
        y = self.call.outputs[0][self.block.image, filters, begin:end, left:right]
        halves = shaped(self.back, rows, tile, tiling.period[1], columns, self.filters)
        whole, rest = divmod(end - begin, tile)
        matrix = inverse(tiling.period[1], tiling.columns.tile).astype(y.dtype)
        for column in range(columns):
            at = column * tiling.columns.tile
            target = y[..., at : at + tiling.columns.tile]
            outputs, half = matrix[:, : target.shape[2]], halves[:, :, :, column].swapaxes(2, 3)
            if whole:
                tiles = target[:, : whole * tile].reshape(self.filters, whole, tile, -1)
                yield multiply(half[:whole], outputs, tiles.transpose(1, 2, 0, 3))
            if rest:
                yield multiply(half[whole, :rest], outputs, target[:, whole * tile :].swapaxes(0, 1))
        yield from finish(
            self.call,
            y.reshape(len(y), -1) if y.shape[2] == tiling.columns.output else y.swapaxes(0, 1),
            False,
            filters,
        )

    def _reading(self, side: Side, tile: int) -> Tuple[Array, slice]:
        """The matrix that transforms the pixels of a tile of one dimension, and which these are."""
        begin, end = side.pixels(tile)
        origin = tile * side.tile - side.head
        return basis(side.period, range(begin - origin, end - origin)).astype(self.front.dtype), slice(begin, end)

    def _real(self, buffer: Array, depth: int) -> Array:
        """Real spectra of a block of tiles: (p, q, tile rows, tile columns * depth)."""
        (p, q), (rows, columns) = self.tiling.period, self.extent
        spectra: Array = shaped(buffer, rows, p, q, columns * depth).transpose(1, 2, 0, 3)
        return spectra

    def _planes(self, buffer: Array, depth: int) -> Array:
        """Their complex spectra: (3, frequencies, tile rows, tile columns * depth)."""
        (rows, columns), period = self.extent, self.tiling.period
        return shaped(buffer, PLANES, frequencies(period), rows, columns * depth)


def _product(matrix: Array, pixels: Array, out: Array) -> Step:
    """out = matrix @ pixels, also where there are none."""
    return multiply(matrix, pixels, out) if pixels.size else copy(out, ZERO)
