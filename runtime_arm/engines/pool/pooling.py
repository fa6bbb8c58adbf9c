"""NUMPY kernels of the pools: first rows of pixels are combined, whole rows at a time, then columns.

The largest pixel of a window is the largest of the maxima of its columns, and sums split in the same way: that takes k
+ k operations per output instead of k * k, and the first k run over contiguous rows. The results between the two passes
stay in the cache, since the work is cut into blocks. A "plane" here is an image of one channel, or of all of them if
the channels come last.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.im2col import Block, blocks
from runtime_arm.engines.conv.operands import beyond_three, wrong_dtype
from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Index, Window
from runtime_arm.operators.pool.caffe2 import Pool, average_pool, below_all, max_pool, of_no_pixel, pool_of
from runtime_arm.operators.pool.onnx import onnx_average_pool, onnx_max_pool
from runtime_arm.records import NamedTuple
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Run, Specs, Work
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, copy, in_turn, multiply

BLOCK_NBYTES = 1 << 18  # of the results between the passes; X and Y of the block share the second-level cache with them
STRETCH = 64  # starting the next row takes a pass as long as this many elements

Range = Tuple[int, int]


class Source(NamedTuple):
    """What one tap contributes: to which outputs, and the pixels."""

    out: Index
    pixels: Array


class Planes:
    """A pool over (planes, slices, rows, columns, inner), cut into blocks; inner: 1, or the channels that come last."""

    def __init__(self, pool: Pool, itemsize: int, workers: int = 1):
        window = pool.window.in_three()
        assert window is not None
        self.pool = pool
        self.window: Window = window
        self.planes = pool.batch if pool.channels_last else pool.batch * pool.channels
        self.inner = pool.channels if pool.channels_last else 1
        self.row = window.image[2] * self.inner  # elements of a row between the two passes
        self.blocks = list(blocks(self.planes, window, self.row * itemsize, BLOCK_NBYTES, workers))

    def arrays(self, x: Array, y: Array) -> Tuple[Array, Array]:
        """X and Y in this shape."""
        return (
            x.reshape(self.planes, *self.window.image, self.inner),
            y.reshape(self.planes, *self.window.output, self.inner),
        )

    def outputs(self, block: Block) -> Tuple[slice, slice, slice]:
        """Where a block lies in Y."""
        return slice(*block.images), slice(*block.slices), slice(*block.rows)

    def size(self, block: Block) -> int:
        """Elements between the two passes."""
        return math.prod(end - begin for begin, end in block) * self.row


def _whole(window: Window) -> bool:
    """Whether there is one window, and it covers the image."""
    return set(window.output) == {1} and int(window.counts().sum()) == math.prod(window.image)


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    x = inputs[0]
    assert x is not None
    if len(outputs) > 1:
        return "the indices of the maxima are asked for"
    wrong = wrong_dtype(x) if lookup(op).kind is Kind.AVERAGE_POOL else None
    return wrong or beyond_three(pool_of(op, x).window)


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    x = inputs[0]
    assert x is not None
    planes = Planes(pool_of(op, x), x.dtype.itemsize)
    if _whole(planes.window):
        return ()
    return [TensorSpec((max(map(planes.size, planes.blocks), default=0),), x.dtype)]


def work(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    x = inputs[0]
    assert x is not None
    planes = Planes(pool_of(op, x), x.dtype.itemsize)
    if _whole(planes.window):
        return Work(0, PASS * x.size)
    window, size = planes.window, outputs[0].size
    row = max(1, window.output[2] * planes.inner)
    if window.kernel[2] == window.stride[2] and window.output[2] * window.stride[2] == window.image[2]:
        down = math.prod(window.kernel[:2]) * size * window.stride[2] * (1 + STRETCH / (row * window.stride[2]))
        return Work(0, PASS * (down + window.kernel[2] * size))  # to the second pass all rows are one
    return Work(0, PASS * sum(window.kernel) * size * (1 + STRETCH / row))


@max_pool.kernel("NUMPY", supports=supports, scratch=scratch, work=work, splits_work=True)
@onnx_max_pool.kernel("NUMPY", supports=supports, scratch=scratch, work=work, splits_work=True)
def max_pool_numpy(call: Call) -> Run:
    x = call.inputs[0]
    planes = _planes(call)
    pixels, y = planes.arrays(x, call.outputs[0])
    if _whole(planes.window):
        mine = call.slice_of(planes.planes)
        flat = pixels.reshape(planes.planes, math.prod(planes.window.image), planes.inner)[mine]
        return partial(np.maximum.reduce, flat, 1, None, y.reshape(planes.planes, planes.inner)[mine])
    empty = (planes.window.counts() == 0)[..., None]
    steps: List[Step] = []
    for block in call.mine(planes.blocks):
        steps += _passes(np.maximum, below_all(x.dtype), planes, block, pixels, y, call.scratch[0])
        if empty.any():
            nothing = of_no_pixel(x.dtype)
            steps.append(partial(np.copyto, y[planes.outputs(block)], nothing, where=empty[planes.outputs(block)[1:]]))
    return in_turn(steps)


@average_pool.kernel("NUMPY", supports=supports, scratch=scratch, work=work, splits_work=True)
@onnx_average_pool.kernel("NUMPY", supports=supports, scratch=scratch, work=work, splits_work=True)
def average_pool_numpy(call: Call) -> Run:
    x = call.inputs[0]
    planes = _planes(call)
    pixels, y = planes.arrays(x, call.outputs[0])
    factors = (1 / planes.pool.divisors).astype(x.dtype)
    if _whole(planes.window):
        count = math.prod(planes.window.image)
        weights = np.full((1, count), factors.reshape(-1)[0], x.dtype)
        mine = call.slice_of(planes.planes)
        flat, means = pixels.reshape(planes.planes, count, planes.inner)[mine], y.reshape(-1, 1, planes.inner)[mine]
        if planes.inner == 1:
            return multiply(flat[:, :, 0], weights.T, means[:, :, 0])
        return multiply(weights, flat, means)
    factors = factors.reshape(*planes.window.output, 1)
    steps: List[Step] = []
    for block in call.mine(planes.blocks):
        steps += _passes(np.add, 0, planes, block, pixels, y, call.scratch[0])
        part, scale = y[planes.outputs(block)], factors[planes.outputs(block)[1:]]
        if factors.min() == factors.max():
            scale = factors.reshape(-1)[0]
        steps.append(partial(np.multiply, part, scale, out=part))
    return in_turn(steps)


def results(call: Call) -> List[Array]:
    """The parts of Y that this worker makes."""
    planes = _planes(call)
    _, y = planes.arrays(call.inputs[0], call.outputs[0])
    return (
        [y[call.slice_of(planes.planes)]]
        if _whole(planes.window)
        else [y[planes.outputs(block)] for block in call.mine(planes.blocks)]
    )


def _planes(call: Call) -> Planes:
    spec = call.in_specs[0]
    assert spec is not None
    return Planes(pool_of(call.op, spec), spec.dtype.itemsize, call.workers)


def _passes(
    combine: np.ufunc, start: Any, planes: Planes, block: Block, x: Array, y: Array, buffer: Array
) -> Iterator[Step]:
    """Both passes over one block: slices and rows are combined into the buffer, then its columns into Y."""
    window = planes.window
    extent = [end - begin for begin, end in block]
    between = buffer[: planes.size(block)].reshape(*extent, window.image[2], planes.inner)
    target = y[planes.outputs(block)]
    if window.kernel[2] == 1 and window.output[2] == window.image[2]:
        between = target
    yield from _combine(combine, start, between, _sources(x[slice(*block.images)], window, (0, 1), block[1:]))
    if between is not target:
        yield from _combine(combine, start, target, _sources(between, window, (2,), [(0, window.output[2])]))


def _sources(x: Array, window: Window, axes: Sequence[int], ranges: Sequence[Range]) -> List[Source]:
    """The part of X that each tap of these dimensions reads, (planes, slices, rows, columns, inner), for ranges of
    outputs."""
    overlaps = [
        [window.overlap(axis, k, *range_) for k in range(window.kernel[axis])] for axis, range_ in zip(axes, ranges)
    ]
    sources = []
    for met in product(*[[overlap for overlap in taps if overlap is not None] for taps in overlaps]):
        out: List[Any] = [slice(None)] * x.ndim
        pixels = list(out)
        for axis, overlap in zip(axes, met):
            out[1 + axis], pixels[1 + axis] = overlap.out, overlap.image
        sources.append(Source(tuple(out), x[tuple(pixels)]))
    return sources


def _combine(combine: np.ufunc, start: Any, target: Array, sources: List[Source]) -> Iterator[Step]:
    """Combines all sources into the target, beginning with those that fill it."""
    sources.sort(key=lambda source: source.pixels.shape != target.shape)
    full = sum(source.pixels.shape == target.shape for source in sources)
    if full >= 2:
        yield partial(combine, sources[0].pixels, sources[1].pixels, out=target)
    elif full == 1:
        yield copy(target, sources[0].pixels)
    else:
        yield partial(target.fill, start)
    for source in sources[min(full, 2) :]:
        part = target[source.out]
        yield partial(combine, part, source.pixels, out=part)
