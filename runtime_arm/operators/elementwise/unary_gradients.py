"""The gradients of Caffe2's mathematical functions of one blob. Source: caffe2/operators/*_op.cc."""

from __future__ import annotations

import math

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.operators.common.slopes import slope


@slope("AbsGradient", "x dy", lambda x, dy: dy * np.sign(x), scratch=1)
def abs_gradient(x: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = dY sign(X); 0 where X is 0."""
    np.sign(x, out=t)
    np.multiply(dy, t, out=dx)


@slope("CubeGradient", "dy x", lambda dy, x: 3 * dy * x * x, scratch=1)
def cube_gradient(dy: Array, x: Array, dx: Array, t: Array) -> None:
    """dX = 3 dY X^2."""
    np.square(x, out=t)
    t *= 3
    np.multiply(dy, t, out=dx)


@slope("RsqrtGradient", "dy y", lambda dy, y: -0.5 * dy * y**3, scratch=1)
def rsqrt_gradient(dy: Array, y: Array, dx: Array, t: Array) -> None:
    """dX = -dY Y^3 / 2."""
    np.square(y, out=t)
    t *= y
    t *= -0.5
    np.multiply(dy, t, out=dx)


@slope("CbrtGradient", "dy y", lambda dy, y: dy / (3 * y * y), scratch=1)
def cbrt_gradient(dy: Array, y: Array, dx: Array, t: Array) -> None:
    """dX = dY / (3 Y^2)."""
    np.square(y, out=t)
    t *= 3
    np.divide(dy, t, out=dx)


@slope("ReciprocalGradient", "y dy", lambda y, dy: -dy * y * y, scratch=1)
def reciprocal_gradient(y: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = -dY Y^2."""
    np.square(y, out=t)
    np.negative(t, out=t)
    np.multiply(dy, t, out=dx)


@slope("SinGradient", "x dy", lambda x, dy: dy * np.cos(x), scratch=1)
def sin_gradient(x: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = dY cos X."""
    np.cos(x, out=t)
    np.multiply(dy, t, out=dx)


@slope("CosGradient", "x dy", lambda x, dy: -dy * np.sin(x), scratch=1)
def cos_gradient(x: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = -dY sin X."""
    np.sin(x, out=t)
    np.negative(t, out=t)
    np.multiply(dy, t, out=dx)


@slope("TanGradient", "x dy", lambda x, dy: dy / np.cos(x) ** 2, scratch=1)
def tan_gradient(x: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = dY / cos^2 X."""
    np.cos(x, out=t)
    np.square(t, out=t)
    np.divide(dy, t, out=dx)


@slope("SinhGradient", "dy x", lambda dy, x: dy * np.cosh(x), scratch=1)
def sinh_gradient(dy: Array, x: Array, dx: Array, t: Array) -> None:
    """dX = dY cosh X."""
    np.cosh(x, out=t)
    np.multiply(dy, t, out=dx)


@slope("CoshGradient", "dy x", lambda dy, x: dy * np.sinh(x), scratch=1)
def cosh_gradient(dy: Array, x: Array, dx: Array, t: Array) -> None:
    """dX = dY sinh X."""
    np.sinh(x, out=t)
    np.multiply(dy, t, out=dx)


@slope("AsinGradient", "x dy", lambda x, dy: dy / np.sqrt(1 - x * x), scratch=1)
def asin_gradient(x: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = dY / sqrt(1 - X^2)."""
    np.square(x, out=t)
    np.subtract(1, t, out=t)
    np.sqrt(t, out=t)
    np.divide(dy, t, out=dx)


@slope("AcosGradient", "x dy", lambda x, dy: -dy / np.sqrt(1 - x * x), scratch=1)
def acos_gradient(x: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = -dY / sqrt(1 - X^2)."""
    np.square(x, out=t)
    np.subtract(1, t, out=t)
    np.sqrt(t, out=t)
    np.negative(t, out=t)
    np.divide(dy, t, out=dx)


@slope("AtanGradient", "x dy", lambda x, dy: dy / (1 + x * x), scratch=1)
def atan_gradient(x: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = dY / (1 + X^2)."""
    np.square(x, out=t)
    t += 1
    np.divide(dy, t, out=dx)


@slope("ErfGradient", "x dy", lambda x, dy: dy * np.exp(-x * x) * 2 / math.sqrt(math.pi), scratch=1)
def erf_gradient(x: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = dY 2 / sqrt(pi) exp(-X^2)."""
    np.square(x, out=t)
    np.negative(t, out=t)
    np.exp(t, out=t)
    t *= 2 / math.sqrt(math.pi)
    np.multiply(dy, t, out=dx)
