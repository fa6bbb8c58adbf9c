"""Activations of Caffe2 and ONNX: one input, one output of the same shape.

Relu is written out. The others are declared by two formulas, an exact and a fast one (common/formulas.py, ``unary``).
"""

from __future__ import annotations

import math
from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32, FLOAT32_64, FLOATS, NUMBERS, SIGNED
from runtime_arm.operators.common.erf import erf, erf_of_normal_into
from runtime_arm.operators.common.formulas import (
    CLIPS_FAST,
    declare_unary,
    in_blocks,
    level,
    must_be_one_of,
    must_exceed,
    unary,
)
from runtime_arm.registry.facts import FastFormula, Kind
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import TensorSpec

LARGEST = float(np.finfo(np.float32).max)
LEAST_CLIPPED = 2048  # elements; the call of clip takes as long as its pass over this many


def relu_into(x: Array, y: Array) -> None:
    """y = max(x, 0)."""
    np.maximum(x, level(0, x), out=y)


_FORMULA = FastFormula(relu_into, 0, FLOAT32_64, {})


@operator("Relu", dtypes=FLOAT32, inplace={0: 0}, kind=Kind.ELEMENTWISE, formula=_FORMULA)
def relu(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = max(X, 0), elementwise."""
    return [x]


@relu.reference
def relu_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [np.maximum(x, x.dtype.type(0))]


@relu.kernel("NUMPY")
def relu_numpy(call: Call) -> Run:
    return in_blocks(call, relu_into)


@operator("Relu", domain="onnx", dtypes=FLOATS + SIGNED, inplace={0: 0}, kind=Kind.ELEMENTWISE, formula=_FORMULA)
def onnx_relu(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = max(X, 0), elementwise."""
    return [x]


onnx_relu.reference(relu_reference)
onnx_relu.kernel("NUMPY")(relu_numpy)


@unary("LeakyRelu", lambda x, alpha: np.where(x > 0, x, alpha * x), scratch=1, alpha=0.01)
def leaky_relu(x: Array, y: Array, t: Array, alpha: float) -> None:
    """Y = X where X > 0, else alpha X."""
    np.multiply(x, alpha, out=t)
    (np.maximum if alpha <= 1 else np.minimum)(x, t, out=y)


@unary("ReluN", lambda x, n: np.clip(x, 0, n), onnx=(), check=must_exceed("n", 0), n=6.0)
def relu_n(x: Array, y: Array, n: float) -> None:
    """Y = min(max(X, 0), n)."""
    clip_into(x, y, 0, n)


@unary("Clip", lambda x, min, max: np.minimum(np.maximum(x, min), max), onnx=(), min=-LARGEST, max=LARGEST)
def clip(x: Array, y: Array, min: float, max: float) -> None:
    """Y = min(max(X, min), max)."""
    clip_into(x, y, min, max)


def clip_into(x: Array, y: Array, low: float, high: float) -> None:
    """y = x, clipped to low..high. ``y`` may be ``x``."""
    if CLIPS_FAST and x.size >= LEAST_CLIPPED:
        x.clip(x.dtype.type(low), x.dtype.type(high), out=y)
        return
    np.maximum(x, level(low, x), out=y)
    np.minimum(y, level(high, x), out=y)


@unary("HardSigmoid", lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), alpha=0.2, beta=0.5)
def hard_sigmoid(x: Array, y: Array, alpha: float, beta: float) -> None:
    """Y = alpha X + beta, clipped to 0..1."""
    np.multiply(x, alpha, out=y)
    y += beta
    clip_into(y, y, 0, 1)


@unary("HardSwish", lambda x: x * np.clip(x / 6 + 0.5, 0, 1), caffe2=(), scratch=1)
def hard_swish(x: Array, y: Array, t: Array) -> None:
    """Y = X * (X / 6 + 1/2, clipped to 0..1). Howard et al., Searching for MobileNetV3, 2019."""
    hard_sigmoid(x, t, 1 / 6, 0.5)
    np.multiply(x, t, out=y)


def _logistic(x: Any) -> Any:
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, decay) / (1 + decay)


@unary("Sigmoid", _logistic)
def sigmoid(x: Array, y: Array) -> None:
    """Y = 1 / (1 + exp(-X)), computed as (1 + tanh(X / 2)) / 2, which cannot overflow."""
    np.multiply(x, 0.5, out=y)
    np.tanh(y, out=y)
    y += 1
    y *= 0.5


def _swish(x: Any, alpha: float = 1.0) -> Any:
    return x * _logistic(alpha * x)


@unary("Swish", _swish, caffe2=(), scratch=1, alpha=1.0)
@unary("Swish", _swish, onnx=(), inplace=False, scratch=1)
def swish(x: Array, y: Array, t: Array, alpha: float = 1.0) -> None:
    """Y = X sigmoid(alpha X); alpha is 1 in Caffe2. Computed as H (1 + tanh(alpha H)) with H = X / 2."""
    np.multiply(x, 0.5, out=t)
    if alpha == 1:
        np.tanh(t, out=y)
    else:
        np.multiply(t, alpha, out=y)
        np.tanh(y, out=y)
    y += 1
    y *= t


def _exponential_into(x: Array, y: Array, t: Array, u: Array, alpha: float, steepness: float) -> None:
    """y = x where x > 0, else alpha (exp(steepness x) - 1); exp(z) - 1 = 2 h / (1 - h) with h = tanh(z / 2)."""
    np.minimum(x, level(0, x), out=t)
    t *= steepness / 2
    np.tanh(t, out=t)
    np.subtract(1, t, out=u)
    t /= u
    t *= 2 * alpha
    np.maximum(x, level(0, x), out=y)
    y += t


@unary("Elu", lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)), scratch=2, alpha=1.0)
def elu(x: Array, y: Array, t: Array, u: Array, alpha: float) -> None:
    """Y = X where X > 0, else alpha (exp(X) - 1)."""
    _exponential_into(x, y, t, u, alpha, 1)


@unary("Celu", lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x / alpha)), caffe2=(), scratch=2, alpha=1.0)
def celu(x: Array, y: Array, t: Array, u: Array, alpha: float) -> None:
    """Y = X where X > 0, else alpha (exp(X / alpha) - 1)."""
    _exponential_into(x, y, t, u, alpha, 1 / alpha)


SELU_ALPHA, SELU_SCALE = 1.6732631921768188, 1.0507010221481323  # Klambauer et al., Self-Normalizing Networks, 2017


def _selu(x: Any, alpha: float, scale: float) -> Any:
    return scale * np.where(x > 0, x, alpha * np.expm1(x))


@unary("Selu", _selu, onnx=(), check=must_exceed("scale", 1), scratch=2, alpha=SELU_ALPHA, scale=SELU_SCALE)
def selu(x: Array, y: Array, t: Array, u: Array, alpha: float, scale: float) -> None:
    """Y = scale X where X > 0, else scale alpha (exp(X) - 1)."""
    elu(x, y, t, u, alpha)
    y *= scale


@unary("Selu", lambda x, alpha, gamma: _selu(x, alpha, gamma), caffe2=(), scratch=2, alpha=SELU_ALPHA, gamma=SELU_SCALE)
def onnx_selu(x: Array, y: Array, t: Array, u: Array, alpha: float, gamma: float) -> None:
    """Y = gamma X where X > 0, else gamma alpha (exp(X) - 1)."""
    selu(x, y, t, u, alpha, gamma)


def _log1p_exp(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@unary("Softplus", lambda x: np.where(np.exp(x) > LARGEST, np.inf, np.log1p(np.exp(x))), onnx=())
def softplus(x: Array, y: Array) -> None:
    """Y = log(1 + exp(X)), infinite where exp(X) exceeds float32, as in Caffe2."""
    np.exp(x, out=y)
    np.log1p(y, out=y)


@unary("Softplus", _log1p_exp, caffe2=(), scratch=1)
def onnx_softplus(x: Array, y: Array, t: Array) -> None:
    """Y = log(1 + exp(X)), computed as max(X, 0) + log(1 + exp(-|X|)), which cannot overflow."""
    np.abs(x, out=t)
    t *= -1
    np.exp(t, out=t)
    np.log1p(t, out=t)
    np.maximum(x, level(0, x), out=y)
    y += t


@unary("Mish", lambda x: x * np.tanh(_log1p_exp(x)), caffe2=FLOAT32_64, inplace=False, scratch=2)
def mish(x: Array, y: Array, t: Array, u: Array) -> None:
    """Y = X tanh(log(1 + exp(X))). With e = exp(X) and n = e (e + 2) this is X n / (n + 2); from X = 20 on it is X.

    Misra, Mish: A Self Regularized Non-Monotonic Activation Function, 2019.
    """
    np.minimum(x, level(20, x), out=t)
    np.exp(t, out=t)
    np.add(t, 2, out=u)
    u *= t
    np.add(u, 2, out=t)
    u /= t
    np.multiply(x, u, out=y)


@unary("Softsign", lambda x: x / (1 + np.abs(x)), scratch=1)
def softsign(x: Array, y: Array, t: Array) -> None:
    """Y = X / (1 + |X|)."""
    np.abs(x, out=t)
    t += 1
    np.divide(x, t, out=y)


def _thresholded_relu(x: Any, alpha: float) -> Any:
    return np.where(x > alpha, x, 0)


def _shrink(x: Any, bias: float, lambd: float) -> Any:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))


declare_unary("ThresholdedRelu", _thresholded_relu, "Y = X where X > alpha, else 0.", FLOAT32, FLOATS, alpha=1.0)
declare_unary(
    "Shrink", _shrink, "Y = X + bias below -lambd, X - bias above lambd, else 0.", (), NUMBERS, bias=0.0, lambd=0.5
)


def _logit(x: Any, eps: float) -> Any:
    p = np.clip(x, eps, 1 - eps)
    return np.log(p / (1 - p))


@unary("Logit", _logit, onnx=(), scratch=1, eps=1e-6)
def logit(x: Array, y: Array, t: Array, eps: float) -> None:
    """Y = log(X / (1 - X)), with X clipped to eps..1 - eps."""
    clip_into(x, y, eps, 1 - eps)
    np.subtract(1, y, out=t)
    y /= t
    np.log(y, out=y)


def gelu_of(x: Any, fast_gelu: bool) -> Any:
    """x Phi(x), where Phi is the cumulative normal distribution, or its approximation with tanh."""
    if fast_gelu:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def gelu_into(x: Array, y: Array, t: Array, u: Array, v: Array) -> None:
    """y = x Phi(x), where Phi is the cumulative normal distribution."""
    erf_of_normal_into(x, t, u, v)
    np.add(t, _ONE, t)
    np.multiply(t, _HALF, t)
    np.multiply(x, t, y)


_ONE, _HALF = np.array(1, np.float32), np.array(0.5, np.float32)
_CUBIC, _LINEAR = (np.array(c * math.sqrt(2 / math.pi), np.float32) for c in (0.044715, 1))


def gelu_tanh_into(x: Array, y: Array, t: Array) -> None:
    """y = gelu(x), approximated with tanh. Hendrycks and Gimpel, Gaussian Error Linear Units, 2016."""
    np.multiply(x, x, t)
    np.multiply(t, _CUBIC, t)
    np.add(t, _LINEAR, t)
    np.multiply(t, x, t)
    np.tanh(t, t)
    np.add(t, _ONE, t)
    np.multiply(t, _HALF, t)
    np.multiply(x, t, y)


@unary("Gelu", gelu_of, onnx=(), fast=FLOAT32, inplace=False, scratch=3, fast_gelu=0)
def gelu(x: Array, y: Array, t: Array, u: Array, v: Array, fast_gelu: int) -> None:
    """Y = X Phi(X), where Phi is the cumulative normal distribution; with fast_gelu, its approximation with tanh."""
    if fast_gelu:
        gelu_tanh_into(x, y, t)
    else:
        gelu_into(x, y, t, u, v)


@unary(
    "Gelu",
    lambda x, approximate: gelu_of(x, approximate == "tanh"),
    caffe2=(),
    fast=FLOAT32,
    scratch=3,
    check=must_be_one_of("approximate", "none", "tanh"),
    approximate="none",
)
def onnx_gelu(x: Array, y: Array, t: Array, u: Array, v: Array, approximate: str) -> None:
    """Y = X Phi(X), where Phi is the cumulative normal distribution; approximate="tanh" is Caffe2's fast_gelu."""
    gelu(x, y, t, u, v, approximate == "tanh")
