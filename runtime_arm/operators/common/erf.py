"""The error function, which NumPy lacks."""

from __future__ import annotations

import math
from typing import Any, Tuple

import numpy as np

from runtime_arm.netdef import Array

# erf(x) = tanh(x P(x^2)). P fits atanh(erf(x)) / x by least squares, with weights adjusted until the error of erf
# is even. The largest error is 5.8e-8 in exact arithmetic, 1.5e-7 in float32. From 4 on, x P(x^2) is above 9.7, and
# float32's tanh is 1: P grows with its first coefficient, and where x^2 is infinite, so is P. Nothing must be clipped.
_P = (1.5896053e-07, -5.9856942e-06, 8.9712597e-05, -6.2571956e-04, -1.8438375e-04, 1.0276548e-01, 1.1283797)
_ERF = tuple(np.array(p, np.float32) for p in _P)
_NORMAL = tuple(np.array(p * 0.5 ** (len(_P) - 0.5 - k), np.float32) for k, p in enumerate(_P))


def erf(x: Any) -> Any:
    """erf(x) in float64."""
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def erf_into(x: Array, y: Array, square: Array, p: Array) -> None:
    """y = erf(x) in float32. ``y`` may be ``x``; the last two parameters are scratch."""
    _into(_ERF, x, y, square, p)


def erf_of_normal_into(x: Array, y: Array, square: Array, p: Array) -> None:
    """y = erf(x / sqrt(2)), which is 2 Phi(x) - 1. Otherwise as ``erf_into``."""
    _into(_NORMAL, x, y, square, p)


def _into(coefficients: Tuple[Array, ...], x: Array, y: Array, square: Array, p: Array) -> None:
    add, multiply = np.add, np.multiply
    multiply(x, x, square)
    multiply(square, coefficients[0], p)
    for coefficient in coefficients[1:-1]:
        add(p, coefficient, p)
        multiply(p, square, p)
    add(p, coefficients[-1], p)
    multiply(x, p, y)
    np.tanh(y, y)
