"""A plain image of few channels, split by phase, so that the taps of a convolution read long runs of it.

Three channels of a pixel are too few to be copied by themselves. With stride s, and tiles of m x m outputs whose pixels
lie in planes of their own (see ``registry/layouts.py``), a strip of rows of tiles meets

    S[p, q, c, position] = X[c, s * m * row + p - head, s * m * column + q]

Under the tap (ky, kx) an output of the plane (py, px) meets the phases (s * py + d * ky) mod s * m and
(s * px + d * kx - head) mod s * m, as many positions away as there are whole tiles in these pixels; d is the dilation.
A row of S is as long as one of the outputs, if that has room for the columns of the image and the zeros beside them:
then all rows of a strip are one run. Taps that lie equally many positions away are copied at once; their phases are d
apart.
"""

from __future__ import annotations

from itertools import groupby
from typing import Iterator, List, Sequence, Tuple

from numpy.lib.stride_tricks import as_strided

from runtime_arm.netdef import Array
from runtime_arm.operators.common.windows import Window
from runtime_arm.records import NamedTuple
from runtime_arm.registry.layouts import Tiles
from runtime_arm.registry.steps import ZERO, Step, copy, margins, shaped


class _Taps(NamedTuple):
    """Neighbouring taps at the same distance in rows or columns of tiles, and the phase that the first one reads."""

    first: int
    many: int
    shift: int
    phase: int


class _Phases(NamedTuple):
    """Neighbouring phases that have the same rows or columns inside of the image."""

    first: int
    many: int
    inside: slice


class PhaseSplit:
    """What strips of at most ``rows`` rows of tiles ``y`` meet of an image (C, H, W). A row of the columns has
    ``pitch`` positions: those of a row of tiles, and perhaps some behind them."""

    def __init__(self, window: Window, channels: int, y: Tiles, pitch: int, rows: int):
        self.window = window
        self.channels = channels
        self.step = window.stride[0] * y.tile, window.stride[1] * y.tile
        last = [k - 1 for k in window.kernel]
        self.below = self.tap(0, y.tile - 1, last[0])[0]  # rows that a strip meets below its own
        self.high = rows + self.below
        self.left = -self.tap(1, 0, 0)[0]  # zeros before a row
        self.right = max(0, self.tap(1, y.tile - 1, last[1])[0])
        met = [y.image_tiles((phase, phase))[1] + self.tap(1, phase, last[1])[0] for phase in range(y.tile)]
        # positions of a row: those of the outputs, all columns of the image, and what the last tap meets beside them
        self.wide = max(pitch, -(-window.image[1] // self.step[1]) + self.left, *met)

    @property
    def length(self) -> int:
        """Positions of a channel in one phase."""
        return self.left + self.high * self.wide + self.right

    @property
    def size(self) -> int:
        """Elements of S."""
        return self.step[0] * self.step[1] * self.channels * self.length

    def fill(self, image: Array, buffer: Array, rows_of_tiles: slice, is_next: bool = False) -> Iterator[Step]:
        """Makes S in a buffer. is_next: the buffer still has, untouched, what this made for other rows."""
        split = self._of(buffer)
        count = rows_of_tiles.stop - rows_of_tiles.start + self.below
        assert count <= self.high, f"{count} rows of {self.high}"
        end = self.length - self.right
        rows = split[..., self.left : end].reshape(*split.shape[:3], self.high, self.wide)
        top = rows_of_tiles.start * self.step[0] - self.window.head[0]
        across = _alike(0, self.window.image[1], self.step[1], self.wide)
        if not is_next:
            yield copy(split[..., : self.left], ZERO)
            yield copy(split[..., end:], ZERO)
            for q in across:
                for margin in margins(rows[:, q.first : q.first + q.many], [q.inside]):
                    yield copy(margin, ZERO)
        rows = rows[:, :, :, :count]
        channel, row, column = image.strides
        for p in _alike(top, self.window.image[0], self.step[0], count):
            target = rows[p.first : p.first + p.many]
            for margin in margins(target, [p.inside, slice(0, self.wide)]):
                yield copy(margin, ZERO)
            for q in across:
                part = target[:, q.first : q.first + q.many, :, p.inside, q.inside]
                if part.size:
                    pixels = image[:, top + p.first + p.inside.start * self.step[0] :, q.first :]
                    strides = row, column, channel, self.step[0] * row, self.step[1] * column
                    yield copy(part, as_strided(pixels, part.shape, strides))

    def meet(self, buffer: Array, plane: Tuple[int, int], taps: Array, down: int = 0, first: int = 0) -> Iterator[Step]:
        """Copies what the outputs of a plane meet of S into ``taps``, (kh, kw, C, rows, columns): from the kernel's
        column ``first`` on, and from S's row ``down`` on."""
        split = self._of(buffer)
        p, q, channel, position = split.strides
        apart = self.window.dilation[0] * p, self.window.dilation[1] * q
        for y in self._runs(0, plane[0], 0, taps.shape[0]):
            for x in self._runs(1, plane[1], first, taps.shape[1]):
                target = taps[y.first : y.first + y.many, x.first : x.first + x.many]
                met = split[y.phase, x.phase, :, self.left + (down + y.shift) * self.wide + x.shift :]
                strides = (*apart, channel, self.wide * position, position)
                yield copy(target, as_strided(met, target.shape, strides))

    def meet_columns(self, split: Array, column: int, taps: Array) -> Iterator[Step]:
        """Copies what the outputs of a column of planes meet into ``taps``, (..., kw, C, positions), of something that
        is split as S is, (..., q, C, length), and of which all rows of a strip are one run."""
        for x in self._runs(1, column, 0, taps.shape[-3]):
            begin, apart = self.left + x.shift, self.window.dilation[1]
            met = split[..., x.phase : x.phase + (x.many - 1) * apart + 1 : apart, :, begin : begin + taps.shape[-1]]
            yield copy(taps[..., x.first : x.first + x.many, :, :], met)

    def _of(self, buffer: Array) -> Array:
        return shaped(buffer, *self.step, self.channels, self.length)

    def tap(self, axis: int, phase: int, k: int) -> Tuple[int, int]:
        """How many rows (axis 0) or columns (axis 1) of tiles away the outputs of a plane meet pixels under a tap, and
        in which phase; rows count from the first of S."""
        pixel = phase * self.window.stride[axis] + k * self.window.dilation[axis]
        return divmod(pixel - (self.window.head[1] if axis else 0), self.step[axis])

    def _runs(self, axis: int, phase: int, first: int, count: int) -> List[_Taps]:
        met = [self.tap(axis, phase, first + k) for k in range(count)]
        runs = (list(run) for _, run in groupby(range(count), key=lambda k: met[k][0]))
        return [_Taps(run[0], len(run), *met[run[0]]) for run in runs]


def _alike(begin: int, image: int, step: int, length: int) -> Sequence[_Phases]:
    """The phases of the pixels from ``begin`` on, in groups for which the same of ``length`` places lie inside of an
    image of ``image`` pixels."""

    def inside(phase: int) -> Tuple[int, int]:
        bounds = -((begin + phase) // step), -((begin + phase - image) // step)
        first, last = (min(max(bound, 0), length) for bound in bounds)
        return first, last

    runs = [(bounds, list(run)) for bounds, run in groupby(range(step), key=inside)]
    return [_Phases(run[0], len(run), slice(*bounds)) for bounds, run in runs]
