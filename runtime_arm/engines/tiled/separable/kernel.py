"""TOEPLITZ: the convolutions of a separable block at once: a dense one, a depthwise one, and one of 1x1.

They are named expand, depthwise and project; expand or project may be missing. They process the image together, strip
by strip, so that the blobs between them, often several times as large as input and output, never leave the cache. These
are stored channel by channel, so that the depthwise convolution is a product of matrices, too (see ``toeplitz.py``).
For a strip of some rows of tiles of 2 x 2 pixels, with the rows above and below that it reads:

    columns   what expand meets of X, (planes, K + 1, positions)   copies; row K is one inside of the image and zero
                                                              outside: it brings the bias, and outside all stays zero
    for each group of channels:
      expand    R = We @ columns                              (channels, K + 1) @ (K + 1, positions), activation
      depthwise O from R                                      then its activation, into
    filtered  (planes of Y, channels + 1, positions)          the last row is ones, for the bias
    project   Y = filtered^T @ Wp                             (positions, channels + 1) @ (.., M), and what follows it

Between blobs in ``Planes`` the copies are of long runs, and the last step is Y^T = Wp^T @ filtered. Without expand, R
is copied from X; without project, what is filtered is Y.

Expand is a convolution of 1x1 between blobs in tiles, or one of few channels of a plain image (see ``phase_split.py``).
"""

from __future__ import annotations

from copy import copy as twin_of
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.bias_shifts import bias_behind
from runtime_arm.engines.conv.epilogue import scratch_count, tail_scratch
from runtime_arm.engines.conv.gemm import SMALL_PRODUCT, Panels
from runtime_arm.engines.tiled.epilogue import finish
from runtime_arm.engines.tiled.phase_split import PhaseSplit
from runtime_arm.engines.tiled.separable.block import VECTOR, Piece, SeparableBlock, rounded
from runtime_arm.engines.tiled.separable.inner_activation import InnerActivation
from runtime_arm.engines.tiled.separable.toeplitz import PLANES
from runtime_arm.engines.tiled.strips import FLOAT32, Target, body, clear, clear_borders, in_turn
from runtime_arm.netdef import Array
from runtime_arm.operators.fused.separable_block import FLOOR, INPUTS, Parts
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import BLOCK, ranges
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.layouts import Planes, Strip, Tiles, in_tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ONE, ZERO, Step, copy, multiply


class _Buffers(NamedTuple):
    """The scratch of a kernel. R and O: (terms or products, numbers)."""

    columns: Array
    r: Array
    o: Array
    filtered: Array
    temporaries: Sequence[Array]


def scratch(block: SeparableBlock, parts: Parts, inputs: Specs) -> List[TensorSpec]:
    """Columns, R, O (and the split image, before O is made), what is filtered; temporaries of the activations inside;
    and what the last activation asks for."""
    kind, most = block.toeplitz, max(rows.strip(block.y).size for rows in block.strips())
    widest = max(group.stop - group.start for group in block.groups)
    inside, filtered = rounded(most + block.margin), rounded(most)
    split = block.split
    least = 0 if split is None else -(-split.size // kind.products)
    shapes = [
        (PLANES, 1 if block.expand is None else block.expand.terms + 1, inside),
        (kind.terms, widest * inside),
        (kind.products, max(widest * filtered, least)),
        (kind.planes, block.hidden + 1 if block.projects else 1, filtered),
        *[(BLOCK,)] * max(scratch_count(op) for op in parts.inside),
    ]
    found = [TensorSpec(shape, FLOAT32) for shape in shapes]
    if parts.project is None:
        return found
    return [*found, *tail_scratch(parts.project, inputs, [block.y.storage(FLOAT32)])]


def bind(call: Call, block: SeparableBlock, parts: Parts) -> Run:
    """The function that runs a block with the inputs of a SeparableBlock, or this worker's part of it."""
    call = _with_tiles(call, block)
    if parts.project is not None and call.inputs[FLOOR] is not None:
        call, parts = _without_floor(call, parts)
    count = max(scratch_count(op) for op in parts.inside)
    columns, r, o, filtered = call.scratch[:4]
    buffers = _Buffers(columns, r, o, filtered, call.scratch[4 : 4 + count])
    split = block.split
    steps: List[Step] = clear_borders(call, block.y)
    steps += [copy(buffers.r[-1], ONE), copy(buffers.filtered[:, -1], ONE)]
    former = ""
    for rows in call.mine(block.strips(call.workers)):
        pieces, strip = [block.piece(rows, plane) for plane in range(PLANES)], rows.strip(block.y)
        places = f"{strip.size} {[piece.place for piece in pieces]}"
        if parts.expand is not None:
            if places != former:
                steps += _mark(call, block, strip, pieces, places, buffers)
            steps += _gather(call, block, split, strip, pieces, places == former, buffers)
        former = places
        for group in block.groups:
            if parts.expand is None:
                steps += _met(call, block, strip, pieces, group, buffers)
            else:
                steps += _expand(call, block, strip, group, InnerActivation(parts.expand, buffers.temporaries), buffers)
            activation = InnerActivation(parts.depthwise, buffers.temporaries, _floor(call, group))
            steps += _filter(call, block, strip, group, activation, buffers)
        if parts.project is not None:
            last = twin_of(call.of(parts.project))
            last.inputs = [None, None, None, *call.inputs[7:9]]
            steps += _project(call, block, strip, buffers)
            steps += finish(last, Target(block.y, strip))
        steps += clear(call, block.y, strip)
    return in_turn(steps)


def bind_alone(call: Call, block: SeparableBlock) -> Run:
    """The function that runs a depthwise convolution without others."""
    inner = twin_of(call)
    inner.inputs = [None] * len(INPUTS)
    inner.inputs[0], inner.inputs[3] = call.inputs[:2]
    inner.inputs[4] = call.inputs[2] if len(call.inputs) > 2 else None
    inner.inputs[FLOOR] = call.inputs[4] if len(call.inputs) > 4 else None
    return bind(inner, block, Parts(None, call.op, None))


def _with_tiles(call: Call, block: SeparableBlock) -> Call:
    """X, the addend and Y as ``Tiles`` have them."""
    turned = twin_of(call)
    turned.inputs, turned.outputs = list(call.inputs), [in_tiles(call.outputs[0], block.to)[0]]
    for at, layout in ((0, block.of), (7, block.to)):
        if layout is not None and call.inputs[at] is not None:
            turned.inputs[at] = in_tiles(call.inputs[at], layout)[0]
    return turned


def _without_floor(call: Call, parts: Parts) -> Tuple[Call, Parts]:
    """The same with ReLU where the depthwise convolution has one floor for each channel: max(v, floor) is
    relu(v - floor) + floor, and what is added goes through the next convolution into its bias."""
    floor, (b, weights, c) = call.inputs[FLOOR].reshape(-1), call.inputs[4:7]
    turned = twin_of(call)
    turned.inputs = list(call.inputs)
    turned.inputs[4] = call.packed("bias less floor", lambda: -floor if b is None else b - floor)
    turned.inputs[6] = call.packed("project's bias and floor", lambda: bias_behind(floor, weights, c))
    turned.inputs[FLOOR] = None
    return turned, parts._replace(depthwise=parts.depthwise.with_args(activation="Relu"))


def _floor(call: Call, group: slice) -> Optional[Array]:
    """The floor of a group of channels, None if there is none."""
    floor = call.inputs[FLOOR]
    return None if floor is None else floor.reshape(-1)[group]


def _mark(
    call: Call, block: SeparableBlock, strip: Strip, pieces: Sequence[Piece], places: str, buffers: _Buffers
) -> Iterator[Step]:
    """The last row of the columns of all planes."""
    row = buffers.columns[:, -1, : rounded(strip.size + block.margin)]
    yield copy(row, call.packed(f"inside {places}", lambda: _inside(row, pieces, block.pitch)))


def _gather(
    call: Call,
    block: SeparableBlock,
    split: Optional[PhaseSplit],
    strip: Strip,
    pieces: Sequence[Piece],
    again: bool,
    buffers: _Buffers,
) -> Iterator[Step]:
    """The other rows of the columns. again: whether the pieces of the strip before lay at the same places, so that what
    is outside of the image is zero already, unless a split image has been copied there."""
    pitch, columns = block.pitch, buffers.columns[:, :-1, : rounded(strip.size + block.margin)]
    if block.x is not None and block.x_follows:
        yield from _runs(call.inputs[0], block.x, strip.size + block.margin, pieces, columns)
        return
    if split is not None:
        yield from _windows(call, split, block, pieces, columns, buffers)
    for piece, plane in zip(pieces, columns):
        begin, end = piece.above * pitch, (piece.above + piece.end - piece.begin) * pitch
        grid = _grid(plane, piece, pitch)
        outside = [] if again else [plane[:, :begin], plane[:, end:]]
        if not again or split is not None:
            outside.append(grid[..., piece.columns :])
        yield from (copy(part, ZERO) for part in outside if part.size)
        if block.x is not None:
            yield copy(grid[..., : piece.columns], _pixels(call.inputs[0], block.x, piece).transpose(2, 0, 1))


def _windows(
    call: Call,
    split: PhaseSplit,
    block: SeparableBlock,
    pieces: Sequence[Piece],
    columns: Array,
    buffers: _Buffers,
) -> Iterator[Step]:
    """Columns, (planes, K, positions), from a plain image."""
    assert block.expand is not None
    memory, begin = buffers.o.reshape(-1), min(piece.begin for piece in pieces)
    rows = slice(begin, max(begin, *(piece.end for piece in pieces)))
    yield from split.fill(call.inputs[0][pieces[0].image], memory, rows)
    for piece, plane in zip(pieces, columns):
        grid = _grid(plane, piece, block.pitch)
        taps = grid.reshape(*block.expand.window.kernel, split.channels, *grid.shape[1:])
        yield from split.meet(memory, piece.phase, taps, piece.begin - begin)


def _inside(planes: Array, pieces: Sequence[Piece], pitch: int) -> Array:
    """Like ``planes``, (planes, positions), one for every position inside of the image, zero for the others."""
    ones = np.zeros_like(planes)
    for piece, plane in zip(pieces, ones):
        _grid(plane, piece, pitch)[..., : piece.columns] = 1
    return ones


def _grid(plane: Array, piece: Piece, pitch: int) -> Array:
    """The rows of a piece: (..., positions) -> (..., rows, pitch)."""
    begin, rows = piece.above * pitch, piece.end - piece.begin
    return plane[..., begin : begin + rows * pitch].reshape(*plane.shape[:-1], rows, pitch)


def _runs(memory: Array, x: Tiles, count: int, pieces: Sequence[Piece], columns: Array) -> Iterator[Step]:
    """Columns from X that has the same positions, with the zeros around the image; two planes are of the same rows."""
    for number in range(0, PLANES, 2):
        image, (py, _), begin, _, _, above = pieces[number]
        first = x.guard + (image * x.rows + begin - above) * x.pitch
        yield copy(columns[number : number + 2, :, :count], memory[py, :, first : first + count].transpose(0, 2, 1))
    if count < columns.shape[2]:
        yield copy(columns[..., count:], ZERO)


def _pixels(memory: Array, x: Tiles, piece: Piece) -> Array:
    """The pixels of a piece of X: (rows, columns, C)."""
    py, px = piece.phase
    step = 2 // x.tile
    pixels = x.pixels(memory, (py % x.tile, px % x.tile))[piece.image, py // x.tile :: step, px // x.tile :: step]
    return pixels[piece.begin : piece.end, : piece.columns]


def _met(
    call: Call, block: SeparableBlock, strip: Strip, pieces: Sequence[Piece], group: slice, buffers: _Buffers
) -> Iterator[Step]:
    """The first rows of R from X."""
    assert block.x is not None
    count, inside = group.stop - group.start, rounded(strip.size + block.margin)
    planes = buffers.r[:PLANES, : count * inside].reshape(PLANES, count, inside)
    yield from _runs(call.inputs[0][..., group], block.x, strip.size + block.margin, pieces, planes)


def _expand(
    call: Call, block: SeparableBlock, strip: Strip, group: slice, activation: InnerActivation, buffers: _Buffers
) -> Iterator[Step]:
    """The first rows of R from the columns."""
    factor = activation.factor
    weights = call.packed(f"expand {group}", lambda: factor * _with_bias(call.inputs[1], call.inputs[2], group)).T
    count, inside = len(weights), rounded(strip.size + block.margin)
    between = buffers.r[:PLANES, : count * inside].reshape(PLANES, count, inside)
    yield from _multiply(weights, buffers.columns[..., :inside], between)
    yield from activation.steps(between)


def _filter(
    call: Call, block: SeparableBlock, strip: Strip, group: slice, activation: InnerActivation, buffers: _Buffers
) -> Iterator[Step]:
    """What is filtered of a group of channels, from R."""
    kind, count, factor = block.toeplitz, group.stop - group.start, activation.factor
    key = f"filter {kind} {group}"
    matrices = call.packed(key, lambda: factor * kind.matrices(*_filters(call.inputs[3], call.inputs[4], group)))
    inside, filtered = rounded(strip.size + block.margin), rounded(strip.size)
    products = buffers.o[:, : count * filtered]
    yield from kind.multiply(matrices, buffers.r[:, : count * inside], products, block.pitch)
    results = products[kind.results].reshape(kind.planes, count, filtered)
    if block.projects:
        yield from activation.steps(results, buffers.filtered[:, group, :filtered])
        return
    planes = body(call.outputs[0], block.y, strip)[..., group].swapaxes(2, 3)
    yield from activation.steps(results, planes.reshape(kind.planes, count, strip.size))


def _multiply(weights: Array, columns: Array, out: Array) -> Iterator[Step]:
    """out = weights @ columns, in groups of positions so small that no product is packed."""
    positions = columns.shape[-1]
    for begin, end in ranges(-(-positions // VECTOR), max(1, SMALL_PRODUCT // weights.size // VECTOR)):
        part = slice(begin * VECTOR, min(end * VECTOR, positions))
        yield multiply(weights, columns[..., part], out[..., part])


def _project(call: Call, block: SeparableBlock, strip: Strip, buffers: _Buffers) -> Iterator[Step]:
    """Y from what is filtered."""
    y, side = body(call.outputs[0], block.y, strip), block.toeplitz.side
    planes = [
        (y[divmod(number, side)], buffers.filtered[number, :, : strip.size]) for number in range(block.toeplitz.planes)
    ]
    if isinstance(block.to, Planes):
        weights = call.packed("project turned", lambda: _with_bias(call.inputs[5], call.inputs[6])).T
        for target, results in planes:
            yield from _multiply(weights, results, target.T)
        return
    panels = Panels.of(call, "project", strip.size, call.inputs[5], lambda w: _with_bias(w, call.inputs[6]))
    for target, results in planes:
        yield from panels.multiply(results.T[None], target[None])


def _with_bias(weights: Array, bias: Any, filters: slice = slice(None)) -> Array:
    """The matrix of a convolution, rows (kh, kw, C) and one more: (K + 1, M)."""
    m = weights.shape[0]
    row = np.zeros((1, m), weights.dtype) if bias is None else bias[None]
    return np.ascontiguousarray(np.concatenate([weights.transpose(2, 3, 1, 0).reshape(-1, m), row])[:, filters])


def _filters(weights: Array, bias: Any, channels: slice) -> Sequence[Array]:
    """The kernels (C, kernel, kernel) and biases (C) of some channels."""
    bias = np.zeros(weights.shape[0], weights.dtype) if bias is None else bias
    return weights[channels, 0], bias[channels]
