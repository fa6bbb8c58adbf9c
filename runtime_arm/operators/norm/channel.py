"""Normalisation per channel: batch and instance normalisation, AffineChannel, statistics of a batch (Caffe2, ONNX)."""

from __future__ import annotations

from math import prod
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.statistics import (
    RowStatistics,
    along_axis,
    columns,
    moments,
    require_channels,
    require_floats,
    single_or_double,
    split_at,
    standardized,
    statistics_buffers,
)
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def channel_axis(op: OperatorDef, ndim: int) -> int:
    """The channel dimension, as the argument ``order`` says."""
    return ndim - 1 if channels_last(op) else 1


def _others(axis: int, ndim: int) -> List[int]:
    return [i for i in range(ndim) if i != axis]


@operator(
    "SpatialBN",
    inputs=(5, 7),
    outputs=(1, 5),
    inplace={0: 0, 1: 3, 2: 4},
    kind=Kind.BATCH_NORM,
    fused="FusedBatchNorm",
)
def spatial_bn(
    op: OperatorDef,
    x: TensorSpec,
    scale: TensorSpec,
    bias: TensorSpec,
    mean: TensorSpec,
    variance: TensorSpec,
    *sums: TensorSpec,
) -> List[TensorSpec]:
    """Y = (X - mean) / sqrt(var + epsilon) * scale + bias per channel. X: (N, C, ...) or, order NHWC, (N, ..., C).

    With is_test=0 mean and variance are those of the batch. Outputs 1 to 4 are then the running mean and variance
    (momentum * old + (1 - momentum) * new, the new variance unbiased), the batch's mean and 1 / sqrt(var + epsilon).
    epsilon is 1e-5, momentum 0.9. With ``num_batches`` above 1 the statistics are those of as many batches of X's size,
    whose sums of X and of X squared, as ChannelStats gives them, are inputs 5 and 6. Source: Caffe2; Ioffe and Szegedy,
    Batch Normalization (2015).
    """
    training = not op.get_int("is_test")
    require_sums(op, training, x.shape[channel_axis(op, x.ndim)] if x.ndim > 1 else 0, *sums)
    if len(op.output) != (5 if training else 1):
        raise ArgumentError(op, "with is_test=1 there must be 1 output, with is_test=0 there must be 5")
    require(op, x.ndim >= 2, "X must have 2 dimensions or more", x)
    require_floats(op, x, scale, bias, mean, variance)
    epsilon, momentum = op.get_float("epsilon", 1e-5), op.get_float("momentum", 0.9)
    require(op, epsilon >= 0, f"epsilon must be at least 0, got {epsilon:g}")
    require(op, 0 <= momentum <= 1, f"momentum must be 0 to 1, got {momentum:g}")
    axis = channel_axis(op, x.ndim)
    require_channels(op, x, axis, scale, bias, mean, variance)
    return [x] + [x.with_shape((x.shape[axis],))] * (4 if training else 0)


def require_sums(op: OperatorDef, training: bool, channels: int, *sums: TensorSpec) -> None:
    """OperatorError unless training with ``num_batches`` above 1 has two sums, of floats for each channel. Other
    training ignores them; evaluation has none."""
    several = training and several_batches(op)
    if len(sums) not in ((2,) if several else (0, 2) if training else (0,)):
        raise ArgumentError(op, "training with num_batches above 1, and no evaluation, takes the sums, inputs 5 and 6")
    fit = all(spec.dtype == np.float32 and spec.size == channels for spec in sums)
    require(op, fit, f"inputs 5 and 6 must be {channels} float32 each", *sums)


def several_batches(op: OperatorDef) -> bool:
    """Whether training uses the statistics of several batches."""
    return op.get_int("num_batches", 1) > 1


@spatial_bn.reference
def spatial_bn_reference(
    op: OperatorDef, x: Array, scale: Array, bias: Array, mean: Array, variance: Array, *sums: Array
) -> List[Any]:
    axis, epsilon = channel_axis(op, x.ndim), op.get_float("epsilon", 1e-5)
    if op.get_int("is_test"):
        return [_normalized(x, axis, epsilon, scale, bias, mean, variance)]
    count = np.float64(x.size // max(x.shape[axis], 1))
    if several_batches(op) and count:
        count *= op.get_int("num_batches")
        batch_mean, squares = (total.astype(np.float64).reshape(-1) / count for total in sums)
        batch_variance = squares - np.square(batch_mean)
    else:
        batch_mean, batch_variance = (m.reshape(-1) for m in moments(x, _others(axis, x.ndim)))
    y = _normalized(x, axis, epsilon, scale, bias, batch_mean, batch_variance)
    if count == 0:
        results = [mean.reshape(-1), variance.reshape(-1), batch_mean, batch_variance]
    else:
        unbiased = batch_variance * (count / (count - 1))
        momentum = op.get_float("momentum", 0.9)
        results = [
            _blend(momentum, mean, batch_mean),
            _blend(momentum, variance, unbiased),
            batch_mean,
            1 / np.sqrt(batch_variance + epsilon),
        ]
    return [y] + [result.astype(x.dtype) for result in results]


def _normalized(x: Array, axis: int, epsilon: float, *parameters: Array) -> Array:
    scale, bias, mean, variance = (along_axis(p.astype(np.float64), axis, x.ndim) for p in parameters)
    return ((x - mean) / np.sqrt(variance + epsilon) * scale + bias).astype(x.dtype)


def _blend(momentum: float, old: Array, new: Array) -> Array:
    return momentum * old.astype(np.float64).reshape(-1) + (1 - momentum) * new


def _inference_only(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Any:
    return single_or_double(op, inputs, outputs) if op.get_int("is_test") else "only for is_test=1"


@spatial_bn.kernel("NUMPY", supports=_inference_only)
def spatial_bn_numpy(call: Call) -> Run:
    prepare, factor, shift = inference_factors(call)
    scaled = _scaled(call.inputs[0], call.outputs[0], channel_axis(call.op, call.inputs[0].ndim), factor, shift)
    if prepare is None:
        return scaled

    def run() -> None:
        prepare()
        scaled()

    return run


def inference_factors(call: Call) -> Tuple[Optional[Run], Array, Array]:
    """A run that computes factor and shift of a normalisation in evaluation, Y = X * factor + shift, and both arrays.

    There is one factor and one shift per channel. The run is None if the parameters are constants: then both are
    computed already.
    """
    scale, bias, mean, variance = (parameter.reshape(-1) for parameter in call.inputs[1:5])
    epsilon = scale.dtype.type(call.op.get_float("epsilon", 1e-5))
    factor, shift = np.empty_like(scale), np.empty_like(scale)

    def prepare() -> None:
        np.add(variance, epsilon, out=factor)
        np.sqrt(factor, out=factor)
        np.divide(scale, factor, out=factor)
        np.multiply(mean, factor, out=shift)
        np.subtract(bias, shift, out=shift)

    if all(spec is not None and spec.value is not None for spec in call.in_specs[1:5]):
        prepare()
        return None, factor, shift
    return prepare, factor, shift


def _scaled(x: Array, y: Array, axis: int, factor: Array, shift: Array) -> Run:
    """A run that writes X * factor + shift to Y. There is one factor and one shift per channel."""
    around = (prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]))
    x, y = x.reshape(around), y.reshape(around)
    factors, shifts = factor.reshape(-1, 1), shift.reshape(-1, 1)

    def run() -> None:
        np.multiply(x, factors, out=y)
        np.add(y, shifts, out=y)

    return run


@operator("AffineChannel", inputs=3, inplace={0: 0})
def affine_channel(op: OperatorDef, x: TensorSpec, scale: TensorSpec, bias: TensorSpec) -> List[TensorSpec]:
    """Y = X * scale + bias per channel. X: (N, C, ...) or, order NHWC, (N, ..., C). Source: Caffe2."""
    require(op, x.ndim >= 2, "X must have 2 dimensions or more", x)
    require_floats(op, x, scale, bias)
    require_channels(op, x, channel_axis(op, x.ndim), scale, bias)
    return [x]


@affine_channel.reference
def affine_channel_reference(op: OperatorDef, x: Array, scale: Array, bias: Array) -> List[Any]:
    axis = channel_axis(op, x.ndim)
    y = x * along_axis(scale.astype(np.float64), axis, x.ndim) + along_axis(bias, axis, x.ndim)
    return [y.astype(x.dtype)]


@affine_channel.kernel("NUMPY", supports=single_or_double)
def affine_channel_numpy(call: Call) -> Run:
    x, scale, bias = call.inputs
    return _scaled(x, call.outputs[0], channel_axis(call.op, x.ndim), scale, bias)


@operator("BatchNormalization", domain="onnx", inputs=5, outputs=(1, 3))
def batch_normalization(
    op: OperatorDef, x: TensorSpec, scale: TensorSpec, bias: TensorSpec, mean: TensorSpec, variance: TensorSpec
) -> List[TensorSpec]:
    """ONNX's form of SpatialBN: parameters may have another float dtype, X one dimension (one channel).

    Variances are biased. With training_mode, outputs 1 and 2 are the running mean and variance: momentum * old + (1 -
    momentum) * batch.
    """
    for spec in (x, scale, bias, mean, variance):
        require_floats(op, spec)
    require(op, x.ndim >= 1, "X must have a dimension", x)
    require_channels(op, x if x.ndim > 1 else x.with_shape((x.size, 1)), 1, scale, bias, mean, variance)
    training = op.get_bool("training_mode")
    require(op, training or len(op.output) == 1, "outputs 1 and 2 need training_mode")
    return [x] + ([mean.with_shape((mean.size,)), variance.with_shape((mean.size,))] if training else [])


@batch_normalization.reference
def batch_normalization_reference(
    op: OperatorDef, x: Array, scale: Array, bias: Array, mean: Array, variance: Array
) -> List[Any]:
    channels = x if x.ndim > 1 else x.reshape(-1, 1)
    epsilon, momentum = op.get_float("epsilon", 1e-5), op.get_float("momentum", 0.9)
    if not op.get_bool("training_mode"):
        return [_normalized(channels, 1, epsilon, scale, bias, mean, variance).reshape(x.shape)]
    batch_mean, batch_variance = (m.reshape(-1) for m in moments(channels, _others(1, channels.ndim)))
    y = _normalized(channels, 1, epsilon, scale, bias, batch_mean, batch_variance).reshape(x.shape)
    running = [_blend(momentum, mean, batch_mean), _blend(momentum, variance, batch_variance)]
    return [y, *(new.astype(old.dtype) for new, old in zip(running, (mean, variance)))]


@operator("InstanceNorm", inputs=3, outputs=(1, 3), inplace={0: 0})
def instance_norm(op: OperatorDef, x: TensorSpec, scale: TensorSpec, bias: TensorSpec) -> List[TensorSpec]:
    """Y = (X - mean) / sqrt(var + epsilon) * scale + bias per image and channel.

    X: (N, C, ...) or, order NHWC, (N, ..., C). Outputs 1 and 2 are mean and 1 / sqrt(var + epsilon), (N, C). epsilon is
    1e-5. Source: Caffe2; Ulyanov et al., Instance Normalization (2016).
    """
    if op.get_float("epsilon", 1e-5) < 0:
        raise ArgumentError(op, f"epsilon must not be negative, got {op.get_float('epsilon')}")
    require(op, x.ndim >= 2, "X must have 2 dimensions or more", x)
    require_floats(op, x, scale, bias)
    axis = channel_axis(op, x.ndim)
    require_channels(op, x, axis, scale, bias)
    statistics = x.with_shape((x.shape[0], x.shape[axis]))
    return [x, statistics, statistics]


@instance_norm.reference
def instance_norm_reference(op: OperatorDef, x: Array, scale: Array, bias: Array) -> List[Any]:
    axis = channel_axis(op, x.ndim)
    y, mean, inverse = standardized(x, _others(axis, x.ndim)[1:], op.get_float("epsilon", 1e-5))
    y = y * along_axis(scale.astype(np.float64), axis, x.ndim) + along_axis(bias, axis, x.ndim)
    shape = (x.shape[0], x.shape[axis])
    return [y.astype(x.dtype), mean.reshape(shape).astype(x.dtype), inverse.reshape(shape).astype(x.dtype)]


def _channels_first(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Any:
    return "only for order NCHW" if channels_last(op) else single_or_double(op, inputs, outputs)


def _instance_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    x = outputs[0]
    return columns(prod(x.shape[:2]), x.dtype, 3)


@instance_norm.kernel("NUMPY", supports=_channels_first, scratch=_instance_scratch)
def instance_norm_numpy(call: Call) -> Run:
    x, scale, bias = call.inputs
    mean, inverse = statistics_buffers(call)
    factor = call.scratch[2]
    matrix = split_at(x.shape, 2)
    y = call.outputs[0].reshape(matrix)
    rows = RowStatistics(x.reshape(matrix), y, mean, inverse, call.op.get_float("epsilon", 1e-5))
    by_image = (x.shape[0], x.shape[1])
    images = y.reshape(*by_image, matrix[1])
    shift = bias.reshape(-1, 1)

    def run() -> None:
        rows.centre()
        rows.measure(y)
        np.multiply(inverse.reshape(by_image), scale.reshape(-1), out=factor.reshape(by_image))
        np.multiply(y, factor, out=y)
        np.add(images, shift, out=images)

    return run


@operator("NormalizePlanarYUV", inputs=3, inplace={0: 0})
def normalize_planar_yuv(op: OperatorDef, x: TensorSpec, mean: TensorSpec, deviation: TensorSpec) -> List[TensorSpec]:
    """Y = (X - M[0, c]) / S[0, c]. X: (N, C, H, W); M, S: (any, C). As in Caffe2, only their first row counts."""
    require_floats(op, x, mean, deviation)
    require(op, x.ndim == 4, "X must be (N, C, H, W)", x)
    for table in (mean, deviation):
        require(
            op,
            table.ndim == 2 and table.shape[0] > 0 and table.shape[1] == x.shape[1],
            "mean and deviation must be (1, C)",
            x,
            table,
        )
    return [x]


@normalize_planar_yuv.reference
def normalize_planar_yuv_reference(op: OperatorDef, x: Array, mean: Array, deviation: Array) -> List[Any]:
    return [((x - along_axis(mean[0].astype(np.float64), 1, 4)) / along_axis(deviation[0], 1, 4)).astype(x.dtype)]


@operator("ChannelStats", outputs=2, dtypes=("float32",))
def channel_stats(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The sums of X and of X squared per channel, (C,) each. X: (N, C, ...) or, order NHWC, (N, ..., C)."""
    require(op, x.ndim >= 2, "X must have 2 dimensions or more", x)
    channels = x.with_shape((x.shape[channel_axis(op, x.ndim)],))
    return [channels, channels]


@channel_stats.reference
def channel_stats_reference(op: OperatorDef, x: Array) -> List[Any]:
    return _of_elements_and_squares(op, x, np.sum)


@operator("BatchMoments", outputs=2)
def batch_moments(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The means of X and of X squared per channel, (C,) each. X: (N, C, ...) or, order NHWC, (N, ..., C)."""
    require_floats(op, x)
    require(op, x.ndim >= 2 and x.size > 0, "X must have 2 dimensions or more and not be empty", x)
    channels = x.with_shape((x.shape[channel_axis(op, x.ndim)],))
    return [channels, channels]


@batch_moments.reference
def batch_moments_reference(op: OperatorDef, x: Array) -> List[Any]:
    return _of_elements_and_squares(op, x, np.mean)


def _of_elements_and_squares(op: OperatorDef, x: Array, reduce: Callable[..., Any]) -> List[Any]:
    exact, axes = x.astype(np.float64), tuple(_others(channel_axis(op, x.ndim), x.ndim))
    return [reduce(numbers, axis=axes).astype(x.dtype) for numbers in (exact, np.square(exact))]
