"""Steps that overwrite one of their operands, so that NumPy makes no temporary copy of it."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, List, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.registry.steps import Step

Index = Tuple[slice, ...]

MOST_PARTS = 64  # more calls may take longer than a copy


def updates(ufunc: Any, target: Array, other: Array) -> List[Step]:
    """The steps target = ufunc(target, other); ``other`` broadcasts. Where it may share memory with the target there is
    one step, for which NumPy may copy.
    """
    pieces = parts(target)
    if len(pieces) == 1 or np.may_share_memory(target, other):  # a later part would read what an earlier one wrote
        return [partial(ufunc, target, other, out=target)]
    whole = np.broadcast_to(other, target.shape)
    return [partial(ufunc, target[piece], whole[piece], out=target[piece]) for piece in pieces]


def parts(array: Array) -> List[Index]:
    """Indices of the parts, as few as possible, that NumPy overwrites without a copy; together they are the array.

    There are at most ``MOST_PARTS``. Where more would be needed, larger ones stay, which NumPy copies.

    NumPy copies an operand that is to be overwritten, unless it sees that no two elements of it share memory. It does
    not look far: see ``_is_apart``. If the copy is large, it takes longer than the step itself.
    """
    whole = (slice(None),) * array.ndim
    if _is_apart(array):
        return [whole]
    axes = sorted((size, axis) for axis, size in enumerate(array.shape) if size > 1)
    axis = next((axis for _, axis in axes if _is_apart(array[_at(axis, 0)])), axes[0][1])
    within = parts(array[_at(axis, 0)])
    if array.shape[axis] * len(within) > MOST_PARTS:
        return [whole]
    return [(*part[:axis], slice(at, at + 1), *part[axis + 1 :]) for at in range(array.shape[axis]) for part in within]


def _at(axis: int, place: int) -> Index:
    """The index of one place on an axis; the number of dimensions stays."""
    return (*[slice(None)] * axis, slice(place, place + 1))


def _is_apart(array: Array) -> bool:
    """Whether NumPy sees that no two elements share memory.

    It does if the array is contiguous. Otherwise the strides are looked at, from the widest to the narrowest and the
    bytes of an element. NumPy may give up unless, from the third on, all that lies within a stride is shorter than the
    greatest common divisor of those before. Source: solve_may_have_internal_overlap in NumPy's mem_overlap.c.
    """
    if array.flags.c_contiguous:
        return True
    strides = sorted(((abs(step), size) for step, size in zip(array.strides, array.shape) if size > 1), reverse=True)
    common = 0
    for place, (stride, size) in enumerate([*strides, (1, array.itemsize)]):
        if place > 1 and (size - 1) * stride >= common:
            return False
        common = math.gcd(common, stride)
    return True
