"""What follows the products of a convolution between blobs in tiles: bias, addend, activation, clearing.

Each is a pass over a strip, which is cached. All passes but the last work in place; the last one writes where the
results belong. That is the same memory, or, where positions lie further apart there (a slice of the channels of a wider
blob), other memory: then the products lie without gaps, so that all other passes run over long rows:

    flat     (tile, tile, elements of a block)     a number for each channel is laid out along the block once
    sliced   (tile, tile, positions, channels)     broadcast
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.blocks import BLOCK, blocks
from runtime_arm.engines import tiled
from runtime_arm.engines.epilogue import Activation, addend_of
from runtime_arm.engines.steps import Step, copy
from runtime_arm.kernel import Call
from runtime_arm.layouts import Strip, Tiles
from runtime_arm.netdef import Array
from runtime_arm.operators.elementwise_kernels import level

CLIPS_FAST = np.lib.NumpyVersion(np.__version__) >= "2.0.0"  # before, two comparisons are faster than np.clip

Pass = Callable[[Array, Array], Iterator[Step]]  # from, to: (tile, tile, positions, channels)


def finish(call: Call, layout: Tiles, strip: Strip, passes: Sequence[Pass], products: Optional[Array] = None,
           channels: slice = slice(None), addend_at: int = 3) -> List[Step]:
    """The steps behind the products of a strip of output 0: these passes, the addend, the activation, clearing.

    products: where they lie, if not in the output. channels: those of the output that they are. addend_at: the input
    that is added; the next one is PRelu's slope.
    """
    memory = call.outputs[0][..., channels]
    results = tiled.body(memory, layout, strip)
    if products is None:
        products = results
    everything = [*passes, *_tail(call, layout, strip, products, channels, addend_at)]
    steps: List[Step] = []
    for one in everything[:-1]:
        steps += one(products, products)
    if everything:
        steps += everything[-1](products, results)
    elif products is not results:
        steps.append(copy(results, products))
    return [*steps, *(copy(view, tiled.ZERO) for view in layout.outside(memory, strip))]


def bias(call: Call, channels: slice = slice(None)) -> List[Pass]:
    """The pass that adds input 2, if there is one."""
    vector = call.inputs[2] if len(call.inputs) > 2 else None
    return [] if vector is None else [by_channel(np.add, vector[channels])]


def by_channel(ufunc: Any, vector: Array) -> Pass:
    """A pass with one number for each channel, for any number of strips."""
    repeated: Dict[int, Array] = {}

    def steps(source: Array, target: Array) -> Iterator[Step]:
        flat = _flat(source, target)
        if flat is None:
            yield partial(ufunc, source, vector, out=target)
            return
        count = max(1, min(BLOCK // vector.size, source.shape[2]))
        row = repeated.setdefault(count, np.tile(vector, count))
        for of, to in _blocks(flat[0], flat[1], row.size):
            yield partial(ufunc, of, row[: of.shape[-1]], out=to)

    return steps


def _tail(call: Call, layout: Tiles, strip: Strip, products: Array, channels: slice, at: int) -> Iterator[Pass]:
    addend = addend_of(call, at)
    if addend is not None:
        yield partial(_add, tiled.body(addend, layout, strip)[..., channels])
    activation = Activation(call, at + 1, products, -1, channels)
    if len(activation.limits) == 2 and CLIPS_FAST:
        yield partial(_clip, *(np.array(value, products.dtype) for _, value in activation.limits))
    elif activation.limits:
        yield from (partial(_limit, *limit) for limit in activation.limits)
    elif activation:
        yield partial(_apply, activation)


def _add(addend: Array, source: Array, target: Array) -> Iterator[Step]:
    flat = _flat(source, addend, target)
    of, other, to = flat or (source, addend, target)
    yield partial(np.add, of, other, out=to)


def _clip(low: Array, high: Array, source: Array, target: Array) -> Iterator[Step]:
    of, to = _flat(source, target) or (source, target)
    yield partial(np.clip, of, low, high, out=to)


def _limit(bound: Any, value: float, source: Array, target: Array) -> Iterator[Step]:
    """Two arrays are compared with SIMD by every NumPy, an array and a number by some."""
    flat = _flat(source, target)
    if flat is None:
        yield partial(bound, source, np.full(source.shape[-1], value, source.dtype), out=target)
        return
    for of, to in _blocks(flat[0], flat[1], BLOCK):
        yield partial(bound, of, level(value, of[0, 0]), out=to)


def _apply(activation: Activation, source: Array, target: Array) -> Iterator[Step]:
    """Formulas have scratch for a block."""
    for plane in np.ndindex(*source.shape[:2]):
        for block in blocks(source.shape[2:]):
            index = (*plane, *block)
            yield from activation.steps(source[index], index)
    if target is not source:
        yield copy(target, source)


def _flat(*arrays: Array) -> Optional[Tuple[Array, ...]]:
    """The arrays (tile, tile, positions * channels), if their positions follow each other."""
    if any(array.strides[2] != array.shape[3] * array.itemsize for array in arrays):
        return None
    return tuple(array.reshape(*array.shape[:2], -1) for array in arrays)


def _blocks(source: Array, target: Array, size: int) -> Iterator[Tuple[Array, Array]]:
    for begin in range(0, source.shape[-1], size):
        yield source[..., begin : begin + size], target[..., begin : begin + size]
