"""The gradients of Caffe2's pools. Source: caffe2/operators/pool_gradient_op.cc, lp_pool_op.cc."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dialects import forward_form
from runtime_arm.operators.common.dtypes import FLOAT32_64, FLOATS
from runtime_arm.operators.common.formulas import only_for
from runtime_arm.operators.common.slopes import same_floats
from runtime_arm.operators.pool.caffe2 import Pool, pool_of
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def _shape(op: OperatorDef, x: TensorSpec, y: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    shape = pool_of(forward_form(op), x).output_shape
    require(op, y.shape == shape, f"Y must have the shape {list(shape)} of the pool's output", x, y, dy)
    same_floats(op, y, dy)
    return [x]


@operator("MaxPoolGradient", inputs=3, dtypes=FLOATS)
def max_pool_gradient(op: OperatorDef, x: TensorSpec, y: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dX: every pixel that equals the maximum of a window gets that window's dY, so that ties all get it."""
    return _shape(op, x, y, dy)


@operator("AveragePoolGradient", inputs=3, dtypes=FLOATS)
def average_pool_gradient(op: OperatorDef, x: TensorSpec, y: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dX: every pixel under a window gets that window's dY divided by its number of pixels, as AveragePool counts."""
    return _shape(op, x, y, dy)


@operator("LpPoolGradient", inputs=3, dtypes=FLOATS)
def lp_pool_gradient(op: OperatorDef, x: TensorSpec, y: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dX[i] = the sum of dY X[i] |X[i]|^(p - 2) Y^(1 - p) over the windows of pixel i; p defaults to 2.0."""
    op.get_float("p", 2.0)
    return _shape(op, x, y, dy)


def _first(pool: Pool, array: Array) -> Array:
    """A view with the channels before the image."""
    return np.moveaxis(array, -1, 1) if pool.channels_last else array


def _spread(op: OperatorDef, x: Array, y: Array, dy: Array, share: Callable[..., Any]) -> Sequence[Any]:
    """dX by taps, in float64: the sum of share(pixels, Y, dY, divisors) over the windows."""
    pool = pool_of(forward_form(op), TensorSpec.known(x))
    pixels, outputs, errors = (_first(pool, array.astype(np.float64)) for array in (x, y, dy))
    dx = np.zeros(pixels.shape)
    divisors = np.broadcast_to(pool.divisors, errors.shape)
    for tap in pool.window.taps():
        dx[tap.image] += share(pixels[tap.image], outputs[tap.out], errors[tap.out], divisors[tap.out])
    return [(np.moveaxis(dx, 1, -1) if pool.channels_last else dx).astype(x.dtype)]


@max_pool_gradient.reference
def max_pool_gradient_reference(op: OperatorDef, x: Array, y: Array, dy: Array) -> Sequence[Any]:
    return _spread(op, x, y, dy, lambda x, y, dy, divisors: np.where(x == y, dy, 0))


@average_pool_gradient.reference
def average_pool_gradient_reference(op: OperatorDef, x: Array, y: Array, dy: Array) -> Sequence[Any]:
    return _spread(op, x, y, dy, lambda x, y, dy, divisors: dy / divisors)


@lp_pool_gradient.reference
def lp_pool_gradient_reference(op: OperatorDef, x: Array, y: Array, dy: Array) -> Sequence[Any]:
    p = op.get_float("p", 2.0)

    def share(x: Array, y: Array, dy: Array, divisors: Array) -> Array:
        size = np.where(y == 0, 1, y)
        return np.where(y == 0, 0, dy * np.sign(x) * np.abs(x) ** (p - 1) * size ** (1 - p))

    return _spread(op, x, y, dy, share)


def _largest_tap(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Room for what one tap adds, and for its truth values."""
    y = inputs[1]
    assert y is not None
    return [y, TensorSpec(y.shape, np.bool_)]


@max_pool_gradient.kernel("NUMPY", supports=only_for(FLOAT32_64), scratch=_largest_tap)
def max_pool_gradient_numpy(call: Call) -> Run:
    pool = pool_of(forward_form(call.op), TensorSpec(call.inputs[0].shape, call.inputs[0].dtype))
    x, y, dy, dx, share, mask = (_first(pool, a) for a in (*call.inputs, call.outputs[0], *call.scratch))
    taps = [
        (x[tap.image], y[tap.out], dy[tap.out], dx[tap.image], share[tap.out], mask[tap.out])
        for tap in pool.window.taps()
    ]

    def run() -> None:
        dx.fill(0)
        for pixels, outputs, errors, sums, terms, equal in taps:
            np.equal(pixels, outputs, out=equal)
            np.multiply(errors, equal, out=terms)
            np.add(sums, terms, out=sums)

    return run


@average_pool_gradient.kernel("NUMPY", supports=only_for(FLOAT32_64), scratch=lambda *a: _largest_tap(*a)[:1])
def average_pool_gradient_numpy(call: Call) -> Run:
    pool = pool_of(forward_form(call.op), TensorSpec(call.inputs[0].shape, call.inputs[0].dtype))
    dy, dx, share = (_first(pool, a) for a in (call.inputs[2], call.outputs[0], call.scratch[0]))
    factors = (1 / np.maximum(pool.divisors, 1)).astype(dy.dtype)
    taps = [(dx[tap.image], share[tap.out]) for tap in pool.window.taps()]

    def run() -> None:
        np.multiply(dy, factors, out=share)
        dx.fill(0)
        for sums, terms in taps:
            np.add(sums, terms, out=sums)

    return run


max_pool_gradient.alias("MaxPoolGradient", domain="armnet")
average_pool_gradient.alias("AveragePoolGradient", domain="armnet")
max_pool_gradient.alias("MaxPool1DGradient", "MaxPool2DGradient", "MaxPool3DGradient")
average_pool_gradient.alias("AveragePool1DGradient", "AveragePool2DGradient", "AveragePool3DGradient")
