"""The error function, which NumPy lacks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.operators.common.formulas import level

# erf(x) = tanh(x P(x^2)). P fits atanh(erf(x)) / x by least squares, with weights adjusted until the error of erf
# is even. The largest error is 5.8e-8 in exact arithmetic, 1.5e-7 in float32. At LIMIT the argument of tanh exceeds 10,
# and from there on NumPy's tanh is 1.
_LIMIT = 4.3
_P = (1.5896053e-07, -5.9856942e-06, 8.9712597e-05, -6.2571956e-04, -1.8438375e-04, 1.0276548e-01, 1.1283797)


def erf(x: Any) -> Any:
    """erf(x) in float64."""
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def erf_into(x: Array, y: Array, square: Array, p: Array) -> None:
    """y = erf(x) in float32. ``y`` may be ``x``; the last two parameters are scratch."""
    np.minimum(x, level(_LIMIT, x), out=y)
    np.maximum(y, level(-_LIMIT, y), out=y)
    np.square(y, out=square)
    np.multiply(square, _P[0], out=p)
    for coefficient in _P[1:-1]:
        p += coefficient
        p *= square
    p += _P[-1]
    y *= p
    np.tanh(y, out=y)
