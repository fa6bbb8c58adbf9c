"""How a separable block is cut into strips: the places of the filtered image and of the results.

The kernel is in ``kernel.py``.
"""

from __future__ import annotations

from typing import List, Optional, Tuple, Union

from runtime_arm.engines.tiled.phase_split import PhaseSplit
from runtime_arm.engines.tiled.separable.toeplitz import Toeplitz
from runtime_arm.engines.tiled.strips import ImageRows, image_rows
from runtime_arm.machine.caches import usual_block_nbytes
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.layouts import Layout, Planes, Tiles

ENOUGH_ROWS, ENOUGH_POSITIONS = 14, 256  # of a strip; in smaller ones, rows computed twice and calls would weigh more
FEWEST_CHANNELS = 16  # of a group
LARGEST_BLOCK = 1 << 19  # bytes; larger ones take up to a tenth longer, also where the cache would hold them
WIDER, MUCH_WIDER = 2, 3  # times as many channels are filtered as X and Y have, or X, at least, where these are small
VECTOR = 16  # numbers of positions are multiples of it, and so are groups of channels if the number of channels is


class Piece(NamedTuple):
    """What one plane of a strip has of the filtered image number ``image``: of its tiles from row ``begin`` to ``end``
    and column 0 to ``columns`` the pixels of ``phase``. They begin ``above`` rows below the first row of the plane."""

    image: int
    phase: Tuple[int, int]
    begin: int
    end: int
    columns: int
    above: int

    @property
    def place(self) -> Tuple[int, int, int]:
        """Where it lies in its plane: its first row, its rows, its columns."""
        return self.above, self.end - self.begin, self.columns


class SeparableBlock(NamedTuple):
    """A separable block from X, in the layout ``of``, to Y, in the layout ``to``.

    expand: None if X itself is filtered; it has the layout ``Planes`` then. projects: whether a 1x1 convolution makes Y
    of what is filtered, which is Y otherwise, and ``Planes``, too.
    """

    expand: Optional[Convolution]
    depthwise: Convolution
    toeplitz: Toeplitz
    projects: bool
    of: Layout
    to: Union[Tiles, Planes]

    @property
    def hidden(self) -> int:
        """Channels that are filtered."""
        return self.depthwise.channels

    @property
    def x(self) -> Optional[Tiles]:
        """The tiles of X; None if it is a plain image."""
        return self.of.tiles if isinstance(self.of, Planes) else self.of

    @property
    def y(self) -> Tiles:
        """The tiles of Y."""
        return self.to.tiles if isinstance(self.to, Planes) else self.to

    @property
    def between(self) -> Tiles:
        """How the image that is filtered is cut into tiles; unless it is X, it is never in memory as a whole."""
        height, width = self.depthwise.window.image
        return Tiles(self.depthwise.batch, self.hidden, height, width, 2, 0)

    @property
    def pitch(self) -> int:
        """Positions from one row of tiles to the next, of Y and of all that lies between."""
        return self.y.pitch

    @property
    def margin(self) -> int:
        """Positions that a strip of the filtered image has more than one of the results."""
        return (self.toeplitz.bands - 1) * self.pitch

    @property
    def x_follows(self) -> bool:
        """Whether X has the positions of what lies between, and as many rows of zeros between images as are met."""
        x, y, kind = self.x, self.y, self.toeplitz
        if x is None or (x.tile, x.pitch, x.rows) != (2, y.pitch, y.rows):
            return False
        return 2 * x.rows >= x.height + max(kind.head[0], kind.kernel - 1 - kind.head[0])

    @property
    def is_narrow(self) -> bool:
        """Whether X, and Y if there is a project, have few channels beside what is filtered, and take little memory."""
        if self.expand is None:
            return False
        if self.projects:
            return self.hidden >= WIDER * max(self.expand.channels, self.y.channels)
        return self.x is not None and self.hidden >= MUCH_WIDER * self.expand.channels

    @property
    def block(self) -> int:
        """Bytes of R and O of a group: those of two blocks, which saves rows computed twice and calls, where X is small
        beside what is filtered; those of one elsewhere, so that no more memory is needed."""
        return min(usual_block_nbytes(), LARGEST_BLOCK) * (2 if self.is_narrow else 1)

    @property
    def rows(self) -> int:
        """Rows of tiles of a strip, at most: R and O of a group take ``block`` bytes, what is filtered takes twice as
        many. 0 if the image is too wide."""
        most = self.block // (4 * self.pitch * FEWEST_CHANNELS * (self.toeplitz.terms + self.toeplitz.products))
        if self.projects:
            most = min(most, 2 * self.block // (4 * self.pitch * self.toeplitz.planes * self.hidden))
        return min(max(ENOUGH_ROWS, ENOUGH_POSITIONS // self.pitch), most, self.y.image_tiles((0, 0))[0])

    @property
    def groups(self) -> List[slice]:
        """The channels that are expanded and filtered at once."""
        each = 4 * (self.toeplitz.terms + self.toeplitz.products) * self.rows * self.pitch
        most = max(FEWEST_CHANNELS, self.block // each)
        unit = VECTOR if self.hidden % VECTOR == 0 else 1
        return [slice(begin * unit, end * unit) for begin, end in ranges(self.hidden // unit, most // unit)]

    @property
    def split(self) -> Optional[PhaseSplit]:
        """How X is split by phase if it is a plain image, for the rows of tiles that a strip meets."""
        if self.x is not None:
            return None
        assert self.expand is not None
        head, met = self.toeplitz.head[0], self.toeplitz.met
        rows = self.rows + (met - 1 - head) // 2 - -head // 2
        return PhaseSplit(self.expand.window, self.expand.channels, self.between, self.pitch, rows)

    def strips(self, workers: int = 1) -> List[ImageRows]:
        """If there are enough rows of tiles, one or more for each worker."""
        high = self.y.image_tiles((0, 0))[0]
        return image_rows(self.y, ranges(high, min(self.rows, -(-high * self.y.batch // workers))))

    def fits(self) -> bool:
        """Whether strips are wide enough, and X and what is beside the image lie where they are met."""
        across, met = self.between.image_tiles((0, 0))[1], self.toeplitz
        beside = self.pitch * 2 >= self.depthwise.window.image[1] + met.head[1] if met.stride == 1 else True
        inside = met.kernel == 3 or across < self.pitch
        follows = self.x_follows if isinstance(self.of, Planes) and self.of.tiles.tile == 2 else True
        return beside and inside and follows and self.rows >= min(2, self.y.image_tiles((0, 0))[0])

    def piece(self, rows: ImageRows, plane: int) -> Piece:
        """What plane number ``plane`` of a strip has; planes 0 and 1 have the first row of pixels that it meets, 2 and
        3 the second."""
        kind = self.toeplitz
        late, px = divmod(plane, 2)
        tile, py = divmod(late - kind.head[0], 2)
        count = rows.last - rows.first + kind.bands - 1 - (kind.met % 2 and late)
        high, wide = self.between.image_tiles((py, px))
        first = min(rows.first + tile, high)
        begin = max(first, 0)
        end = min(max(first + count, begin), high)
        owes = px + kind.head[1] >= 2  # to the tile behind
        return Piece(rows.image, (py, px), begin, end, min(wide, self.pitch - owes), begin - first)


def rounded(positions: int) -> int:
    """So many positions and those that fill up the last vector: products lose no time with parts of vectors. What they
    make beyond is not read."""
    return -(-positions // VECTOR) * VECTOR
