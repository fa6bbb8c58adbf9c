"""The gradients of ONNX's elementwise operators for which Caffe2 has none, armnet's own operators."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import broadcast
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.formulas import level
from runtime_arm.operators.common.slopes import keep, same_floats, slope, truths
from runtime_arm.operators.common.statistics import require_floats
from runtime_arm.operators.common.unbroadcast import sum_to
from runtime_arm.operators.elementwise.activation import sigmoid
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("WhereGradient", domain="armnet", inputs=4, outputs=2)
def where_gradient(
    op: OperatorDef, condition: TensorSpec, dz: TensorSpec, x: TensorSpec, y: TensorSpec
) -> List[TensorSpec]:
    """dX = dZ where the condition holds, dY = dZ where it does not; what was broadcast gets the sum."""
    require_floats(op, dz, x, y)
    require(op, broadcast(op, (condition, x, y)) == dz.shape, "the operands must broadcast to dZ", condition, dz, x, y)
    return [x, y]


@where_gradient.reference
def where_gradient_reference(op: OperatorDef, condition: Array, dz: Array, x: Array, y: Array) -> List[Any]:
    wide = dz.astype(np.float64)
    parts = np.where(condition, wide, 0), np.where(condition, 0, wide)
    return [sum_to(part, like.shape).astype(like.dtype) for part, like in zip(parts, (x, y))]


@operator("PowGradient", domain="armnet", inputs=4, outputs=2)
def pow_gradient(op: OperatorDef, dz: TensorSpec, x: TensorSpec, y: TensorSpec, z: TensorSpec) -> List[TensorSpec]:
    """For Z = X^Y: dX = dZ Y X^(Y - 1), dY = dZ Z log X, 0 where X is not positive; what was broadcast gets the sum."""
    require_floats(op, dz, x, z)
    require_floats(op, y)
    require(op, broadcast(op, (x, y)) == dz.shape == z.shape, "X and Y must broadcast to dZ", dz, x, y, z)
    return [x, y]


@pow_gradient.reference
def pow_gradient_reference(op: OperatorDef, dz: Array, x: Array, y: Array, z: Array) -> List[Any]:
    d, a, b = (array.astype(np.float64) for array in (dz, x, y))
    with np.errstate(all="ignore"):
        to_x = d * np.where(b == 0, 0, b * a ** (b - 1))
        to_y = d * np.where(a > 0, z * np.log(np.where(a > 0, a, 1)), 0)
    return [sum_to(to_x, x.shape).astype(x.dtype), sum_to(to_y, y.shape).astype(y.dtype)]


def _declare_extreme(type: str) -> None:
    @operator(type, domain="armnet", inputs=(3, None), outputs=(1, None))
    def schema(op: OperatorDef, y: TensorSpec, dy: TensorSpec, *xs: TensorSpec) -> List[TensorSpec]:
        """dX_i = dY where X_i = Y, else 0: ties all get it; what was broadcast gets the sum. Inputs: Y, dY, X_0, ..."""
        same_floats(op, y, dy)
        require_floats(op, y, *xs)
        require(op, broadcast(op, xs) == y.shape, "the operands must broadcast to Y", y, *xs)
        return list(xs)

    @schema.reference
    def reference(op: OperatorDef, y: Array, dy: Array, *xs: Array) -> List[Any]:
        wide = dy.astype(np.float64)
        return [sum_to(np.where(x == y, wide, 0), x.shape).astype(x.dtype) for x in xs]


_declare_extreme("MaxGradient")
_declare_extreme("MinGradient")


@operator("PReluGradient", domain="armnet", inputs=3, outputs=2)
def prelu_gradient(op: OperatorDef, dy: TensorSpec, x: TensorSpec, slope: TensorSpec) -> List[TensorSpec]:
    """dX = dY where X >= 0, else slope dY; dslope = the sum of dY X where X < 0."""
    same_floats(op, dy, x)
    require(op, broadcast(op, (x, slope)) == x.shape, "the slope must broadcast to X", x, slope)
    return [x, slope]


@prelu_gradient.reference
def prelu_gradient_reference(op: OperatorDef, dy: Array, x: Array, slope: Array) -> List[Any]:
    d = dy.astype(np.float64)
    dslope = sum_to(np.where(x < 0, d * x, 0), slope.shape)
    return [np.where(x < 0, d * slope, d).astype(x.dtype), dslope.astype(slope.dtype)]


@operator("ClipGradient", domain="armnet", inputs=(2, 4), dtypes=FLOATS, inplace={0: 1})
def clip_gradient(
    op: OperatorDef, x: TensorSpec, dy: TensorSpec, low: Optional[TensorSpec] = None, high: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """dX = dY where min < X < max, else 0: nothing flows back at the bounds."""
    require(op, all(spec is None or spec.size == 1 for spec in (low, high)), "bounds must be one number", low, high)
    return [same_floats(op, x, dy)]


@clip_gradient.reference
def clip_gradient_reference(
    op: OperatorDef, x: Array, dy: Array, low: Optional[Array] = None, high: Optional[Array] = None
) -> List[Any]:
    inside = np.ones(x.shape, np.bool_)
    if low is not None:
        inside &= x > low.reshape(())
    if high is not None:
        inside &= x < high.reshape(())
    return [np.where(inside, dy, dy.dtype.type(0))]


def _hard_swish(x: Any, dy: Any) -> Any:
    return dy * np.where(x <= -3, 0, np.where(x >= 3, 1, x / 3 + 0.5))


@slope("HardSwishGradient", "x dy", _hard_swish, domain="armnet", scratch=3)
def hard_swish_gradient(x: Array, dy: Array, dx: Array, t: Array, u: Array, v: Array) -> None:
    """dX = dY times X / 3 + 1/2 where -3 < X < 3, 0 below, 1 above."""
    np.multiply(x, 1 / 3, out=v)
    v += 0.5
    np.greater(x, level(-3, x), out=truths(t))
    keep(v, truths(t), v, u)
    np.less(x, level(3, x), out=truths(t))
    keep(v, truths(t), v, u)
    np.greater_equal(x, level(3, x), out=truths(t))
    np.copyto(u, truths(t))
    v += u
    np.multiply(dy, v, out=dx)


def _swish(x: Any, dy: Any, alpha: float) -> Any:
    s = 1 / (1 + np.exp(-alpha * x))
    return dy * (s + alpha * x * s * (1 - s))


@slope("SwishGradient", "x dy", _swish, domain="armnet", scratch=2, alpha=1.0)
def swish_gradient(x: Array, dy: Array, dx: Array, t: Array, u: Array, alpha: float) -> None:
    """dX = dY s (1 + alpha X (1 - s)), s = sigmoid(alpha X)."""
    np.multiply(x, alpha, out=t)
    sigmoid(t, t)
    np.subtract(1, t, out=u)
    u *= x
    u *= alpha
    u += 1
    t *= u
    np.multiply(dy, t, out=dx)


@slope(
    "CeluGradient",
    "x dy",
    lambda x, dy, alpha: dy * np.where(x > 0, 1, np.exp(x / alpha)),
    domain="armnet",
    scratch=1,
    alpha=1.0,
)
def celu_gradient(x: Array, dy: Array, dx: Array, t: Array, alpha: float) -> None:
    """dX = dY where X > 0, else dY exp(X / alpha)."""
    np.minimum(x, level(0, x), out=t)
    t *= 1 / alpha
    np.exp(t, out=t)
    np.multiply(dy, t, out=dx)


def _beyond(x: Any, dy: Any, alpha: float) -> Any:
    return np.where(x > alpha, dy, 0)


@slope("ThresholdedReluGradient", "x dy", _beyond, domain="armnet", scratch=2, alpha=1.0)
def thresholded_relu_gradient(x: Array, dy: Array, dx: Array, t: Array, u: Array, alpha: float) -> None:
    """dX = dY where X > alpha, else 0."""
    keep(dy, np.greater(x, level(alpha, x), out=truths(t)), dx, u)


@slope("AsinhGradient", "x dy", lambda x, dy: dy / np.sqrt(x * x + 1), domain="armnet", scratch=1)
def asinh_gradient(x: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = dY / sqrt(X^2 + 1)."""
    np.square(x, out=t)
    t += 1
    np.sqrt(t, out=t)
    np.divide(dy, t, out=dx)


@slope("AcoshGradient", "x dy", lambda x, dy: dy / np.sqrt(x * x - 1), domain="armnet", scratch=1)
def acosh_gradient(x: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = dY / sqrt(X^2 - 1)."""
    np.square(x, out=t)
    t -= 1
    np.sqrt(t, out=t)
    np.divide(dy, t, out=dx)


@slope("AtanhGradient", "x dy", lambda x, dy: dy / (1 - x * x), domain="armnet", scratch=1)
def atanh_gradient(x: Array, dy: Array, dx: Array, t: Array) -> None:
    """dX = dY / (1 - X^2)."""
    np.square(x, out=t)
    np.subtract(1, t, out=t)
    np.divide(dy, t, out=dx)
