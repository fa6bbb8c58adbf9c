"""What follows the products of a convolution between blobs in tiles: bias, addend, activation, and perhaps a pool.

Each is a pass over products that are cached, in place, over long rows:

    (tile, tile, elements of a block)     a number for each channel is laid out along the block once

Where results lie further apart than that, in a slice of the channels of a wider blob, the products come from elsewhere,
without gaps, and a last pass copies them; with a NumPy that has no trouble with short rows that is the floor's.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.epilogue import Activation, addend_of
from runtime_arm.engines.tiled import strips as tiled
from runtime_arm.machine.caches import usual_block_nbytes
from runtime_arm.netdef import Array
from runtime_arm.registry.blocks import BLOCK, blocks
from runtime_arm.registry.kernel import Call
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.steps import ZERO, Step, copy, in_lines

if TYPE_CHECKING:
    from runtime_arm.engines.tiled.strip_pooling import Pooling

CLIPS_FAST = np.lib.NumpyVersion(np.__version__) >= "2.0.0"  # before, two comparisons are faster than np.clip

Pass = Callable[[Array], Iterator[Step]]  # in place: (tile, tile, positions, channels)
Piece = Tuple[slice, Array, Sequence[Step]]  # positions of a strip, where their products go, and the steps behind them
Landing = Tuple[Tuple[int, int], Sequence[Piece]]  # a plane of a strip, (positions, channels), piece by piece
WHOLE = (slice(None),) * 3


def finish(
    call: Call,
    layout: Tiles,
    strip: Strip,
    passes: Sequence[Pass],
    products: Optional[Array] = None,
    channels: slice = slice(None),
    part: Tuple[slice, ...] = WHOLE,
    pooling: Optional[Pooling] = None,
) -> Iterator[Step]:
    """The steps behind the products of a strip of output 0: these passes, the addend, the activation.

    products: where they lie, if not in the output. channels, part: those of the output, and of the tiles and positions
    of the strip, that they are. pooling: what makes results of products that lie elsewhere; nothing is added to them
    then.
    """
    results = tiled.body(call.outputs[0][..., channels], layout, strip)[part]
    if products is None:
        products = results
    if pooling is not None and pooling.comes_first(call.op):
        yield from pooling.steps(products, results)
        products = results
    for one in passes:
        yield from one(products)
    addend = addend_of(call)
    if addend is not None:
        yield from _add(tiled.body(addend, layout, strip)[..., channels][part], products)
    activation = Activation(call, products, -1, channels)
    floor = activation.floor
    if floor is None:
        yield from _activate(activation, products)
    else:
        to = products if tiled.COPIES_ROWS else results
        yield from call.packed(f"floor {channels}", lambda: by_channel(np.maximum, floor))(to, products)
        products = to
    if products is not results:
        yield from [copy(results, products)] if pooling is None else pooling.steps(products, results)


def in_place(
    call: Call, layout: Tiles, strip: Strip, passes: Sequence[Pass], channels: slice = slice(None)
) -> Iterator[Landing]:
    """Straight into output 0; what follows comes in the end for all planes."""
    results = tiled.body(call.outputs[0][..., channels], layout, strip)
    planes = list(np.ndindex(*results.shape[:2]))
    for plane in planes:
        then = list(finish(call, layout, strip, passes, channels=channels)) if plane == planes[-1] else []
        yield plane, [(slice(None), results[plane], then)]


def has_gaps(pixels: Array) -> bool:
    """Whether (..., positions, channels) is a slice of the channels of something wider."""
    return bool(pixels.strides[-2] != pixels.shape[-1] * pixels.itemsize)


def bias(call: Call, channels: slice = slice(None)) -> List[Pass]:
    """The pass that adds input 2, if there is one."""
    vector = call.inputs[2] if len(call.inputs) > 2 else None
    return [] if vector is None else [by_channel(np.add, vector[channels])]


def by_channel(ufunc: Any, vector: Array) -> Callable[..., Iterator[Step]]:
    """A pass with one number for each channel, for any number of strips; it may read what it combines elsewhere."""
    repeated: Dict[int, Array] = {}

    def steps(products: Array, source: Optional[Array] = None) -> Iterator[Step]:
        source = products if source is None else source
        if has_gaps(products) or has_gaps(source):
            yield partial(ufunc, source, vector, out=products)
            return
        count = max(1, min(BLOCK // vector.size, products.shape[2]))
        if count not in repeated:
            repeated[count] = in_lines(np.tile(vector, count))
        row = repeated[count]
        for to, of in zip(_blocks(_flat(products), row.size), _blocks(_flat(source), row.size)):
            yield partial(ufunc, of, row[: of.shape[-1]], out=to)

    return steps


def _add(addend: Array, products: Array) -> Iterator[Step]:
    if not (has_gaps(products) or has_gaps(addend)):
        products, addend = _flat(products), _flat(addend)
    yield partial(np.add, products, addend, out=products)


def _activate(activation: Activation, products: Array) -> Iterator[Step]:
    whole = products if has_gaps(products) else _flat(products)
    if len(activation.limits) == 2 and CLIPS_FAST:
        yield partial(whole.clip, *(np.array(value, whole.dtype) for _, value in activation.limits), out=whole)
    elif activation.limits:
        for part in _blocks(whole, _longest_row()):
            for bound, value in activation.limits:
                row = _row_of(value)[: part.shape[2]] if part.ndim == 3 else np.float32(value)
                yield partial(bound, part, row, out=part)
    elif activation:
        for plane in np.ndindex(*products.shape[:2]):
            for block in blocks(products.shape[2:]):
                index = (*plane, *block)
                yield from activation.steps(products[index], index)


@lru_cache(None)
def _longest_row() -> int:
    """Elements of rows of one number, which all share: a quarter of a block, beside which they stay cached."""
    return max(BLOCK, usual_block_nbytes() // 4 // ZERO.itemsize)


@lru_cache(8)
def _row_of(value: float) -> Array:
    """Two arrays are compared with SIMD by every NumPy, an array and a number by some."""
    row = in_lines(np.full(_longest_row(), value, np.float32))
    row.flags.writeable = False
    return row


def _flat(pixels: Array) -> Array:
    return pixels.reshape(*pixels.shape[:2], -1)


def _blocks(flat: Array, size: int) -> Iterator[Array]:
    for begin in range(0, flat.shape[-1], size):
        yield flat[..., begin : begin + size]
