"""PHASES: max-pooling with offsets, and its gradient, over an image that is cut apart by the strides of the window.

A phase holds the pixels whose positions have the same remainder when divided by the stride, as an image of its own. The
pixels that a tap of the window reads for all outputs then follow each other in one phase, so every step runs over whole
blocks without gaps: all phases have the same padding, and a tap begins some elements further on.

    X -> phases;  Y = the largest over the taps;  offset = the first tap with tap = Y
    dY -> padded; phase of the tap += dY where the offset is the tap's;  phases -> dX

The first tap is found with bytes alone: the largest of 255 - tap where the tap equals Y, else 0.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.operands import beyond_three, wrong_dtype
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.pool.caffe2 import Pool, below_all, pool_of
from runtime_arm.operators.pool.offsets import first_taps, max_pool_offsets_gradient, max_pool_with_offsets
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, copy, in_turn, margins, shaped

BLOCK_NBYTES = 1 << 19  # of the phases of a block
NO_TAP = 255  # taps count down from it

Range = Tuple[int, int]


class Phases:
    """A pool over (planes, slices, rows, columns, inner), in phases; inner: 1, or the channels that come last.

    taps: for each tap that falls on the image its phase, and the elements between an output and the tap's pixel.
    padded: the shape of a plane of a phase. most: the planes of a block. reach: the most elements that a tap is away.
    """

    def __init__(self, pool: Pool, itemsize: int, workers: int = 1) -> None:
        window = pool.window.in_three()
        assert window is not None
        self.window: Window = window
        self.inner = pool.channels if pool.channels_last else 1
        planes = pool.batch if pool.channels_last else pool.batch * pool.channels
        taps = [tap.kernel[1:] for tap in window.taps()]
        places = [[k * d - pad for k, d, pad in zip(tap, window.dilation, window.head)] for tap in taps]
        steps = np.floor_divide(places, window.stride)
        low, high = steps.min(axis=0), steps.max(axis=0)
        output = [int(n) for n in high - low + window.output]
        self.padded = (*output, self.inner)
        one, head = (1, 1, 1), tuple(int(n) for n in -low * window.stride)
        self._cut = Window(window.image, window.stride, window.stride, one, head, (0, 0, 0), tuple(output))
        remainders = [tuple(int(n) for n in row) for row in np.mod(places, window.stride)]
        self.phases = sorted(set(remainders))
        away = (steps - low) @ [math.prod(self.padded[axis + 1 :]) for axis in range(3)]
        self.taps = [(self.phases.index(phase), int(n)) for phase, n in zip(remainders, away)]
        self.reach = int(away.max())
        self.size = math.prod(self.padded)
        self.planes = planes
        self.most = max(1, min(planes, BLOCK_NBYTES // (len(self.phases) * self.size * itemsize)))
        self.blocks = ranges(planes, self.most, workers)

    def image(self, x: Array) -> Array:
        """X, or dX, as (planes, *image, inner)."""
        return x.reshape(self.planes, *self.window.image, self.inner)

    def outputs(self, y: Array) -> Array:
        """Y, dY or the offsets as (planes, *output, inner)."""
        return y.reshape(self.planes, *self.window.output, self.inner)

    def inside(self, padded: Array) -> Array:
        """The outputs in an array (planes, *padded)."""
        a, b, c = self.window.output
        return padded[:, :a, :b, :c]

    def pixels(self, image: Array, phase: Array, at: int) -> Optional[Tuple[Array, Array, Tuple[slice, ...]]]:
        """The pixels of a phase in the image and in the phase, and where in it; None if there are none."""
        met = [self._cut.overlap(axis, remainder) for axis, remainder in enumerate(self.phases[at])]
        overlaps = [overlap for overlap in met if overlap is not None]
        if len(overlaps) < len(met):
            return None
        inside = tuple(overlap.out for overlap in overlaps)
        of_image: Tuple[slice, ...] = (slice(None), *[overlap.image for overlap in overlaps])
        of_phase: Tuple[slice, ...] = (slice(None), *inside)
        return image[of_image], phase[of_phase], (*inside, slice(0, self.inner))

    @property
    def covers(self) -> bool:
        """Whether every pixel is in some phase, so that none is left out."""
        covered = 0
        for phase in self.phases:
            met = [self._cut.overlap(axis, remainder) for axis, remainder in enumerate(phase)]
            covered += math.prod(0 if one is None else one.out.stop - one.out.start for one in met)
        return covered == math.prod(self.window.image)


def _phases(op: OperatorDef, x: TensorSpec, workers: int = 1) -> Phases:
    return Phases(pool_of(op, x), x.dtype.itemsize, workers)


def _refusal(op: OperatorDef, x: TensorSpec, output: TensorSpec) -> Optional[str]:
    window = pool_of(op, x).window
    wrong = wrong_dtype(x) or beyond_three(window)
    if wrong is not None:
        return wrong
    if math.prod(window.kernel) > NO_TAP:
        return f"a window must have at most {NO_TAP} pixels"
    return None if output.size and next(window.taps(), None) else "there is nothing to pool"


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    x = inputs[0]
    assert x is not None
    refused = _refusal(op, x, outputs[0])
    if refused is None and pool_of(op, x).window.counts().min() == 0:
        return "a window has no pixels"
    return refused


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """The phases of a block, its outputs, its offsets, the offset of a tap, and where it is the largest."""
    x = inputs[0]
    assert x is not None
    phases = _phases(op, x)
    size = phases.most * phases.size
    padded = [TensorSpec((n * size,), x.dtype) for n in (len(phases.phases), 1)]
    return [*padded, *[TensorSpec((size,), np.uint8)] * 2, TensorSpec((size,), np.bool_)]


@max_pool_with_offsets.kernel("PHASES", supports=supports, scratch=scratch, splits_work=True)
def max_pool_by_phases(call: Call) -> Run:
    x = call.in_specs[0]
    assert x is not None
    phases = _phases(call.op, x, call.workers)
    image = phases.image(call.inputs[0])
    y, offsets = (phases.outputs(output) for output in call.outputs)
    least = first_taps(phases.window)[..., None]  # padding equals minus infinity
    pooling: Dict[int, List[Step]] = {}  # by the number of planes: blocks of one size share their steps
    steps: List[Step] = []
    for begin, end in call.mine(phases.blocks):
        shape = (end - begin, *phases.padded)
        if end - begin not in pooling:
            pooling[end - begin] = list(_pool(call, phases, end - begin))
        steps += [*_cut(image[begin:end], phases, call.scratch[0]), *pooling[end - begin]]
        largest, first = (phases.inside(shaped(call.scratch[at], *shape)) for at in (1, 2))
        steps += [copy(y[begin:end], largest), partial(np.maximum, first, least, out=offsets[begin:end])]
    return in_turn(steps)


def _cut(image: Array, phases: Phases, buffer: Array) -> Iterator[Step]:
    """Copies the pixels of a block into phases, padded with what no maximum is."""
    lowest = np.array(below_all(image.dtype), image.dtype)
    parts = shaped(buffer, len(phases.phases), len(image), *phases.padded)
    for at, phase in enumerate(parts):
        met = phases.pixels(image, phase, at)
        if met is None:
            yield copy(phase, lowest)
            continue
        pixels, target, inside = met
        yield copy(target, pixels)
        for margin in margins(phase, inside):
            yield copy(margin, lowest)


def _flat(buffer: Array, count: int, size: int) -> List[Array]:
    """This many arrays of this size, one after the other in a buffer."""
    return [buffer[size * at : size * (at + 1)] for at in range(count)]


def _pool(call: Call, phases: Phases, planes: int) -> Iterator[Step]:
    """The largest number and the first tap that has it, of all outputs of a block."""
    size = planes * phases.size
    within = size - phases.reach
    parts = _flat(call.scratch[0], len(phases.phases), size)
    largest, first, found, equal = (buffer[:within] for buffer in call.scratch[1:])
    taps = [parts[phase][begin : begin + within] for phase, begin in phases.taps]
    yield partial(np.maximum, taps[0], taps[1 % len(taps)], out=largest)
    for tap in taps[2:]:
        yield partial(np.maximum, largest, tap, out=largest)
    for at, tap in enumerate(taps):
        yield partial(np.equal, tap, largest, out=equal)
        weight = np.array(NO_TAP - at, np.uint8)
        yield partial(np.multiply, equal.view(np.uint8), weight, out=found if at else first)
        if at:
            yield partial(np.maximum, first, found, out=first)
    yield partial(np.not_equal, first, np.array(0, np.uint8), out=equal)  # all 0 only if Y is NaN
    yield partial(np.subtract, np.array(NO_TAP, np.uint8), first, out=first)
    yield partial(np.multiply, first, equal.view(np.uint8), out=first)


def gradient_supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    dy = inputs[1]
    assert dy is not None
    return _refusal(op, outputs[0], dy)


def gradient_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """The phases of a block, its dY and offsets, padded, dY of a tap, and where it is the tap's."""
    phases, dtype = _phases(op, outputs[0]), outputs[0].dtype
    size = phases.most * phases.size
    padded = [TensorSpec((n * size,), dtype) for n in (len(phases.phases), 1, 1)]
    return [*padded, TensorSpec((size,), np.uint8), TensorSpec((size,), np.bool_)]


@max_pool_offsets_gradient.kernel("PHASES", supports=gradient_supports, scratch=gradient_scratch, splits_work=True)
def max_pool_gradient_by_phases(call: Call) -> Run:
    phases = _phases(call.op, call.out_specs[0], call.workers)
    offsets, dy = (phases.outputs(given) for given in call.inputs[:2])
    dx = phases.image(call.outputs[0])
    spreading: Dict[int, List[Step]] = {}
    steps: List[Step] = []
    for begin, end in call.mine(phases.blocks):
        if end - begin not in spreading:
            spreading[end - begin] = list(_spread(call, phases, end - begin))
        errors, places = (shaped(call.scratch[at], end - begin, *phases.padded) for at in (1, 3))
        inside = [slice(0, n) for n in (*phases.window.output, phases.inner)]
        steps += [copy(margin, np.zeros((), dy.dtype)) for margin in margins(errors, inside)]
        steps += [copy(phases.inside(errors), dy[begin:end]), copy(phases.inside(places), offsets[begin:end])]
        steps += [*spreading[end - begin], *_join(dx[begin:end], phases, call.scratch[0])]
    return in_turn(steps)


def _spread(call: Call, phases: Phases, planes: int) -> Iterator[Step]:
    """Adds dY of a block to the pixels, in phases, that its offsets point to."""
    size = planes * phases.size
    within = size - phases.reach
    parts = _flat(call.scratch[0], len(phases.phases), size)
    yield partial(call.scratch[0][: size * len(parts)].fill, 0)
    errors, part, places, chosen = (buffer[:within] for buffer in call.scratch[1:])
    for at, (phase, begin) in enumerate(phases.taps):
        sums = parts[phase][begin : begin + within]
        yield partial(np.equal, places, np.array(at, np.uint8), out=chosen)
        yield partial(np.multiply, errors, chosen, out=part)
        yield partial(np.add, sums, part, out=sums)


def _join(dx: Array, phases: Phases, buffer: Array) -> Iterator[Step]:
    """Copies the phases of a block into its pixels."""
    if not phases.covers:
        yield partial(dx.fill, 0)
    parts: Any = shaped(buffer, len(phases.phases), len(dx), *phases.padded)
    for at, phase in enumerate(parts):
        met = phases.pixels(dx, phase, at)
        if met is not None:
            yield copy(met[0], met[1])
