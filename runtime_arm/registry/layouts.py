"""Physical layouts: how a blob (N, C, H, W) may be stored between one convolution and the next.

``Tiles`` has the channels last and stores each pixel of a tile of m x m pixels in a plane of its own:

    pixel (m * ty + py, m * tx + px) of image n, channel c   lies at   [py, px, position(n, ty, tx), c]

    one plane, m = 1, two images of 2 x 3 pixels with a border:

        guard   . . . . .        The positions of a plane form one axis, row after row, image after image. Columns for
                x x x .          the border (.) exist only at the right end of a row; they also serve as the left border
                x x x .          of the next row, and the rows below an image as those above the next one. Where tiles
                . . . .          reach beyond the image, the surplus serves as border, too. So the neighbour of a pixel,
                x x x .          in any direction, lies a fixed distance away in memory, and operators can process long
                x x x .          stretches of memory without regard to rows.
        guard   . . . . .

Everything outside the images is zero, unless no step reads it: the step that writes a blob also clears it (``clear``).
m = 1 without a border is NHWC; m = 2 suits a stride of 2; m = 2 and m = 4 suit Winograd's transforms.

``Planes`` are tiles with the channels before the positions, [py, px, c, position]; they pass between matrix products
that have channels as rows.
"""

from __future__ import annotations

import itertools
from typing import Iterator, List, Optional, Tuple, Union

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.specs import TensorSpec


class Tiles(NamedTuple):
    """A layout of a float blob of the shape (batch, channels, height, width): tiles of ``tile`` x ``tile`` pixels.

    ``border``: the least number of zero pixels around every image.
    """

    batch: int
    channels: int
    height: int
    width: int
    tile: int
    border: int

    @classmethod
    def of(cls, spec: TensorSpec, tile: int, border: int) -> Tiles:
        """The layout of a blob with this spec, which has four dimensions, and at least this border: the widest that
        takes no more memory, so that equal layouts compare equal."""
        batch, channels, height, width = spec.shape
        least = cls(batch, channels, height, width, tile, border)
        beside = min(least.rows * tile - height, least.pitch * tile - width, -(-border // tile) * tile)
        return least._replace(border=max(border, beside))

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
        """Positions before the first tile, and as many after the last one."""
        return -(-self.border // self.tile) * (self.pitch + 1)

    @property
    def body(self) -> int:
        """Positions from the first tile to the last one."""
        return self.batch * self.rows * self.pitch

    @property
    def positions(self) -> int:
        return self.body + 2 * self.guard

    def storage(self, dtype: np.dtype) -> TensorSpec:
        """The shape and dtype of the blob's memory: (tile, tile, positions, channels)."""
        return TensorSpec((self.tile, self.tile, self.positions, self.channels), dtype)

    def neighbour(self, axis: int, pixel: int) -> Tuple[int, int]:
        """The plane of a pixel, and how many positions away it lies.

        pixel: counted from the edge of a tile, possibly outside it, down the rows (axis 0) or along the columns (1).
        """
        tiles, phase = divmod(pixel, self.tile)
        return phase, tiles * (self.pitch if axis == 0 else 1)

    def image_tiles(self, phase: Tuple[int, int]) -> Tuple[int, int]:
        """The number of rows and of columns of tiles whose pixel ``phase`` is inside the image."""
        return max(0, -(-(self.height - phase[0]) // self.tile)), max(0, -(-(self.width - phase[1]) // self.tile))

    def pixels(self, memory: Array, phase: Tuple[int, int]) -> Array:
        """A view of the pixels of a plane that belong to images: (batch, rows, columns, channels)."""
        rows, columns = self.image_tiles(phase)
        return self.grid(memory[phase])[:, :rows, :columns]

    def grid(self, plane: Array) -> Array:
        """A view of the body of a plane, or of several: (..., batch, rows, pitch, channels)."""
        body = plane[..., self.guard : self.guard + self.body, :]
        return body.reshape(*plane.shape[:-2], self.batch, self.rows, self.pitch, plane.shape[-1])

    def strips(self, most: int, workers: int = 1) -> List[Strip]:
        """The rows of tiles that contain pixels of an image, cut into strips of at most ``most`` positions.

        If there are enough rows, each worker gets equally many strips, all of nearly the same size.
        """
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
        """Views of everything in the strip that is outside the images, in all planes, without overlap."""
        for down, across, rows, columns in self.groups():
            grid = self._rows(memory[down, across])[..., strip.first : strip.last, strip.left : strip.right, :]
            image = np.arange(strip.first, strip.last) % self.rows < rows
            for row in np.flatnonzero(~image):
                yield grid[:, :, row]
            if columns < strip.right:
                yield grid[:, :, :, max(columns - strip.left, 0) :]

    def borders(self, memory: Array) -> Iterator[Array]:
        """Views of what no strip covers: the guards, and the rows between images."""
        rows = self.image_tiles((0, 0))[0]
        below = self.guard + (rows * self.pitch if self.batch == 1 else self.body)  # one image: all the rest
        if self.guard:
            yield memory[:, :, : self.guard]
        if below < self.positions:
            yield memory[:, :, below:]
        if rows < self.rows and self.batch > 1:
            yield self.grid(memory)[:, :, :, rows:]

    def groups(self) -> Iterator[Tuple[slice, slice, int, int]]:
        """The planes, grouped by how many rows and columns of tiles they have inside the image.

        Each group is a slice of rows and a slice of columns of planes, then the number of rows and columns of tiles.
        """
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
    """A layout of a float blob: tiles with the channels before the positions."""

    tiles: Tiles

    def storage(self, dtype: np.dtype) -> TensorSpec:
        """The shape and dtype of the blob's memory: (tile, tile, channels, positions)."""
        tile, _, positions, channels = self.tiles.storage(dtype).shape
        return TensorSpec((tile, tile, channels, positions), dtype)


Layout = Optional[Union[Tiles, Planes]]  # None: the blob's own shape


def in_tiles(memory: Array, layout: Union[Tiles, Planes]) -> Tuple[Array, Tiles]:
    """A view of a blob's memory with the axes of ``Tiles``, (tile, tile, positions, channels), and those tiles.

    In the view of ``Planes`` the positions are contiguous and the channels are not.
    """
    return (memory, layout) if isinstance(layout, Tiles) else (memory.swapaxes(2, 3), layout.tiles)


class Strip(NamedTuple):
    """Rows first..last of tiles, counted over all images, and positions left..right of each: whole rows, or part of
    one row."""

    first: int
    last: int
    left: int
    right: int
    pitch: int

    @property
    def begin(self) -> int:
        """The first position, counted in the body."""
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
