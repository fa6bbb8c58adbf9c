"""DEPTHWISE between blobs in tiles: one sum of products over all taps, for long rows of pixels and channels.

With the channels last, a strip is one row of numbers, and the weights repeat with every pixel. So they are laid out
along the row once, and ``einsum`` multiplies and sums the pixels under each tap, a view of X:

    Y[run, i] = sum over taps of  W[tap, i] * X[run, i + distance of the tap]        i: q pixels * channels

Runs that divide the rows of the image evenly leave out the columns outside it. With a stride of 2 the input is in tiles
of 2 x 2: taps that read the same row of planes form one sum, and the two sums are added. For regular distances in
memory each sum has some taps too many, whose weights are zero.
"""

from __future__ import annotations

from functools import partial
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.axpy import add
from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.engines.tiled.epilogue import bias, finish
from runtime_arm.engines.tiled.strips import FLOAT32, Target, body, clear, clear_borders, in_turn, strips_of
from runtime_arm.machine.caches import usual_block_nbytes
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.records import NamedTuple, record
from runtime_arm.registry.kernel import Call, Run, Work, no_hints
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import EINSUM, Step, shaped

RUN, SHORT_RUN = 4096, 1024  # elements of a run, about
LEAST_RUN = 512  # of one that divides a row; shorter ones take longer than the columns beside the image
BLOCK = 1 << 16  # elements of a strip whose second sum lies in scratch; others are as long as suits the cache
MULTIPLY_ADD = 8.6  # what one takes of einsum's, in multiplies of a large matrix product
CALLS = 400_000  # the calls of a layer of a few strips, where wide vectors multiply fast
STRIDED_TAPS = 1.75  # times as many taps take the time of those that pass over pixels


@record(frozen=True, eq=False, repr=False)
class Depthwise:
    """The algorithm for convolutions of every channel for itself."""

    convolution: Convolution
    x: Tiles
    y: Tiles

    engine = "DEPTHWISE"
    variants = ()
    pooling = None
    reads_slices = False
    writes_slices = False
    hints = staticmethod(no_hints)

    @property
    def work(self) -> Work:
        kernel, y = self.convolution.window.kernel, self.y
        taps = kernel[0] * kernel[1] * (STRIDED_TAPS if self.x.tile > 1 else 1)
        calls = CALLS if gemm.multiplies_small() else 0
        return Work(0, (MULTIPLY_ADD * taps + 2 * PASS) * y.batch * y.channels * y.height * y.pitch + calls)

    @property
    def elements(self) -> int:
        """Of a strip, at most: what is added up, and what it is added up from, take a block."""
        return BLOCK if self.x.tile > 1 else usual_block_nbytes() // (2 * FLOAT32.itemsize)

    def scratch(self, op: OperatorDef) -> Sequence[TensorSpec]:
        """The sums of a strip that are to be added to the first."""
        y = self.y
        if self.x.tile == 1:
            return ()
        most = max((strip.size for strip in y.strips(max(1, BLOCK // y.channels))), default=0)
        return [TensorSpec((most * y.channels,), FLOAT32)]

    def bind(self, call: Call) -> Run:
        y = self.y
        steps: List[Step] = clear_borders(call, y)
        taps, biases = taps_of(self, call.inputs[1]), bias(call)
        for strip in strips_of(call, y, max(1, self.elements // y.channels)):
            results = body(call.outputs[0], y, strip)[0, 0]
            other = call.scratch[0] if self.x.tile > 1 else results
            steps += sums(call, self.x, strip, taps, results, other, y.width)
            steps += finish(call, Target(y, strip), biases)
            steps += clear(call, y, strip)
        return in_turn(steps)


class _Runs(NamedTuple):
    """Runs of ``pixels`` positions, so many side by side in each of some rows. The first run begins ``begin`` positions
    behind the strip's first, each row ``apart`` positions behind the one before."""

    begin: int
    rows: int
    apart: int
    side_by_side: int
    pixels: int

    def of(self, positions: Array) -> Array:
        """A view of (positions, channels), which begins where the strip does: (rows, side by side, elements)."""
        across, item = positions.strides
        shape = self.rows, self.side_by_side, self.pixels * positions.shape[1]
        return as_strided(positions[self.begin :], shape, (self.apart * across, self.pixels * across, item))


def sums(
    call: Call,
    x: Tiles,
    strip: Strip,
    taps: Sequence[Spread],
    target: Array,
    other: Array,
    width: Optional[int] = None,
) -> Iterator[Step]:
    """The sums of a strip, without bias and activation, into ``target``, (positions, channels).

    taps: ``taps_of`` the algorithm. other: memory for as many sums, if X is in tiles of several pixels. width: the
    columns of the image, if the columns outside it need not be computed.
    """
    most = max(1, _most_elements() // x.channels)
    for runs in _runs(strip, width, most, LEAST_RUN // x.channels):
        into = runs.of(target)
        for number, (met, weights) in enumerate(taps):
            out = shaped(other, *into.shape) if number else into
            yield _sum(call, x, strip, runs, met, weights, out)
            if number:
                yield add(into, out)


class _Taps(NamedTuple):
    """The taps that meet one row of planes: a grid of kernel rows, columns of planes and columns of tiles.

    ``place`` has (kernel row, kernel column) for each element of the grid that is a tap; the weights of the others are
    zero.
    """

    plane: int
    rows: List[int]
    shifts: List[int]
    columns: List[int]
    place: Dict[Tuple[int, int, int], Tuple[int, int]]
    tile: int

    def spread(self, weights: Array) -> Array:
        """The weights (kh, kw, C) over the grid: (rows, planes, columns, C)."""
        grid = np.zeros((len(self.rows), self.tile, len(self.columns), weights.shape[2]), weights.dtype)
        for at, tap in self.place.items():
            grid[at] = weights[tap]
        return grid


Spread = Tuple[_Taps, Array]  # and their weights


def taps_of(algorithm: Depthwise, filters: Array) -> List[Spread]:
    """The taps that form a sum, for each sum, with the filters (C, 1, kh, kw) over their grid."""
    weights = np.ascontiguousarray(filters[:, 0].transpose(1, 2, 0))
    return [(taps, taps.spread(weights)) for taps in _by_row_of_planes(algorithm)]


def _by_row_of_planes(algorithm: Depthwise) -> List[_Taps]:
    window, x = algorithm.convolution.window, algorithm.x
    down = [x.neighbour(0, k * window.dilation[0] - window.head[0]) for k in range(window.kernel[0])]
    right = [x.neighbour(1, k * window.dilation[1] - window.head[1]) for k in range(window.kernel[1])]
    shifts = [shift for _, shift in right]
    columns = list(range(min(shifts), max(shifts) + 1, window.dilation[1] if x.tile == 1 else 1))
    groups = []
    for plane in sorted({plane for plane, _ in down}):
        rows = [k for k, (of, _) in enumerate(down) if of == plane]
        place = {
            (i, right[kx][0], columns.index(right[kx][1])): (ky, kx)
            for i, ky in enumerate(rows)
            for kx in range(window.kernel[1])
        }
        groups.append(_Taps(plane, rows, [down[ky][1] for ky in rows], columns, place, x.tile))
    return groups


def _sum(call: Call, x: Tiles, strip: Strip, runs: _Runs, taps: _Taps, weights: Array, out: Array) -> Step:
    source = call.inputs[0][taps.plane]
    seen = runs.of(source[0, x.guard + strip.begin + taps.shifts[0] + taps.columns[0] :])
    across, step, _ = source.strides
    down = taps.shifts[1] - taps.shifts[0] if len(taps.shifts) > 1 else 0
    right = taps.columns[1] - taps.columns[0] if len(taps.columns) > 1 else 0
    grid = as_strided(seen, (*weights.shape[:3], *seen.shape), (down * step, across, right * step, *seen.strides))
    key = f"{taps.place} {runs.pixels}"  # the padding, and so the place of each tap, may depend on the image
    along = call.packed(key, lambda: np.tile(weights, runs.pixels))
    return partial(EINSUM, "abcxyn,abcn->xyn", grid, along, out=out)


def _most_elements() -> int:
    """Elements of a run. Each run calls the inner loop once a tap, so long ones are better; but where wide vectors wait
    for memory, the weights along a short run, of 3x3 taps, stay in the first-level cache, which is an eighth faster
    (measured with AVX-512)."""
    return SHORT_RUN if gemm.multiplies_small() else RUN


def _runs(strip: Strip, width: Optional[int], most: int, least: int) -> List[_Runs]:
    """Runs of about ``most`` positions: equal ones that divide each row of this width, if there are some of at least
    ``least``, so that what lies beside the image is in none of them; else the strip counts as one row."""
    if width is not None and strip.left == 0 and strip.right == strip.pitch:
        pixels = max(pixels for pixels in range(1, min(_longest(most), width) + 1) if width % pixels == 0)
        if pixels >= least:
            return [_Runs(0, strip.last - strip.first, strip.pitch, width // pixels, pixels)]
    return [_Runs(begin, 1, 0, count, pixels) for begin, count, pixels in _in_line(strip.size, most)]


def _in_line(count: int, most: int) -> Iterator[Tuple[int, int, int]]:
    """Begin, number of runs and positions of a run: equal ones, if there are some of about ``most`` positions, else as
    many of ``most`` as there are, then the rest."""
    runs = count // most
    for equal in (runs, runs + 1):
        if equal and count % equal == 0 and count // equal <= _longest(most):
            yield 0, equal, count // equal
            return
    if runs:
        yield 0, runs, most
    if count > runs * most:
        yield runs * most, 1, count - runs * most


def _longest(most: int) -> int:
    return most * 5 // 4
