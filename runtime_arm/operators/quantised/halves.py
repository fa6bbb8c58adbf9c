"""Helpers of operators that unpack weights of 4 bits: two numbers in a byte, and the declared shape.

The first number is in the low half of a byte, the second in the high half.
"""

from __future__ import annotations

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.specs import Shape

_MOST_DIMS = 32


def halves(packed: Array) -> Array:
    """The 4-bit numbers, 0..15, of bytes (..., n): uint8 (..., 2 n)."""
    result = np.empty((*packed.shape[:-1], packed.shape[-1], 2), np.uint8)
    np.bitwise_and(packed, 15, out=result[..., 0])
    np.right_shift(packed, 4, out=result[..., 1])
    return result.reshape(*packed.shape[:-1], -1)


def joined_halves(numbers: Array) -> Array:
    """Bytes (..., n) of 4-bit numbers, 0..15, uint8 (..., 2 n)."""
    pairs = numbers.reshape(*numbers.shape[:-1], -1, 2)
    joined: Array = pairs[..., 0] | (pairs[..., 1] << 4)
    return joined


def stated_shape(op: OperatorDef) -> Shape:
    """The argument ``shape``; ArgumentError if it is none."""
    shape = tuple(op.get_ints("shape"))
    if len(shape) > _MOST_DIMS or min(shape, default=1) < 0:
        raise ArgumentError(op, f"shape must hold at most {_MOST_DIMS} sizes, none negative, got {list(shape)[:40]}")
    return shape
