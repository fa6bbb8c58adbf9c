"""The gradients of Caffe2's activations: dX of dY, and of X or Y, whichever Caffe2 keeps.

Source: caffe2/operators/*_op.cc. An activation whose gradient Caffe2 computes from Y may overwrite its input.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.operators.common.dtypes import FLOAT32
from runtime_arm.operators.common.erf import erf, erf_into
from runtime_arm.operators.common.formulas import level, must_exceed
from runtime_arm.operators.common.slopes import keep, slope, truths
from runtime_arm.operators.elementwise.activation import LARGEST, SELU_ALPHA, SELU_SCALE, sigmoid

ROOT_2_OVER_PI = math.sqrt(2 / math.pi)


@slope("ReluGradient", "y dy", lambda y, dy: np.where(y > 0, dy, 0), scratch=2)
def relu_gradient(y: Array, dy: Array, dx: Array, t: Array, u: Array) -> None:
    """dX = dY where Y > 0, else 0."""
    keep(dy, np.greater(y, level(0, y), out=truths(t)), dx, u)


def _leaky(y: Any, dy: Any, alpha: float) -> Any:
    return np.where(y >= 0, dy, alpha * dy)


@slope("LeakyReluGradient", "y dy", _leaky, scratch=2, check=must_exceed("alpha", 0), alpha=0.01)
def leaky_relu_gradient(y: Array, dy: Array, dx: Array, t: Array, u: Array, alpha: float) -> None:
    """dX = dY where Y >= 0, else alpha dY. alpha must be positive: otherwise the sign of Y is not that of X."""
    np.greater_equal(y, level(0, y), out=truths(t))
    np.copyto(u, truths(t))
    u *= 1 - alpha
    u += alpha
    np.multiply(dy, u, out=dx)


@slope("ReluNGradient", "y dy", lambda y, dy, n: np.where((y > 0) & (y < n), dy, 0), scratch=3, n=6.0)
def relu_n_gradient(y: Array, dy: Array, dx: Array, t: Array, u: Array, v: Array, n: float) -> None:
    """dX = dY where 0 < Y < n, else 0."""
    _keep_between(y, dy, dx, t, u, v, 0, n)


def _keep_between(y: Array, dy: Array, dx: Array, t: Array, u: Array, v: Array, low: float, high: float) -> None:
    inside = np.greater(y, level(low, y), out=truths(t))
    inside &= np.less(y, level(high, y), out=truths(u))
    keep(dy, inside, dx, v)


@slope(
    "ClipGradient",
    "y dy",
    lambda y, dy, min, max: np.where((y > min) & (y < max), dy, 0),
    scratch=3,
    min=-LARGEST,
    max=LARGEST,
)
def clip_gradient(y: Array, dy: Array, dx: Array, t: Array, u: Array, v: Array, min: float, max: float) -> None:
    """dX = dY where min < Y < max, else 0: nothing flows back at the bounds."""
    _keep_between(y, dy, dx, t, u, v, min, max)


@slope("ThresholdedReluGradient", "y dy", lambda y, dy, alpha: np.where(y > 0, dy, 0), scratch=2, alpha=1.0)
def thresholded_relu_gradient(y: Array, dy: Array, dx: Array, t: Array, u: Array, alpha: float) -> None:
    """dX = dY where Y > 0, else 0."""
    keep(dy, np.greater(y, level(0, y), out=truths(t)), dx, u)


def _hard_sigmoid(y: Any, dy: Any, alpha: float, beta: float) -> Any:
    return np.where((y > 0) & (y < 1), alpha * dy, 0)


@slope("HardSigmoidGradient", "y dy", _hard_sigmoid, scratch=3, alpha=0.2, beta=0.5)
def hard_sigmoid_gradient(
    y: Array, dy: Array, dx: Array, t: Array, u: Array, v: Array, alpha: float, beta: float
) -> None:
    """dX = alpha dY where 0 < Y < 1, else 0."""
    _keep_between(y, dy, dx, t, u, v, 0, 1)
    dx *= alpha


@slope("SigmoidGradient", "y dy", lambda y, dy: dy * y * (1 - y), scratch=1)
def sigmoid_gradient(y: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = dY Y (1 - Y)."""
    np.subtract(1, y, out=t)
    t *= y
    np.multiply(dy, t, out=dx)


@slope("TanhGradient", "y dy", lambda y, dy: dy * (1 - y * y), scratch=1)
def tanh_gradient(y: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = dY (1 - Y^2)."""
    np.square(y, out=t)
    np.subtract(1, t, out=t)
    np.multiply(dy, t, out=dx)


@slope("SoftplusGradient", "y dy", lambda y, dy: -dy * np.expm1(-y), scratch=1)
def softplus_gradient(y: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = dY (1 - exp(-Y))."""
    np.negative(y, out=t)
    np.expm1(t, out=t)
    np.negative(t, out=t)
    np.multiply(dy, t, out=dx)


def _elu(y: Any, dy: Any, alpha: float) -> Any:
    return np.where(y > 0, dy, dy * (y + alpha))


@slope("EluGradient", "y dy", _elu, scratch=2, check=must_exceed("alpha", 0), alpha=1.0)
def elu_gradient(y: Array, dy: Array, dx: Array, t: Array, u: Array, alpha: float) -> None:
    """dX = dY where Y > 0, else dY (Y + alpha). alpha must be positive: otherwise the sign of Y is not that of X."""
    _exponential_slope(y, t, u, alpha)
    np.multiply(dy, t, out=dx)


def _exponential_slope(y: Array, t: Array, u: Array, alpha: float) -> None:
    """t = 1 where y > 0, else y + alpha."""
    np.greater(y, level(0, y), out=truths(u))
    np.copyto(t, truths(u))
    t *= 1 - alpha
    np.minimum(y, level(0, y), out=u)
    t += u
    t += alpha


def _selu(y: Any, dy: Any, alpha: float, scale: float) -> Any:
    return np.where(y > 0, scale * dy, dy * (y + alpha * scale))


@slope("SeluGradient", "y dy", _selu, scratch=2, check=must_exceed("scale", 1), alpha=SELU_ALPHA, scale=SELU_SCALE)
def selu_gradient(y: Array, dy: Array, dx: Array, t: Array, u: Array, alpha: float, scale: float) -> None:
    """dX = scale dY where Y > 0, else dY (Y + alpha scale)."""
    np.greater(y, level(0, y), out=truths(u))
    np.copyto(t, truths(u))
    t *= scale * (1 - alpha)
    np.minimum(y, level(0, y), out=u)
    t += u
    t += alpha * scale
    np.multiply(dy, t, out=dx)


def _swish(x: Any, y: Any, dy: Any) -> Any:
    return dy * (y + (1 - y) / (1 + np.exp(-x)))


@slope("SwishGradient", "x y dy", _swish, scratch=2)
def swish_gradient(x: Array, y: Array, dy: Array, dx: Array, t: Array, u: Array) -> None:
    """dX = dY (Y + sigmoid(X) (1 - Y))."""
    np.copyto(t, x)
    sigmoid(t, t)
    np.subtract(1, y, out=u)
    t *= u
    t += y
    np.multiply(dy, t, out=dx)


@slope("SoftsignGradient", "x dy", lambda x, dy: dy / (1 + np.abs(x)) ** 2, scratch=1)
def softsign_gradient(x: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = dY / (1 + |X|)^2."""
    np.abs(x, out=t)
    t += 1
    np.square(t, out=t)
    np.divide(dy, t, out=dx)


def gelu_slope(x: Any, fast_gelu: Any) -> Any:
    """The derivative of ``gelu_of``."""
    if fast_gelu:
        inner = ROOT_2_OVER_PI * (x + 0.044715 * x**3)
        tanh = np.tanh(inner)
        return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * ROOT_2_OVER_PI * (1 + 3 * 0.044715 * x * x)
    return 0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


@slope(
    "GeluGradient", "dy x", lambda dy, x, fast_gelu: dy * gelu_slope(x, fast_gelu), fast=FLOAT32, scratch=3, fast_gelu=0
)
def gelu_gradient(dy: Array, x: Array, dx: Array, t: Array, u: Array, v: Array, fast_gelu: int) -> None:
    """dX = dY (Phi(X) + X phi(X)) with the normal distribution and its density; or of the fast approximation."""
    if fast_gelu:
        _gelu_tanh_slope(x, t, u, v)
    else:
        np.multiply(x, math.sqrt(0.5), out=t)
        erf_into(t, t, u, v)
        t += 1
        t *= 0.5
        np.square(x, out=u)
        u *= -0.5
        np.exp(u, out=u)
        u *= x
        u *= 1 / math.sqrt(2 * math.pi)
        t += u
    np.multiply(dy, t, out=dx)


def _gelu_tanh_slope(x: Array, t: Array, u: Array, v: Array) -> None:
    """t = (1 + h) / 2 + x (1 - h^2) g / 2, where h = tanh(sqrt(2 / pi) (x + 0.044715 x^3)), g the inner derivative."""
    np.square(x, out=u)
    np.multiply(u, 0.044715 * ROOT_2_OVER_PI, out=t)
    t += ROOT_2_OVER_PI
    t *= x
    np.tanh(t, out=t)
    u *= 3 * 0.044715 * ROOT_2_OVER_PI
    u += ROOT_2_OVER_PI
    u *= x
    np.square(t, out=v)
    np.subtract(1, v, out=v)
    u *= v
    t += 1
    t += u
    t *= 0.5


def _mish(x: Any, y: Any, dy: Any) -> Any:
    softplus = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    tanh = np.tanh(softplus)
    return dy * (tanh + x * (1 - tanh**2) / (1 + np.exp(-x)))


@slope("MishGradient", "x y dy", _mish, scratch=3)
def mish_gradient(x: Array, y: Array, dy: Array, dx: Array, t: Array, u: Array, v: Array) -> None:
    """dX = dY (h + X (1 - h^2) sigmoid(X)), h = tanh(log(1 + exp(X))). With e = exp(X), n = e (e + 2): h = n / (n + 2).

    From X = 20 on it is dY.
    """
    np.minimum(x, level(20, x), out=v)
    np.exp(v, out=t)
    np.add(t, 2, out=u)
    u *= t
    np.add(u, 2, out=t)
    u /= t
    np.square(u, out=t)
    np.subtract(1, t, out=t)
    t *= v
    sigmoid(v, v)
    t *= v
    t += u
    np.multiply(dy, t, out=dx)


def _logit(x: Any, dy: Any, eps: float) -> Any:
    inside = (x >= eps) & (x <= 1 - eps)
    safe = np.where(inside, x, 0.5)
    return np.where(inside, dy / (safe * (1 - safe)), 0)


@slope("LogitGradient", "x dy", _logit, scratch=3, eps=1e-6)
def logit_gradient(x: Array, dy: Array, dx: Array, t: Array, u: Array, v: Array, eps: float) -> None:
    """dX = dY / (X (1 - X)) where eps <= X <= 1 - eps, else 0."""
    np.maximum(x, level(eps, x), out=v)
    np.minimum(v, level(1 - eps, x), out=v)
    inside = np.equal(v, x, out=truths(t))
    np.subtract(1, v, out=u)
    v *= u
    np.divide(dy, v, out=dx)
    keep(dx, inside, dx, u)
