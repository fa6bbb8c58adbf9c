"""The MaxPool of a train net that keeps for each window where its maximum lies, in one byte, instead of its input.

As in Caffe and PyTorch, the first maximum of a window gets the whole gradient. (In Caffe2 every pixel that equals the
maximum gets it.)
"""

from __future__ import annotations

from math import prod
from typing import Any, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32_64
from runtime_arm.operators.pool.caffe2 import Pool, below_all, max_pool_reference, pool_of
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec

MOST_TAPS = 256  # what one byte can tell apart


def _checked(op: OperatorDef, x: TensorSpec) -> Pool:
    pool = pool_of(op, x)
    require(op, prod(pool.window.kernel) <= MOST_TAPS, f"a window must have {MOST_TAPS} pixels at most", x)
    return pool


@operator("MaxPoolWithOffsets", domain="armnet", outputs=2, dtypes=FLOAT32_64)
def max_pool_with_offsets(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Caffe2's MaxPool, and for each window which of its taps that fall on the image holds the first maximum, uint8."""
    shape = _checked(op, x).output_shape
    return [x.with_shape(shape), TensorSpec(shape, np.uint8)]


def _first(pool: Pool, array: Array) -> Array:
    """A view with the channels in front of the image."""
    return np.moveaxis(array, -1, 1) if pool.channels_last else array


@max_pool_with_offsets.reference
def max_pool_with_offsets_reference(op: OperatorDef, x: Array) -> Sequence[Any]:
    pool = pool_of(op, TensorSpec.known(x))
    (y,) = max_pool_reference(op.replace(domain=""), x)
    offsets = np.zeros(y.shape, np.uint8)
    pixels, outputs, places = (_first(pool, array) for array in (x, y, offsets))
    for at, tap in reversed(list(enumerate(pool.window.taps()))):
        places[tap.out][pixels[tap.image] == outputs[tap.out]] = at
    return [y, offsets]


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return [TensorSpec(outputs[1].shape, np.bool_)]


def _whole_windows(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Any:
    x = inputs[0]
    assert x is not None
    return None if pool_of(op, x).window.counts().min(initial=1) > 0 else "a window has no pixels"


@max_pool_with_offsets.kernel("NUMPY", supports=_whole_windows, scratch=_scratch)
def max_pool_with_offsets_numpy(call: Call) -> Run:
    pool = pool_of(call.op, TensorSpec(call.inputs[0].shape, call.inputs[0].dtype))
    x, y, offsets, flags = (_first(pool, a) for a in (call.inputs[0], *call.outputs, call.scratch[0]))
    taps = [
        (at, x[tap.image], y[tap.out], offsets[tap.out], flags[tap.out]) for at, tap in enumerate(pool.window.taps())
    ]
    lowest = below_all(y.dtype)

    def run() -> None:
        y.fill(lowest)
        offsets.fill(0)
        for at, pixels, highest, places, larger in taps:
            np.greater(pixels, highest, out=larger)
            np.copyto(places, at, where=larger)
            np.maximum(highest, pixels, out=highest)

    return run


@operator("MaxPoolOffsetsGradient", domain="armnet", inputs=3)
def max_pool_offsets_gradient(
    op: OperatorDef, offsets: TensorSpec, dy: TensorSpec, shape: TensorSpec
) -> List[TensorSpec]:
    """dX: the pixel that an offset points to gets the window's dY. Inputs: offsets, dY, and X's shape."""
    x = TensorSpec(integers_of(op, shape, "shape"), dy.dtype)
    expected = _checked(op, x).output_shape
    fits = dy.dtype.name in FLOAT32_64 and dy.shape == expected == offsets.shape and offsets.dtype == np.uint8
    require(op, fits, f"offsets and dY must have the shape {list(expected)} of the pool's output", offsets, dy)
    return [x]


@max_pool_offsets_gradient.reference
def max_pool_offsets_gradient_reference(op: OperatorDef, offsets: Array, dy: Array, shape: Array) -> Sequence[Any]:
    pool = pool_of(op, TensorSpec(shape.tolist(), dy.dtype))
    dx = np.zeros(shape.tolist())
    pixels, places, errors = (_first(pool, array) for array in (dx, offsets, dy))
    for at, tap in enumerate(pool.window.taps()):
        pixels[tap.image] += np.where(places[tap.out] == at, errors[tap.out], 0)
    return [dx.astype(dy.dtype)]


def _gradient_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    dy = inputs[1]
    assert dy is not None
    return [TensorSpec(dy.shape, np.bool_), TensorSpec(dy.shape, dy.dtype)]


@max_pool_offsets_gradient.kernel("NUMPY", scratch=_gradient_scratch)
def max_pool_offsets_gradient_numpy(call: Call) -> Run:
    pool = pool_of(call.op, TensorSpec(call.outputs[0].shape, call.outputs[0].dtype))
    arrays = (*call.inputs[:2], call.outputs[0], *call.scratch)
    offsets, dy, dx, flags, terms = (_first(pool, array) for array in arrays)
    taps = [
        (at, offsets[tap.out], dy[tap.out], dx[tap.image], flags[tap.out], terms[tap.out])
        for at, tap in enumerate(pool.window.taps())
    ]

    def run() -> None:
        dx.fill(0)
        for at, places, errors, sums, chosen, added in taps:
            np.equal(places, at, out=chosen)
            np.multiply(errors, chosen, out=added)
            np.add(sums, added, out=sums)

    return run
