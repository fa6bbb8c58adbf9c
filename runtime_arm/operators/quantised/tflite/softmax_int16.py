"""TensorFlow Lite's SOFTMAX of int16, with two interpolated functions, exact to the last bit.

Differences to the row's maximum, times X_scale * beta, are cut at -10. Their exponentials are in Q0.15. The sum is
shifted to lie between 1 and 2, so that 1 / (1 + its rest) is a function of 16 bits, too. Source: LiteRT,
internal/reference/softmax.h (SoftmaxInt16).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.operators.quantised.fixed_point import leading_zeros
from runtime_arm.operators.quantised.tflite.interpolation import looked_up, table_of
from runtime_arm.operators.quantised.tflite.parameters import Affine, multiplied
from runtime_arm.records import NamedTuple

_LOW, _HIGH = -(1 << 15), (1 << 15) - 1
_REACH, _ALL = 10.0, 65535.0  # differences that count, and the integers that stand for them
_REST = (1 << 15) + (1 << 16)  # of a sum in Q1.16: the 1 before the point, and the middle of the rest


class _Tables(NamedTuple):
    exponentials: Array  # of -10 to 0
    reciprocals: Array  # of 1 plus 0 to 1


@lru_cache(maxsize=1)
def _tables() -> _Tables:
    def affine(scale: float, zero_point: int) -> Any:
        return Affine(scale, zero_point)  # type: ignore[arg-type]  # here scales are doubles

    output = affine(2 / _ALL, 0)
    return _Tables(
        table_of(np.exp, affine(_REACH / _ALL, _HIGH), output, np.float64),
        table_of(lambda x: 1 / (1 + x), affine(1 / _ALL, _LOW), output, np.float64),
    )


def softmax_of(x: Array, scale: Any, beta: float) -> Array:
    """The softmax of rows of int16, int64 from 0 to 32767 with the scale 2**-15."""
    tables, below = _tables(), x.astype(np.int64) - x.max(-1, keepdims=True).astype(np.int64)
    step = np.float64(np.float32(scale)) * np.float64(np.float32(beta)) / (_REACH / _ALL)
    powers = looked_up(tables.exponentials, np.clip(multiplied(below, step) + _HIGH, _LOW, _HIGH))
    total = powers.sum(-1, keepdims=True)
    zeros = leading_zeros(total)
    shifted = ((total << (zeros - 1)) + (1 << 13)) >> 14
    factor = looked_up(tables.reciprocals, np.clip(shifted - _REST, _LOW, _HIGH))
    shift = 31 - zeros
    return np.asarray(np.clip((powers * factor + (np.int64(1) << (shift - 1))) >> shift, 0, _HIGH))
