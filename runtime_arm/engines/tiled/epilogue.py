"""The passes after a convolution's products between blobs in tiles: bias, addend, activation, perhaps a max pool.

Each is a pass, in place, over products that are in the cache. Passes run over long rows of numbers: the positions and
channels of a plane are one axis, and a vector with one number for each channel is repeated along a row once.

In a slice of the channels of a wider blob there are gaps between positions and no long rows. So the products are
computed elsewhere, without gaps, and a last pass copies them. If that pass is the activation's and NumPy is fast at
short rows, no copy is needed (see ``strips.COPIES_ROWS``).
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv import axpy
from runtime_arm.engines.conv.epilogue import Activation, addend_of
from runtime_arm.engines.conv.operands import bias_of
from runtime_arm.engines.tiled.strip_pooling import Pooling
from runtime_arm.engines.tiled.strips import COPIES_ROWS, EVERYTHING, Target
from runtime_arm.machine.caches import usual_block_nbytes
from runtime_arm.netdef import Array
from runtime_arm.operators.common.copying import are_same
from runtime_arm.operators.common.formulas import CLIPS_FAST
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import BLOCK, blocks
from runtime_arm.registry.kernel import Call
from runtime_arm.registry.steps import ZERO, Step, clip, copy, in_lines, in_turn, shaped

Pass = Callable[[Array], Iterator[Step]]  # in place: (tile, tile, positions, channels)


class Piece(NamedTuple):
    """Some positions of a strip in one plane: where their products go, (positions, channels), the steps that follow the
    products, and those that come before them, to put into their place what they are added to."""

    positions: slice
    products: Array
    then: Sequence[Step]
    before: Sequence[Step] = ()


class Landing(NamedTuple):
    """The products of a strip in one plane, piece by piece; the kernel computes them in this order."""

    plane: Tuple[int, int]
    pieces: Sequence[Piece]


def finish(
    call: Call,
    target: Target,
    passes: Sequence[Pass] = (),
    products: Optional[Array] = None,
    pooling: Optional[Pooling] = None,
    added: bool = False,
) -> Iterator[Step]:
    """The steps that follow the products: these passes, then what the operator says: addend and activation.

    target: what of output 0 is finished. products: where its products lie, if that is not there. pooling: what makes
    the output of them, if they are to be pooled; nothing is added to them then. added: whether bias and addend are in
    the products already.
    """
    results = target.of(call.outputs[0])
    if products is None:
        products = results
    if pooling is not None and pooling.comes_first(call.op):
        yield from pooling.steps(products, results)
        products = results
    if not added:
        for one in passes:
            yield from one(products)
        addend = addend_of(call)
        if addend is not None:
            yield from _add(target.of(addend), products)
    activation = Activation(call, products, -1, target.channels)
    floor = activation.floor
    if floor is None:
        yield from _activate(activation, products)
    else:
        to = products if COPIES_ROWS else results
        yield from call.packed(f"floor {target.channels}", lambda: by_channel(np.maximum, floor))(to, products)
        products = to
    if products is not results:
        yield from [copy(results, products)] if pooling is None else pooling.steps(products, results)


def has_summands(call: Call) -> bool:
    """Whether the operator adds a bias or an addend to its products."""
    return bias_vector(call) is not None or addend_of(call) is not None


def summands(call: Call, target: Target, products: Array) -> List[Step]:
    """The steps that put what the products are added to into their place: bias, addend, or their sum."""
    vector, addend = bias_vector(call, target.channels), addend_of(call)
    if addend is None:
        assert vector is not None
        return list(call.packed(f"bias {target.channels}", lambda: repeated(vector))(products))
    of = target.of(addend)
    if vector is not None:
        return list(call.packed(f"bias and {target.channels}", lambda: by_channel(np.add, vector))(products, of))
    if are_same(products, of):
        return []
    return [copy(products, of) if has_gaps(of) else copy(_flat(products), _flat(of))]


def in_place(call: Call, target: Target, passes: Sequence[Pass], adds: bool = False) -> Iterator[Landing]:
    """Straight into output 0; what follows comes behind the last plane, for all of them at once. adds: whether products
    are added to what lies in their place."""
    results = target.of(call.outputs[0])
    planes = list(np.ndindex(*results.shape[:2]))
    for plane in planes:
        then = list(finish(call, target, passes, added=adds)) if plane == planes[-1] else []
        before = summands(call, target, results) if adds and plane == planes[0] else []
        yield Landing(plane, [Piece(EVERYTHING, results[plane], then, before)])


def in_pieces(
    call: Call, target: Target, passes: Sequence[Pass], most: int, buffer: Array, adds: bool = False
) -> Iterator[Landing]:
    """By way of a buffer, at most so many positions at a time: for a slice."""
    tile, size = target.layout.tile, target.strip.size
    width = call.outputs[0][..., target.channels].shape[-1]
    for py, px in np.ndindex(tile, tile):
        pieces: List[Piece] = []
        for begin in range(0, size, most):
            positions = slice(begin, min(begin + most, size))
            products = shaped(buffer, 1, 1, positions.stop - begin, width)
            part = target._replace(part=(slice(py, py + 1), slice(px, px + 1), positions))
            before = summands(call, part, products) if adds else []
            then = list(finish(call, part, passes, products, added=adds))
            pieces.append(Piece(positions, products[0, 0], then, before))
        yield Landing((py, px), pieces)


def pooled(call: Call, target: Target, passes: Sequence[Pass], pooling: Pooling, buffer: Array) -> Iterator[Landing]:
    """By way of a buffer for the products that make one plane of output 0; they are pooled when all of them are
    there."""
    tile = target.layout.tile
    width = call.outputs[0][..., target.channels].shape[-1]
    products = shaped(buffer, *pooling.kernel, target.strip.size, width)
    for py, px in np.ndindex(tile, tile):
        part = target._replace(part=(slice(py, py + 1), slice(px, px + 1), EVERYTHING))
        for ky, kx in np.ndindex(*pooling.kernel):
            is_last = (ky + 1, kx + 1) == pooling.kernel
            then = list(finish(call, part, passes, products, pooling)) if is_last else []
            plane = py * pooling.stride + ky, px * pooling.stride + kx
            yield Landing(plane, [Piece(EVERYTHING, products[ky, kx], then)])


def has_gaps(pixels: Array) -> bool:
    """Whether (..., positions, channels) is a slice of the channels of something wider."""
    return bool(pixels.strides[-2] != pixels.shape[-1] * pixels.itemsize)


def bias(call: Call, channels: slice = EVERYTHING) -> List[Pass]:
    """The pass that adds input 2, if there is one."""
    vector = bias_vector(call, channels)
    return [] if vector is None else [by_channel(np.add, vector)]


def bias_vector(call: Call, channels: slice = EVERYTHING) -> Optional[Array]:
    """Input 2, one number for each of these channels; None without one."""
    vector = bias_of(call)
    return None if vector is None else vector[channels]


def by_channel(ufunc: Any, vector: Array) -> Callable[..., Iterator[Step]]:
    """A pass with one number for each channel. ``steps(products, source=products)``: products = ufunc(source, vector);
    it can be used for many strips."""
    if ufunc is np.add and axpy.pays():
        return _pass_along(vector, _add_rows)
    return _pass_along(vector, partial(_apply, ufunc))


def _apply(ufunc: Any, to: Array, of: Array, row: Array) -> Step:
    """to = ufunc(of, row)"""
    if _is_same_place(to, of):
        from runtime_arm.registry.in_place import updates

        return in_turn(updates(ufunc, to, row))
    return partial(ufunc, of, row, out=to)


def _is_same_place(to: Array, of: Array) -> bool:
    return bool(to.__array_interface__["data"] == of.__array_interface__["data"])


def _add_rows(to: Array, of: Array, row: Array) -> Step:
    """to = of + row, by one call a row if that adds in place."""
    if (to.ndim > 1 and has_gaps(to)) or not _is_same_place(to, of):
        return _apply(np.add, to, of, row)
    return in_turn([axpy.add(to[place], row) for place in np.ndindex(*to.shape[:-1])])


def repeated(vector: Array) -> Callable[..., Iterator[Step]]:
    """A pass as those of ``by_channel``: every pixel of the products becomes the vector."""
    return _pass_along(vector, lambda to, of, row: copy(to, row))


def _pass_along(vector: Array, step: Callable[[Array, Array, Array], Step]) -> Callable[..., Iterator[Step]]:
    """step(to, of, row): what is done with a part of the products, of the source, and the vector for each pixel."""
    rows: Dict[int, Array] = {}

    def steps(products: Array, source: Optional[Array] = None) -> Iterator[Step]:
        source = products if source is None else source
        if has_gaps(products) or has_gaps(source):
            yield step(products, source, vector)
            return
        count = max(1, min(BLOCK // vector.size, products.shape[2]))
        if count not in rows:
            rows[count] = in_lines(np.tile(vector, count))
        row, (to, of) = rows[count], map(_flat, (products, source))
        whole = to.shape[2] // row.size * row.size
        if whole:
            lines = *to.shape[:2], -1, row.size
            target, met = (_without_ones(flat[..., :whole].reshape(lines)) for flat in (to, of))
            yield step(target, met, row)
        if whole < to.shape[2]:
            target, met = (_without_ones(flat[..., whole:]) for flat in (to, of))
            yield step(target, met, row[: to.shape[2] - whole])

    return steps


def _add(addend: Array, products: Array) -> Iterator[Step]:
    if not (has_gaps(products) or has_gaps(addend)):
        products, addend = _flat(products), _flat(addend)
    yield from axpy.add_planes(products, addend)


def _activate(activation: Activation, products: Array) -> Iterator[Step]:
    from runtime_arm.registry.in_place import parts, updates

    whole = products if has_gaps(products) else _flat(products)
    if len(activation.limits) == 2 and CLIPS_FAST:
        (_, low), (_, high) = activation.limits
        for index in parts(whole):
            yield clip(whole[index], low, high, whole[index])
    elif activation.limits:
        for part in rows_of(whole, longest_row()):
            for bound, value in activation.limits:
                row = row_of(value)[: part.shape[2]] if part.ndim == 3 else np.asarray(np.float32(value))
                yield from updates(bound, _without_ones(part), row)
    elif activation:
        for plane in np.ndindex(*products.shape[:2]):
            for block in blocks(products.shape[2:]):
                index = (*plane, *block)
                yield from activation.steps(products[index], index)


@lru_cache(None)
def longest_row() -> int:
    """Elements of the rows of one number, which all operators share: a quarter of a block, so that they stay in the
    cache beside one."""
    return max(BLOCK, usual_block_nbytes() // 4 // ZERO.itemsize)


@lru_cache(8)
def row_of(value: float) -> Array:
    """A row full of one number: every NumPy compares two arrays with SIMD, only some an array and a number."""
    row = in_lines(np.full(longest_row(), value, np.float32))
    row.flags.writeable = False
    return row


def _without_ones(lines: Array) -> Array:
    """Without axes of 1 before the last one: NumPy takes less time for operands of equal shapes."""
    return lines.squeeze(tuple(axis for axis, size in enumerate(lines.shape[:-1]) if size == 1))


def _flat(pixels: Array) -> Array:
    """(tile, tile, positions * channels)"""
    return pixels.reshape(*pixels.shape[:2], -1)


def rows_of(flat: Array, size: int) -> Iterator[Array]:
    """Parts of at most this many elements of the last axis."""
    for begin in range(0, flat.shape[-1], size):
        yield flat[..., begin : begin + size]
