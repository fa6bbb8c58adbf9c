"""The gradient of broadcasting: sums over the broadcast axes."""

from __future__ import annotations

from functools import partial
from typing import Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.registry.kernel import Run
from runtime_arm.registry.specs import Shape


def broadcast_axes(full: Shape, part: Shape) -> Tuple[int, ...]:
    """The axes of ``full`` along which an operand of shape ``part`` was repeated by NumPy's rule."""
    padded = (1,) * (len(full) - len(part)) + tuple(part)
    return tuple(
        axis for axis, (n, m) in enumerate(zip(full, padded)) if (m == 1 and n != 1) or axis < len(full) - len(part)
    )


def sum_to(full: Array, part: Shape) -> Array:
    """The sum of ``full`` over what was broadcast; the result broadcasts to ``full`` and has ``part``'s elements."""
    total: Array = full.sum(axis=broadcast_axes(full.shape, part)).reshape(part)
    return total


def sum_into(full: Array, out: Array) -> Run:
    """A run that sums ``full`` into ``out``, which broadcasts to it; a copy if nothing was broadcast."""
    axes = broadcast_axes(full.shape, out.shape)
    if not axes:
        return partial(np.copyto, out, full.reshape(out.shape)) if not _same(full, out) else _nothing
    kept = [n for axis, n in enumerate(full.shape) if axis not in axes]
    return partial(np.add.reduce, full, axis=axes, out=out.reshape(kept))


def _same(a: Array, b: Array) -> bool:
    return bool(a.__array_interface__["data"] == b.__array_interface__["data"])


def _nothing() -> None:
    return None
