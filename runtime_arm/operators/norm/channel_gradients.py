"""The gradient of SpatialBN, from the batch's statistics or, with is_test, the running ones."""

from __future__ import annotations

from math import prod
from typing import Any, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.slopes import same_floats
from runtime_arm.operators.common.statistics import along_axis, require_channels, require_floats, single_or_double
from runtime_arm.operators.norm.channel import channel_axis, require_sums, several_batches
from runtime_arm.registry.blocks import blocks
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("SpatialBNGradient", inputs=(5, 7), outputs=3)
def spatial_bn_gradient(
    op: OperatorDef,
    x: TensorSpec,
    scale: TensorSpec,
    dy: TensorSpec,
    mean: TensorSpec,
    spread: TensorSpec,
    *sums: TensorSpec,
) -> List[TensorSpec]:
    """Per channel of n elements, with x^ = (X - mean) s: dscale = sum of dY x^, dbias = sum of dY, and
    dX = scale s (dY - dbias / n - x^ dscale / n), where ``spread`` is s, the batch's 1 / sqrt(var + epsilon).

    With is_test mean and variance are constants: ``spread`` is the running variance, s = 1 / sqrt(spread + epsilon) and
    dX = scale s dY. (Caffe2 takes the variance for s, and the formula of training.) X needs 3 dimensions or more.
    With ``num_batches`` above 1 inputs 5 and 6 are dscale and dbias summed over as many batches; they are averaged.
    """
    require(op, x.ndim >= 3, "X must have 3 dimensions or more", x)
    require_floats(op, x, scale, dy, mean, spread)
    same_floats(op, x, dy)
    require_channels(op, x, channel_axis(op, x.ndim), scale, mean, spread)
    require_sums(op, not op.get_bool("is_test"), scale.size, *sums)
    return [x, scale, scale]


@spatial_bn_gradient.reference
def spatial_bn_gradient_reference(
    op: OperatorDef, x: Array, scale: Array, dy: Array, mean: Array, spread: Array, *sums: Array
) -> List[Any]:
    axis, test = channel_axis(op, x.ndim), op.get_bool("is_test")
    wide = [a.astype(np.float64) for a in (x, scale, dy, mean, spread)]
    factor, centre, inverse = (along_axis(wide[i].reshape(-1), axis, x.ndim) for i in (1, 3, 4))
    if test:
        inverse = 1 / np.sqrt(inverse + op.get_float("epsilon", 1e-5))
    others = tuple(i for i in range(x.ndim) if i != axis)
    normal, count = (wide[0] - centre) * inverse, max(x.size // max(x.shape[axis], 1), 1)
    dscale, dbias = (wide[2] * normal).sum(axis=others, keepdims=True), wide[2].sum(axis=others, keepdims=True)
    if not test and several_batches(op):
        dscale, dbias = (along_axis(d.reshape(-1) / op.get_int("num_batches"), axis, x.ndim) for d in sums)
    dx = factor * inverse * (wide[2] if test else wide[2] - dbias / count - normal * dscale / count)
    return [dx.astype(x.dtype), *(d.reshape(scale.shape).astype(scale.dtype) for d in (dscale, dbias))]


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    x = outputs[0]
    around = _around(op, x.shape)
    largest = max((prod(np.empty(around, np.bool_)[index].shape) for index in blocks(around)[:1]), default=0)
    return [TensorSpec((largest,), x.dtype), *[TensorSpec((around[0], around[1], 1), x.dtype)] * 2]


def _around(op: OperatorDef, shape: Sequence[int]) -> Any:
    """X's shape as (before, channels, behind)."""
    axis = channel_axis(op, len(shape))
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def _channels_first(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Any:
    if channel_axis(op, outputs[0].ndim) != 1:
        return "only for channels before the image"
    if not op.get_bool("is_test") and several_batches(op):
        return "only for sums over one batch"
    return single_or_double(op, inputs, outputs) if outputs[0].size else "X is empty"


@spatial_bn_gradient.kernel("NUMPY", supports=_channels_first, scratch=_scratch)
def spatial_bn_gradient_numpy(call: Call) -> Run:
    around = _around(call.op, call.inputs[0].shape)
    x, dy, dx = (array.reshape(around) for array in (call.inputs[0], call.inputs[2], call.outputs[0]))
    scale, mean, spread = (call.inputs[i].reshape(-1, 1) for i in (1, 3, 4))
    dscale, dbias = (output.reshape(-1, 1) for output in call.outputs[1:])
    room, sums, products = call.scratch
    test, count = call.op.get_bool("is_test"), x.dtype.type(around[0] * around[2])
    epsilon = x.dtype.type(call.op.get_float("epsilon", 1e-5))
    ones, inverse, of_dy, of_x, rest = np.ones((around[2], 1), x.dtype), *(np.empty_like(mean) for _ in range(4))
    parts = [(dx[i], dy[i], room[: dx[i].size].reshape(dx[i].shape), _rows(i)) for i in blocks(around)]

    def run() -> None:
        np.copyto(inverse, spread)
        if test:
            np.add(inverse, epsilon, out=inverse)
            np.sqrt(inverse, out=inverse)
            np.divide(1, inverse, out=inverse)
        np.subtract(x, mean, out=dx)
        np.matmul(dy, ones, out=sums)
        np.matmul(dx[:, :, None, :], dy[:, :, :, None], out=products[:, :, :, None])
        np.add.reduce(sums, axis=0, out=dbias)
        np.add.reduce(products, axis=0, out=dscale)
        np.multiply(dscale, inverse, out=dscale)
        np.multiply(scale, inverse, out=of_dy)
        if test:
            np.multiply(dy, of_dy, out=dx)
            return
        np.multiply(of_dy, -1 / count, out=rest)
        np.multiply(rest, inverse, out=of_x)
        np.multiply(of_x, dscale, out=of_x)
        np.multiply(rest, dbias, out=rest)
        for part, errors, terms, channels in parts:
            np.multiply(part, of_x[channels], out=part)
            np.multiply(errors, of_dy[channels], out=terms)
            np.add(part, terms, out=part)
            np.add(part, rest[channels], out=part)

    return run


def _rows(index: Any) -> Any:
    """The channels of a block of (before, channels, behind), for a column with one row a channel."""
    if index == (...,):
        return slice(None)
    return index[1] if len(index) > 1 else slice(None)
