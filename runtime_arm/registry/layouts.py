"""Physical layouts: how a blob (N, C, H, W) may lie in memory while it passes from one convolution to the next.

``Tiles`` has the channels last and keeps each pixel of a tile of m x m pixels in a plane of its own:

    pixel (m * ty + py, m * tx + px) of image n, channel c   lies at   [py, px, position(n, ty, tx), c]

    one plane, m = 1, two images of 2 x 3 pixels with a border:

        guard   . . . . .        The positions of a plane are one axis, row behind row, image behind image. A row has
                x x x .          columns for the border (.) at its right end alone: they are also what lies to the left
                x x x .          of the next row; rows below an image are also those above the next one. Where tiles
                . . . .          reach beyond the image, what they have to spare there serves as well. So the neighbour
                x x x .          of a pixel, in any direction, lies a fixed distance away in memory, and operators run
                x x x .          over long stretches of it without a thought for rows.
        guard   . . . . .

What is not of an image is always zero: whoever writes a blob clears it (``clear``). m = 1 without a border is NHWC;
m = 2 is what a stride of 2 wants, m = 2, 4 are what Winograd's transforms want.

``Planes`` are tiles with the channels in front of the positions, [py, px, c, position]: what goes from one product of
matrices with channels as rows to the next.
"""

from __future__ import annotations

import itertools
from typing import Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.specs import TensorSpec


class Tiles(NamedTuple):
    """A layout of a float blob of the shape (batch, channels, height, width): tiles of ``tile`` x ``tile`` pixels.

    ``border``: how many zero pixels there are at least around every image.
    """

    batch: int
    channels: int
    height: int
    width: int
    tile: int
    border: int

    @classmethod
    def of(cls, spec: TensorSpec, tile: int, border: int) -> Tiles:
        """The layout for a blob of this shape, which has four dimensions."""
        batch, channels, height, width = spec.shape
        return cls(batch, channels, height, width, tile, border)

    @property
    def rows(self) -> int:
        """Rows of tiles from the first of one image to the first of the next."""
        return -(-(self.height + self.border) // self.tile)

    @property
    def pitch(self) -> int:
        """Positions from one row of tiles to the next."""
        return -(-(self.width + self.border) // self.tile)

    @property
    def guard(self) -> int:
        """Positions before the first tile, and behind the last one."""
        return -(-self.border // self.tile) * (self.pitch + 1)

    @property
    def body(self) -> int:
        """Positions from the first tile to the last one."""
        return self.batch * self.rows * self.pitch

    @property
    def positions(self) -> int:
        return self.body + 2 * self.guard

    def storage(self, dtype: np.dtype) -> TensorSpec:
        """What the blob takes in memory: (tile, tile, positions, channels)."""
        return TensorSpec((self.tile, self.tile, self.positions, self.channels), dtype)

    def neighbour(self, axis: int, pixel: int) -> Tuple[int, int]:
        """For a pixel of a tile, counted from its edge and possibly outside of it, along rows (axis 0) or columns (1):
        in which plane it lies, and how many positions away."""
        tiles, phase = divmod(pixel, self.tile)
        return phase, tiles * (self.pitch if axis == 0 else 1)

    def image_tiles(self, phase: Tuple[int, int]) -> Tuple[int, int]:
        """How many rows and columns of tiles have this pixel inside of the image."""
        return max(0, -(-(self.height - phase[0]) // self.tile)), max(0, -(-(self.width - phase[1]) // self.tile))

    def pixels(self, memory: Array, phase: Tuple[int, int]) -> Array:
        """A view of the pixels of a plane: (batch, rows, columns, channels), those of the images alone."""
        rows, columns = self.image_tiles(phase)
        return self.grid(memory[phase])[:, :rows, :columns]

    def grid(self, plane: Array) -> Array:
        """A view of the body of a plane, or of several: (..., batch, rows, pitch, channels)."""
        body = plane[..., self.guard : self.guard + self.body, :]
        return body.reshape(*plane.shape[:-2], self.batch, self.rows, self.pitch, plane.shape[-1])

    def strips(self, most: int, workers: int = 1) -> List[Strip]:
        """The rows of tiles that have pixels of an image, cut into strips of at most ``most`` positions, if there are
        enough rows as many for each worker and all of nearly one size."""
        rows = self.image_tiles((0, 0))[0]
        runs = (
            [(0, self.batch * rows)]
            if rows == self.rows
            else [(first, first + rows) for first in range(0, self.batch * self.rows, self.rows)]
        )
        wide, high = max(1, min(most, self.pitch)), max(1, most // self.pitch)
        return [
            Strip(*part, *columns, self.pitch)
            for first, last in runs
            for part in _cut(first, last, high, workers)
            for columns in _cut(0, self.pitch, wide)
        ]

    def outside(self, memory: Array, strip: Strip) -> Iterator[Array]:
        """Views of what does not belong to an image in the strip, of all planes, without overlap."""
        for down, across, rows, columns in self.groups():
            grid = self._rows(memory[down, across])[..., strip.first : strip.last, strip.left : strip.right, :]
            image = np.arange(strip.first, strip.last) % self.rows < rows
            for row in np.flatnonzero(~image):
                yield grid[:, :, row]
            if columns < strip.right:
                yield grid[:, :, :, max(columns - strip.left, 0) :]

    def borders(self, memory: Array) -> Iterator[Array]:
        """Views of what no strip reaches: the guards, and the rows between images."""
        if self.guard:
            yield memory[:, :, : self.guard]
            yield memory[:, :, self.guard + self.body :]
        rows = self.image_tiles((0, 0))[0]
        if rows < self.rows:
            yield self.grid(memory)[:, :, :, rows:]

    def groups(self) -> Iterator[Tuple[slice, slice, int, int]]:
        """The planes, together with those that have as many rows and columns of tiles inside of the image: which rows
        and columns of planes, and how many of tiles."""
        counts = [self.image_tiles((phase, phase)) for phase in range(self.tile)]
        down, across = (
            [
                [phase for phase in range(self.tile) if counts[phase][axis] == count]
                for count in sorted({of[axis] for of in counts})
            ]
            for axis in (0, 1)
        )
        for rows, columns in itertools.product(down, across):
            yield (
                slice(rows[0], rows[-1] + 1),
                slice(columns[0], columns[-1] + 1),
                counts[rows[0]][0],
                counts[columns[0]][1],
            )

    def _rows(self, planes: Array) -> Array:
        """A view of the body of planes: (..., batch * rows, pitch, channels)."""
        body = planes[..., self.guard : self.guard + self.body, :]
        return body.reshape(*planes.shape[:-2], -1, self.pitch, planes.shape[-1])


class Planes(NamedTuple):
    """A layout of a float blob: tiles whose channels come before the positions."""

    tiles: Tiles

    def storage(self, dtype: np.dtype) -> TensorSpec:
        """What the blob takes in memory: (tile, tile, channels, positions)."""
        tile, _, positions, channels = self.tiles.storage(dtype).shape
        return TensorSpec((tile, tile, channels, positions), dtype)


Layout = Optional[Union[Tiles, Planes]]  # None: the blob's own shape


def in_tiles(memory: Array, layout: Union[Tiles, Planes]) -> Tuple[Array, Tiles]:
    """A blob's memory as ``Tiles`` have it, (tile, tile, positions, channels), and those tiles. The channels of planes
    lie apart then, and the positions do not."""
    return (memory, layout) if isinstance(layout, Tiles) else (memory.swapaxes(2, 3), layout.tiles)


class Strip(NamedTuple):
    """Rows first..last of tiles, of all images, and the positions left..right of each; whole rows or one."""

    first: int
    last: int
    left: int
    right: int
    pitch: int

    @property
    def begin(self) -> int:
        """Its first position in the body."""
        return self.first * self.pitch + self.left

    @property
    def end(self) -> int:
        return (self.last - 1) * self.pitch + self.right

    @property
    def size(self) -> int:
        return self.end - self.begin


def _cut(begin: int, end: int, most: int, workers: int = 1) -> Iterator[Tuple[int, int]]:
    return ((begin + first, begin + last) for first, last in ranges(end - begin, most, workers))


__all__ = ["Layout", "Planes", "Strip", "Tiles", "in_tiles"]
