"""Takes planes of numbers at other places: between pixels, and at other sizes."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from runtime_arm.netdef import Array


def sampled(plane: Array, y: Array, x: Array) -> Array:
    """(len(y), len(x)) values of a plane (H, W) at rows ``y`` and columns ``x``, interpolated; places within 0..H-1."""
    return _along(_along(plane, y, 0), x, 1)


def nearest(plane: Array, y: Array, x: Array) -> Array:
    """The same without interpolation: the value of the nearest pixel."""
    return plane[np.rint(y).astype(np.int64)][:, np.rint(x).astype(np.int64)]


def resized(plane: Array, shape: Sequence[int]) -> Array:
    """A plane (H, W) stretched to another shape."""
    places = [
        np.clip((np.arange(wanted) + 0.5) * (given / wanted) - 0.5, 0, given - 1)
        for wanted, given in zip(shape, plane.shape)
    ]
    return sampled(plane, places[0], places[1])


def _along(plane: Array, places: Array, axis: int) -> Array:
    below = np.floor(places).astype(np.int64)
    above = np.minimum(below + 1, plane.shape[axis] - 1)
    share = (places - below).astype(plane.dtype)
    if axis == 0:
        share = share[:, None]
    low = np.take(plane, below, axis=axis)
    return np.asarray(low + (np.take(plane, above, axis=axis) - low) * share)
