"""Fast kernels of batch normalisation in training, (N, C, ...) float32 or float64, forward and backward.

They process some channels of an image, or some small images, at a time, so that numbers are still in the cache when
they are needed again. Sums along rows are products with ones, which BLAS computes faster than ``np.add.reduce``; the
mean is subtracted before squares are added, so channels with a large mean lose nothing.
"""

from __future__ import annotations

from math import prod
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.bits import BLOCK, blocks, keep_where_set, octets_of, pack_positive
from runtime_arm.operators.common.statistics import single_or_double
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import shaped

TOGETHER = 32768  # numbers that are computed at once
LONG_ROW = 64  # numbers of a row from which on a call of BLAS for its sum of products costs less than another pass


def channels_first(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Any:
    return "only for order NCHW" if channels_last(op) else single_or_double(op, inputs, outputs)


def _around(x: Any) -> Any:
    return x.shape[0], x.shape[1], prod(x.shape[2:])


def _parts(shape: Tuple[int, ...]) -> List[Tuple[slice, slice]]:
    """Indices of images and channels: all of X, of shape (N, C, size), in parts that are contiguous."""
    images, channels, size = shape
    rows = max(1, min(channels, TOGETHER // max(size, 1)))
    together = max(1, TOGETHER // max(channels * size, 1)) if rows == channels else 1
    return [
        (slice(n, min(n + together, images)), slice(at, min(at + rows, channels)))
        for n in range(0, images, together)
        for at in range(0, channels, rows)
    ]


def _room(shape: Tuple[int, ...]) -> int:
    """The numbers of the largest part."""
    images, channels = next(iter(_parts(shape)), (slice(0, 0), slice(0, 0)))
    return images.stop * channels.stop * shape[2]


def _sum_rows(part: Array, ones: Array, sums: Array) -> None:
    """sums = the sum of each row. part: (n, channels, size), ones: (size, 1), sums: (n, channels, 1)."""
    np.matmul(part.reshape(-1, part.shape[2]), ones, out=sums.reshape(-1, 1))


def _sum_products(part: Array, other: Array, ones: Array, sums: Array) -> None:
    """sums = the sum of each row of part * other, which may overwrite ``part``. Shapes as for ``_sum_rows``."""
    if part.shape[2] >= LONG_ROW:
        np.matmul(part[:, :, None, :], other[:, :, :, None], out=sums[:, :, :, None])
    else:
        np.multiply(part, other, out=part)
        _sum_rows(part, ones, sums)


def forward_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    images, channels, _ = shape = _around(outputs[0])
    dtype = outputs[0].dtype
    vectors = TensorSpec((4, channels, 1), dtype)
    room = TensorSpec((_room(shape),), dtype)
    return [room, TensorSpec((images, channels, 1), dtype), vectors] + [TensorSpec((BLOCK,), np.bool_)] * (
        len(outputs) > 5
    )


def forward_run(call: Call, addend: Optional[Array] = None, relu: bool = True, again: bool = False) -> Run:
    """The run of SpatialBNRelu, with an addend of SpatialBNAddRelu, without ``relu`` of SpatialBN.

    again: inputs 3 and 4 are the statistics that such a run has used, and it makes Y alone.
    """
    x, y = (array.reshape(_around(array)) for array in (call.inputs[0], call.outputs[0]))
    extra = None if addend is None else addend.reshape(x.shape)
    room, _, vectors, *_ = call.scratch
    mean, inverse, factor, shift = vectors
    scale, bias = (parameter.reshape(-1, 1) for parameter in call.inputs[1:3])
    if again:
        statistics = _same_statistics(call, mean, inverse)
    else:
        statistics = _test_statistics(call, mean, inverse) if call.op.get_bool("is_test") else _statistics(call, x)
    outputs = [output.reshape(-1, 1) for output in call.outputs[3:5]]
    mask = _mask_run(call) if len(call.outputs) > 5 else None
    parts = [
        (x[at], y[at], None if extra is None else extra[at], shaped(room, *x[at].shape), at[1])
        for at in _parts(x.shape)
    ]

    def run() -> None:
        statistics()
        for output, value in zip(outputs, (mean, inverse)):
            np.copyto(output, value)
        np.multiply(scale, inverse, out=factor)
        np.copyto(shift, bias)
        for given, result, added, part, rows in parts:
            np.subtract(given, mean[rows], out=part)
            np.multiply(part, factor[rows], out=part)
            last = result if added is None and not relu else part
            np.add(part, shift[rows], out=last)
            if added is not None:
                np.add(part, added, out=part)
            if relu:
                np.maximum(part, 0, out=result)
        if mask is not None:
            mask()

    return run


def _mask_run(call: Call) -> Run:
    flat, octets = call.outputs[0].reshape(-1), octets_of(call.outputs[5])
    parts, flags = blocks(flat.size), call.scratch[3]
    return lambda: pack_positive(flat, octets, parts, flags)


def _same_statistics(call: Call, mean: Array, inverse: Array) -> Run:
    """A run that takes the statistics that are given."""
    given = [statistic.reshape(-1, 1) for statistic in call.inputs[3:5]]

    def run() -> None:
        np.copyto(mean, given[0])
        np.copyto(inverse, given[1])

    return run


def _test_statistics(call: Call, mean: Array, inverse: Array) -> Run:
    """A run that takes the running statistics, and hands them on."""
    given = [statistic.reshape(-1, 1) for statistic in call.inputs[3:5]]
    outputs = [output.reshape(-1, 1) for output in call.outputs[1:3]]
    epsilon = mean.dtype.type(call.op.get_float("epsilon", 1e-5))

    def run() -> None:
        np.copyto(mean, given[0])
        np.add(given[1], epsilon, out=inverse)
        np.sqrt(inverse, out=inverse)
        np.divide(1, inverse, out=inverse)
        for output, value in zip(outputs, given):
            np.copyto(output, value)

    return run


def _statistics(call: Call, x: Array) -> Run:
    """A run that computes the mean and 1 / sqrt(variance + epsilon) of the batch, and moves the running statistics."""
    room, sums, (mean, inverse, spare, _), *_ = call.scratch
    parts = [(x[at], shaped(room, *x[at].shape), sums[at], at[1]) for at in _parts(x.shape)]
    dtype, count = x.dtype.type, x.shape[0] * x.shape[2]
    ones = np.ones((x.shape[2], 1), x.dtype)
    epsilon = dtype(call.op.get_float("epsilon", 1e-5))
    momentum = dtype(call.op.get_float("momentum", 0.9))
    unbiased = dtype(np.float64(count) / (count - 1)) if count > 1 else dtype(np.nan)
    old = [statistic.reshape(-1, 1) for statistic in call.inputs[3:5]]
    new = [output.reshape(-1, 1) for output in call.outputs[1:3]]

    def move(statistic: Array, before: Array, after: Array) -> None:
        np.multiply(statistic, dtype(1) - momentum, out=statistic)
        np.multiply(before, momentum, out=after)
        np.add(after, statistic, out=after)

    def run() -> None:
        _sum_rows(x, ones, sums)
        np.add.reduce(sums, axis=0, out=mean)
        np.divide(mean, dtype(count), out=mean)
        for given, part, squares, rows in parts:
            np.subtract(given, mean[rows], out=part)
            _sum_products(part, part, ones, squares)
        np.add.reduce(sums, axis=0, out=inverse)
        np.divide(inverse, dtype(count), out=inverse)  # the biased variance
        np.copyto(spare, mean)
        move(spare, old[0], new[0])
        np.multiply(inverse, unbiased, out=spare)
        move(spare, old[1], new[1])
        np.add(inverse, epsilon, out=inverse)
        np.sqrt(inverse, out=inverse)
        np.divide(1, inverse, out=inverse)

    return run


def backward_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    images, channels, _ = shape = _around(outputs[0])
    dtype = outputs[0].dtype
    columns = TensorSpec((images, channels, 1), dtype)
    room = TensorSpec((_room(shape),), dtype)
    return [room, columns, columns, TensorSpec((4, channels, 1), dtype)]


def backward_run(call: Call) -> Run:
    """The run of the gradient of SpatialBNRelu or, with 4 outputs, of SpatialBNAddRelu."""
    dx = call.outputs[0]
    g = call.outputs[3] if len(call.outputs) > 3 else dx
    dy, octets, parts = call.inputs[2].reshape(-1), octets_of(call.inputs[5]), blocks(dx.size)
    plain = plain_backward_run(call, g)

    def run() -> None:
        keep_where_set(dy, octets, parts, g.reshape(-1))
        plain()

    return run


def plain_backward_run(call: Call, g: Array, from_output: bool = False) -> Run:
    """The run that computes dX, dscale and dbias of SpatialBN from ``g``, the gradient of its output, which may be the
    memory of dX.

    Input 0 is X and input 3 the mean; or, ``from_output``, Y and the bias: (Y - bias) / scale is what was scaled.
    """
    x, dx = (array.reshape(_around(array)) for array in (call.inputs[0], call.outputs[0]))
    g = g.reshape(x.shape)
    scale, mean, inverse = (call.inputs[at].reshape(-1, 1) for at in (1, 3, 4))
    dscale, dbias = (output.reshape(-1, 1) for output in call.outputs[1:3])
    room, sums, products, (factor, slope, shift, spread) = call.scratch
    ones, count = np.ones((x.shape[2], 1), x.dtype), x.dtype.type(x.shape[0] * x.shape[2])
    is_test = call.op.get_bool("is_test")
    parts = [(x[at], g[at], dx[at], shaped(room, *x[at].shape), products[at], at[1]) for at in _parts(x.shape)]

    def run() -> None:
        _sum_rows(g, ones, sums)
        np.add.reduce(sums, axis=0, out=dbias)
        for given, errors, _, part, sums_of_products, rows in parts:
            np.subtract(given, mean[rows], out=part)
            _sum_products(part, errors, ones, sums_of_products)
        np.add.reduce(products, axis=0, out=dscale)
        if from_output:
            spread.fill(0)
            np.divide(1, scale, out=spread, where=scale != 0)
        else:
            np.copyto(spread, inverse)
        np.multiply(dscale, spread, out=dscale)
        np.multiply(scale, inverse, out=factor)
        if is_test:
            np.multiply(g, factor, out=dx)
            return
        np.multiply(dscale, spread, out=slope)
        np.divide(slope, count, out=slope)
        np.divide(dbias, count, out=shift)
        for given, errors, result, part, _, rows in parts:
            np.subtract(given, mean[rows], out=part)
            np.multiply(part, slope[rows], out=part)
            np.add(part, shift[rows], out=part)
            np.subtract(errors, part, out=part)
            np.multiply(part, factor[rows], out=result)

    return run
