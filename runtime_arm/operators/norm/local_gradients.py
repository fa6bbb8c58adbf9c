"""The gradients of Caffe2's normalisations by norms, of its norm, and of its moments of a batch."""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.slopes import same_floats
from runtime_arm.operators.common.statistics import along_axis, require_floats, single_or_double
from runtime_arm.operators.norm.channel import channel_axis
from runtime_arm.operators.norm.local import channels_in_front, power_into, window_of
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("LRNGradient", inputs=3, dtypes=FLOATS)
def lrn_gradient(op: OperatorDef, x: TensorSpec, y: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dX = dY scale^-beta - 2 alpha beta / size X, times the sum of dY Y / scale over the outputs that read X.

    Arguments and scale as for LRN. Source: caffe2/operators/local_response_normalization_op.cc.
    """
    require(op, x.ndim >= 2, "X needs channels", x)
    return [same_floats(op, x, y, dy)]


def _scale64(op: OperatorDef, x: Array) -> Array:
    """LRN's scale, with the channels in front."""
    squares = np.square(channels_in_front(op, x.astype(np.float64)))
    sums = np.zeros_like(squares)
    for out, seen in window_of(op.get_int("size"), len(squares)):
        sums[out] += squares[seen]
    return op.get_float("bias", 1.0) + op.get_float("alpha", 0.0) / op.get_int("size") * sums


@lrn_gradient.reference
def lrn_gradient_reference(op: OperatorDef, x: Array, y: Array, dy: Array) -> List[Any]:
    scale, beta, size = _scale64(op, x), op.get_float("beta", 0.0), op.get_int("size")
    inputs, outputs, errors = (channels_in_front(op, array.astype(np.float64)) for array in (x, y, dy))
    ratios, sums = errors * outputs / scale, np.zeros(scale.shape)
    for out, seen in window_of(size, len(scale)):
        sums[seen] += ratios[out]
    dx = errors * scale**-beta - 2 * op.get_float("alpha", 0.0) * beta / size * inputs * sums
    return [np.moveaxis(dx, 0, channel_axis(op, x.ndim)).astype(x.dtype)]


def _two(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return [outputs[0], outputs[0]]


@lrn_gradient.kernel("NUMPY", supports=single_or_double, scratch=_two)
def lrn_gradient_numpy(call: Call) -> Run:
    (x, y, dy), dx, (scale, ratios) = call.inputs, call.outputs[0], call.scratch
    op, size = call.op, call.op.get_int("size")
    alpha, beta, bias = op.get_float("alpha", 0.0), op.get_float("beta", 0.0), op.get_float("bias", 1.0)
    fronts = [channels_in_front(op, array) for array in (scale, dx, ratios)]
    taps = [(out, seen) for out, seen in window_of(size, len(fronts[0]))]
    squares = [(fronts[0][out], fronts[1][seen]) for out, seen in taps]
    spread = [(fronts[1][seen], fronts[2][out]) for out, seen in taps]
    powers, factor, back = (
        power_into(scale, beta, ratios),
        x.dtype.type(alpha / size),
        x.dtype.type(-2 * alpha * beta / size),
    )

    def run() -> None:
        np.multiply(x, x, out=dx)
        np.multiply(dx, factor, out=dx)
        scale.fill(bias)
        for target, source in squares:
            np.add(target, source, out=target)
        np.multiply(dy, y, out=ratios)
        np.divide(ratios, scale, out=ratios)
        dx.fill(0)
        for target, source in spread:
            np.add(target, source, out=target)
        np.multiply(dx, x, out=dx)
        np.multiply(dx, back, out=dx)
        powers()
        np.divide(dy, ratios, out=ratios)
        np.add(dx, ratios, out=dx)

    return run


@operator("NormalizeGradient", inputs=2, dtypes=FLOATS)
def normalize_gradient(op: OperatorDef, x: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dX = dY / n - X (sum of X dY) / n^3 along ``axis`` (-1), n = max(Euclidean norm of X, 1e-12)."""
    axis_of(op, op.get_int("axis", -1), x.ndim)
    return [same_floats(op, x, dy)]


@normalize_gradient.reference
def normalize_gradient_reference(op: OperatorDef, x: Array, dy: Array) -> List[Any]:
    axis = op.get_int("axis", -1)
    a, d = x.astype(np.float64), dy.astype(np.float64)
    norm = np.maximum(np.sqrt(np.square(a).sum(axis=axis, keepdims=True)), 1e-12)
    return [(d / norm - a * (a * d).sum(axis=axis, keepdims=True) / norm**3).astype(x.dtype)]


@operator("LpNormGradient", inputs=2, dtypes=FLOATS)
def lp_norm_gradient(op: OperatorDef, x: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dX = 2 X dY, or with p=1 sign(X) dY; with ``average`` divided by the number of elements."""
    require_floats(op, x, dy)
    require(op, dy.size == 1, "dY must be one number", x, dy)
    require(op, op.get_int("p", 2) in (1, 2), f"p must be 1 or 2, got {op.get_int('p', 2)}")
    return [x]


@lp_norm_gradient.reference
def lp_norm_gradient_reference(op: OperatorDef, x: Array, dy: Array) -> List[Any]:
    a = x.astype(np.float64)
    slope = np.sign(a) if op.get_int("p", 2) == 1 else 2 * a
    share = max(x.size, 1) if op.get_bool("average") else 1
    return [(slope * dy.astype(np.float64).reshape(()) / share).astype(x.dtype)]


@operator("BatchMomentsGradient", inputs=3, dtypes=FLOATS)
def batch_moments_gradient(op: OperatorDef, dmean: TensorSpec, dsquare: TensorSpec, x: TensorSpec) -> List[TensorSpec]:
    """dX = (dmean + 2 X dsquare) / n per channel of n elements."""
    require_floats(op, dmean, dsquare, x)
    require(op, x.ndim >= 2, "X needs channels", x)
    channels = x.shape[channel_axis(op, x.ndim)]
    require(op, dmean.size == dsquare.size == channels, "there must be one number per channel", dmean, dsquare, x)
    return [x]


@batch_moments_gradient.reference
def batch_moments_gradient_reference(op: OperatorDef, dmean: Array, dsquare: Array, x: Array) -> List[Any]:
    axis = channel_axis(op, x.ndim)
    first, second = (along_axis(d.astype(np.float64).reshape(-1), axis, x.ndim) for d in (dmean, dsquare))
    return [((first + 2 * x * second) * (x.shape[axis] / x.size)).astype(x.dtype)]


@operator("RMSNormGradient", inputs=4, outputs=3, dtypes=FLOATS)
def rms_norm_gradient(
    op: OperatorDef, dy: TensorSpec, x: TensorSpec, gamma: TensorSpec, rrms: TensorSpec
) -> List[TensorSpec]:
    """dX = r (g - x^ mean of g x^) with x^ = X r, g = dY gamma; dgamma = the sum of dY x^, dbeta = the sum of dY."""
    same_floats(op, dy, x)
    axis = axis_of(op, op.get_int("axis", 1), x.ndim)
    require(op, rrms.shape == x.shape[:axis], "there must be one r for each row", x, rrms)
    return [x, gamma, gamma]


@rms_norm_gradient.reference
def rms_norm_gradient_reference(op: OperatorDef, dy: Array, x: Array, gamma: Array, rrms: Array) -> List[Any]:
    flat = (rrms.size, gamma.size)
    d, a = (array.astype(np.float64).reshape(flat) for array in (dy, x))
    r = rrms.astype(np.float64).reshape(-1, 1)
    normal, terms = a * r, d * gamma.astype(np.float64).reshape(1, -1)
    dx = r * (terms - normal * (terms * normal).mean(axis=1, keepdims=True))
    sums = ((d * normal).sum(axis=0), d.sum(axis=0))
    return [dx.reshape(x.shape).astype(x.dtype), *(s.reshape(gamma.shape).astype(x.dtype) for s in sums)]


@operator("AffineChannelGradient", inputs=(2, 3), outputs=(1, 3), dtypes=FLOATS, inplace={0: 0})
def affine_channel_gradient(op: OperatorDef, dy: TensorSpec, *others: TensorSpec) -> List[TensorSpec]:
    """dX = dY scale per channel. Inputs: dY, scale; with ``is_learnable`` dY, X, scale.

    With ``is_learnable`` there are further outputs: dscale = the sum of dY X, dbias = the sum of dY.
    """
    *x, scale = others
    require_floats(op, dy, scale, *x)
    require(op, dy.ndim >= 2, "dY needs channels", dy)
    require(op, scale.size == dy.shape[channel_axis(op, dy.ndim)], "there must be one scale per channel", dy, scale)
    require(op, len(x) == op.get_bool("is_learnable"), "X must be given with is_learnable, and only then", *x)
    return [dy, scale, scale]


@affine_channel_gradient.reference
def affine_channel_gradient_reference(op: OperatorDef, dy: Array, *others: Array) -> List[Any]:
    *x, scale = others
    axis, wide = channel_axis(op, dy.ndim), dy.astype(np.float64)
    dx = wide * along_axis(scale.astype(np.float64).reshape(-1), axis, dy.ndim)
    rest = tuple(i for i in range(dy.ndim) if i != axis)
    sums = [total.sum(axis=rest).reshape(scale.shape) for array in x for total in (wide * array, wide)]
    return [result.astype(dy.dtype) for result in (dx, *sums)]
