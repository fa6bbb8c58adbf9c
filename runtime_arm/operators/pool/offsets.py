"""The MaxPool of a train net that keeps the place of each window's maximum, in one byte, instead of its input.

As in Caffe and PyTorch, the first maximum of a window gets the whole gradient. (In Caffe2 every pixel that equals the
maximum gets it.)
"""

from __future__ import annotations

from math import prod
from typing import Any, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32_64
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.pool.caffe2 import Pool, max_pool_reference, pool_of
from runtime_arm.registry.schema import integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec

MOST_TAPS = 256  # the number of values of a byte


def _checked(op: OperatorDef, x: TensorSpec) -> Pool:
    pool = pool_of(op, x)
    require(op, prod(pool.window.kernel) <= MOST_TAPS, f"a window must have {MOST_TAPS} pixels at most", x)
    return pool


@operator("MaxPoolWithOffsets", domain="armnet", outputs=2, dtypes=FLOAT32_64)
def max_pool_with_offsets(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Caffe2's MaxPool, and for each window which of its taps that fall on the image holds the first maximum, uint8.

    A window with a NaN counts as one of equal numbers.
    """
    shape = _checked(op, x).output_shape
    return [x.with_shape(shape), TensorSpec(shape, np.uint8)]


def first_taps(window: Window) -> Array:
    """The first tap of each window that falls on the image, uint8 (*output); 0 where none does."""
    first = np.zeros(window.output, np.uint8)
    for at, tap in reversed(list(enumerate(window.taps()))):
        first[tap.out] = at
    return first


def _first(pool: Pool, array: Array) -> Array:
    """A view with the channels before the image."""
    return np.moveaxis(array, -1, 1) if pool.channels_last else array


@max_pool_with_offsets.reference
def max_pool_with_offsets_reference(op: OperatorDef, x: Array) -> Sequence[Any]:
    pool = pool_of(op, TensorSpec.known(x))
    (y,) = max_pool_reference(op.replace(domain=""), x)
    offsets = np.zeros(y.shape, np.uint8)
    pixels, outputs, places = (_first(pool, array) for array in (x, y, offsets))
    places[...] = first_taps(pool.window)
    for at, tap in reversed(list(enumerate(pool.window.taps()))):
        places[tap.out][pixels[tap.image] == outputs[tap.out]] = at
    return [y, offsets]


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
