"""TOEPLITZ: the three convolutions of a separable block at once: a dense one, a depthwise one of 3x3, and one of 1x1.

They are named expand, depthwise and project. They go through the image together, strip by strip, so that what lies
between them, several times as large as what goes in and comes out, never leaves the cache. It lies channel by channel,
so that the depthwise convolution is a product of matrices, too (see ``toeplitz.py``). For a strip of some rows of tiles
of 2 x 2 pixels, with the rows above and below that it meets:

    columns   what expand meets of X, (planes, K + 1, positions)   copies; row K is one inside of the image and zero
                                                              outside: it brings the bias, and outside all stays zero
    for each group of channels:
      expand    R = We @ columns                              (channels, K + 1) @ (K + 1, positions), then the limits
      depthwise O from R                                      then the limits, into
    filtered  (planes of Y, channels + 1, positions)          the last row is ones, for the bias
    project   Y = filtered^T @ Wp                             (positions, channels + 1) @ (.., M), and what follows it

Between blobs in ``Planes`` the copies are of long runs, and the last step is Y^T = Wp^T @ filtered.

Expand is a convolution of 1x1 between blobs in tiles, or one of few channels of a plain image (see ``phase_split.py``).
"""

from __future__ import annotations

from copy import copy as twin_of
from functools import partial
from typing import Any, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from runtime_arm.engines.conv.epilogue import limits_of, tail_scratch
from runtime_arm.engines.conv.gemm import SMALL_PRODUCT, Panels
from runtime_arm.engines.tiled.epilogue import finish
from runtime_arm.engines.tiled.phase_split import PhaseSplit
from runtime_arm.engines.tiled.strips import FLOAT32, ImageRows, Target, body, clear, clear_borders, image_rows, in_turn
from runtime_arm.engines.tiled.toeplitz import PLANES, Toeplitz
from runtime_arm.machine.caches import usual_block_nbytes
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.formulas import CLIPS_FAST
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.operators.fused.separable_block import layers
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.layouts import Layout, Planes, Strip, Tiles, in_tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ONE, ZERO, Step, copy, multiply

ENOUGH_ROWS, ENOUGH_POSITIONS = 14, 256  # of a strip; in smaller ones, rows computed twice and calls would weigh more
FEWEST_CHANNELS = 16  # of a group
VECTOR = 16  # numbers of positions are multiples of it, and so are groups of channels if the number of channels is

Limits = Sequence[Tuple[Any, float]]


class SeparableBlock(NamedTuple):
    """A separable block from X, in the layout ``of``, to Y, in the layout ``to``.

    down: how many pixels lower the depthwise convolution meets the expanded image than with one pixel of padding above.
    """

    expand: Convolution
    toeplitz: Toeplitz
    down: int
    of: Layout
    to: Union[Tiles, Planes]

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
        """How the expanded image is cut into tiles; it is never in memory as a whole."""
        height, width = self.expand.window.output
        return Tiles(self.expand.batch, self.expand.filters, height, width, 2, 0)

    @property
    def pitch(self) -> int:
        """Positions from one row of tiles to the next, of Y and of all that lies between."""
        return self.y.pitch

    @property
    def x_follows(self) -> bool:
        """Whether X has the positions of what lies between, and a row of zeros between images."""
        x, y = self.x, self.y
        return x is not None and (x.tile, x.pitch, x.rows) == (2, y.pitch, y.rows) and x.rows > y.image_tiles((0, 0))[0]

    @property
    def rows(self) -> int:
        """Rows of tiles of a strip, at most: R and O of a group take the bytes of a block, what is filtered takes those
        of two. 0 if the image is too wide."""
        fewest = FEWEST_CHANNELS * (self.toeplitz.terms + self.toeplitz.products)
        most = usual_block_nbytes() // (4 * self.pitch * max(fewest, self.toeplitz.planes * self.expand.filters / 2))
        return int(min(max(ENOUGH_ROWS, ENOUGH_POSITIONS // self.pitch), most, self.y.image_tiles((0, 0))[0]))

    @property
    def groups(self) -> List[slice]:
        """The channels that are expanded and filtered at once."""
        each = 4 * (self.toeplitz.terms + self.toeplitz.products) * self.rows * self.pitch
        most, hidden = max(FEWEST_CHANNELS, usual_block_nbytes() // each), self.expand.filters
        unit = VECTOR if hidden % VECTOR == 0 else 1
        return [slice(begin * unit, end * unit) for begin, end in ranges(hidden // unit, most // unit)]

    @property
    def split(self) -> Optional[PhaseSplit]:
        """How X is split by phase if it is a plain image: for the rows of a strip, a row of expanded tiles above and,
        with stride 1, one below."""
        if self.x is not None:
            return None
        rows = self.rows + (2 if self.toeplitz.stride == 1 else 1)
        return PhaseSplit(self.expand.window, self.expand.channels, self.between, self.pitch, rows)

    def strips(self, workers: int = 1) -> List[ImageRows]:
        """If there are enough rows of tiles, one or more for each worker."""
        high = self.y.image_tiles((0, 0))[0]
        return image_rows(self.y, ranges(high, min(self.rows, -(-high * self.y.batch // workers))))


def scratch(block: SeparableBlock, op: OperatorDef, inputs: Specs) -> List[TensorSpec]:
    """Columns, R, O (and the split image, before O is made), what is filtered; and what the last activation asks
    for."""
    kind, most = block.toeplitz, max(rows.strip(block.y).size for rows in block.strips())
    widest = max(group.stop - group.start for group in block.groups)
    inside, filtered = rounded(most + block.pitch), rounded(most)
    split = block.split
    least = 0 if split is None else -(-split.size // kind.products)
    shapes = [
        (PLANES, block.expand.terms + 1, inside),
        (kind.terms, widest * inside),
        (kind.products, max(widest * filtered, least)),
        (kind.planes, block.expand.filters + 1, filtered),
    ]
    y = block.y.storage(FLOAT32)
    return [*(TensorSpec(shape, y.dtype) for shape in shapes), *tail_scratch(layers(op).op[2], inputs, [y])]


def bind(call: Call, block: SeparableBlock) -> Run:
    """The function that runs a SeparableBlock, or this worker's part of it."""
    expand, depthwise, project = layers(call.op).op
    call = _with_tiles(call, block)
    split = block.split
    steps: List[Step] = clear_borders(call, block.y)
    steps += [copy(call.scratch[1][-1], ONE), copy(call.scratch[3][:, -1], ONE)]
    last = twin_of(call.of(project))
    last.inputs = [None, None, None, *call.inputs[7:9]]
    for rows in call.mine(block.strips(call.workers)):
        pieces, strip = [_piece(block, rows, plane) for plane in range(PLANES)], rows.strip(block.y)
        steps += _gather(call, block, split, strip, pieces)
        for group in block.groups:
            steps += _expand(call, block, strip, group, limits_of(expand))
            steps += _filter(call, block, strip, group, limits_of(depthwise))
        steps += _project(call, block, strip)
        steps += finish(last, Target(block.y, strip))
        steps += clear(call, block.y, strip)
    return in_turn(steps)


def _with_tiles(call: Call, block: SeparableBlock) -> Call:
    """X, the addend and Y as ``Tiles`` have them."""
    turned = twin_of(call)
    turned.inputs, turned.outputs = list(call.inputs), [in_tiles(call.outputs[0], block.to)[0]]
    for at, layout in ((0, block.of), (7, block.to)):
        if layout is not None and call.inputs[at] is not None:
            turned.inputs[at] = in_tiles(call.inputs[at], layout)[0]
    return turned


class _Piece(NamedTuple):
    """What one plane of a strip has of the expanded image number ``image``: of its tiles from row ``begin`` to ``end``
    and column 0 to ``columns`` the pixels of ``phase``. They begin ``above`` rows below the first row of the plane."""

    image: int
    phase: Tuple[int, int]
    begin: int
    end: int
    columns: int
    above: int


def _piece(block: SeparableBlock, rows: ImageRows, plane: int) -> _Piece:
    """Planes 0 and 1 begin with the lower pixels of the tiles above the strip, 2 and 3 with the upper ones of its first
    tiles."""
    late, px = divmod(plane, 2)
    carry, py = divmod(1 - late + block.down, 2)
    first = rows.first + carry - 1 + late
    count = rows.last - rows.first + (block.toeplitz.stride == 1 or not late)
    high, wide = block.between.image_tiles((py, px))
    first = min(first, high)
    begin = max(first, 0)
    end = min(max(first + count, begin), high)
    return _Piece(rows.image, (py, px), begin, end, min(wide, block.pitch - px * block.toeplitz.left), begin - first)


def _gather(
    call: Call, block: SeparableBlock, split: Optional[PhaseSplit], strip: Strip, pieces: Sequence[_Piece]
) -> Iterator[Step]:
    """The columns of all planes."""
    pitch, columns = block.pitch, call.scratch[0][..., : rounded(strip.size + block.pitch)]
    key = f"inside {[piece._replace(image=0) for piece in pieces]} {strip.size}"
    yield copy(columns[:, -1], call.packed(key, lambda: _inside(columns[:, -1], pieces, pitch)))
    if block.x is not None and block.x_follows:
        yield from _runs(call.inputs[0], block.x, strip.size + pitch, pieces, columns[:, :-1])
        return
    if split is not None:
        yield from _windows(call, split, block, pieces, columns[:, :-1])
    for piece, plane in zip(pieces, columns[:, :-1]):
        begin, end = piece.above * pitch, (piece.above + piece.end - piece.begin) * pitch
        grid = _grid(plane, piece, pitch)
        yield from (copy(part, ZERO) for part in (plane[:, :begin], plane[:, end:], grid[..., piece.columns :]))
        if block.x is not None:
            yield copy(grid[..., : piece.columns], _pixels(call.inputs[0], block.x, piece).transpose(2, 0, 1))


def _windows(
    call: Call, split: PhaseSplit, block: SeparableBlock, pieces: Sequence[_Piece], columns: Array
) -> Iterator[Step]:
    """Columns, (planes, K, positions), from a plain image."""
    memory, begin = call.scratch[2].reshape(-1), min(piece.begin for piece in pieces)
    rows = slice(begin, max(begin, *(piece.end for piece in pieces)))
    yield from split.fill(call.inputs[0][pieces[0].image], memory, rows)
    for piece, plane in zip(pieces, columns):
        grid = _grid(plane, piece, block.pitch)
        taps = grid.reshape(*block.expand.window.kernel, split.channels, *grid.shape[1:])
        yield from split.meet(memory, piece.phase, taps, piece.begin - begin)


def _inside(planes: Array, pieces: Sequence[_Piece], pitch: int) -> Array:
    """Like ``planes``, (planes, positions), one for every position inside of the image, zero for the others."""
    ones = np.zeros_like(planes)
    for piece, plane in zip(pieces, ones):
        _grid(plane, piece, pitch)[..., : piece.columns] = 1
    return ones


def _grid(plane: Array, piece: _Piece, pitch: int) -> Array:
    """The rows of a piece: (..., positions) -> (..., rows, pitch)."""
    begin, rows = piece.above * pitch, piece.end - piece.begin
    return plane[..., begin : begin + rows * pitch].reshape(*plane.shape[:-1], rows, pitch)


def _runs(memory: Array, x: Tiles, count: int, pieces: Sequence[_Piece], columns: Array) -> Iterator[Step]:
    """Columns from X that has the same positions, with the zeros around the image; two planes are of the same rows."""
    for number in range(0, PLANES, 2):
        image, (py, _), begin, _, _, above = pieces[number]
        first = x.guard + (image * x.rows + begin - above) * x.pitch
        yield copy(columns[number : number + 2, :, :count], memory[py, :, first : first + count].transpose(0, 2, 1))
    if count < columns.shape[2]:
        yield copy(columns[..., count:], ZERO)


def _pixels(memory: Array, x: Tiles, piece: _Piece) -> Array:
    """The pixels of a piece of X: (rows, columns, C)."""
    py, px = piece.phase
    step = 2 // x.tile
    pixels = x.pixels(memory, (py % x.tile, px % x.tile))[piece.image, py // x.tile :: step, px // x.tile :: step]
    return pixels[piece.begin : piece.end, : piece.columns]


def _expand(call: Call, block: SeparableBlock, strip: Strip, group: slice, limits: Limits) -> Iterator[Step]:
    """R from the columns."""
    weights = call.packed(f"expand {group}", lambda: _with_bias(call.inputs[1], call.inputs[2], group)).T
    count, inside = len(weights), rounded(strip.size + block.pitch)
    between = call.scratch[1][:PLANES, : count * inside]
    target = between.reshape(PLANES, count, inside)
    yield from _multiply(weights, call.scratch[0][..., :inside], target)
    yield from _limit(limits, between, between)


def _filter(call: Call, block: SeparableBlock, strip: Strip, group: slice, limits: Limits) -> Iterator[Step]:
    """What is filtered of a group of channels, from R."""
    kind, count = block.toeplitz, group.stop - group.start
    matrices = call.packed(f"filter {kind} {group}", lambda: _matrices(kind, call.inputs[3], call.inputs[4], group))
    inside, filtered = rounded(strip.size + block.pitch), rounded(strip.size)
    products = call.scratch[2][:, : count * filtered]
    yield from kind.multiply(matrices, call.scratch[1][:, : count * inside], products, block.pitch)
    results = products[kind.results].reshape(kind.planes, count, filtered)
    yield from _limit(limits, results, call.scratch[3][:, group, :filtered])


def _multiply(weights: Array, columns: Array, out: Array) -> Iterator[Step]:
    """out = weights @ columns, so many positions at once that no product is packed."""
    positions = columns.shape[-1]
    for begin, end in ranges(-(-positions // VECTOR), max(1, SMALL_PRODUCT // weights.size // VECTOR)):
        part = slice(begin * VECTOR, min(end * VECTOR, positions))
        yield multiply(weights, columns[..., part], out[..., part])


def _project(call: Call, block: SeparableBlock, strip: Strip) -> Iterator[Step]:
    """Y from what is filtered."""
    y = body(call.outputs[0], block.y, strip)
    planes = [
        (y[block.toeplitz.plane(number)], call.scratch[3][number, :, : strip.size])
        for number in range(block.toeplitz.planes)
    ]
    if isinstance(block.to, Planes):
        weights = call.packed("project turned", lambda: _with_bias(call.inputs[5], call.inputs[6])).T
        for target, results in planes:
            yield from _multiply(weights, results, target.T)
        return
    panels = Panels.of(call, "project", strip.size, lambda: _with_bias(call.inputs[5], call.inputs[6]))
    for target, results in planes:
        yield from panels.multiply(results.T[None], target[None])


def _limit(limits: Limits, source: Array, target: Array) -> Iterator[Step]:
    """Limit the source, into the target, which may be the same memory."""
    values = [np.array(value, source.dtype) for _, value in limits]
    if len(limits) == 2 and CLIPS_FAST:
        yield partial(source.clip, *values, out=target)
        return
    for (bound, _), value in zip(limits, values):
        yield partial(bound, source, value, out=target)
        source = target
    if not limits and source is not target:
        yield copy(target, source)


def rounded(positions: int) -> int:
    """So many positions and those that fill up the last vector: products lose no time with parts of vectors. What they
    make beyond is not read."""
    return -(-positions // VECTOR) * VECTOR


def _with_bias(weights: Array, bias: Any, filters: slice = slice(None)) -> Array:
    """The matrix of a convolution, rows (kh, kw, C) and one more: (K + 1, M)."""
    m = weights.shape[0]
    row = np.zeros((1, m), weights.dtype) if bias is None else bias[None]
    return np.ascontiguousarray(np.concatenate([weights.transpose(2, 3, 1, 0).reshape(-1, m), row])[:, filters])


def _matrices(kind: Toeplitz, weights: Array, bias: Any, channels: slice) -> Array:
    bias = np.zeros(weights.shape[0], weights.dtype) if bias is None else bias
    return np.ascontiguousarray(kind.matrices(weights[channels, 0], bias[channels]))
