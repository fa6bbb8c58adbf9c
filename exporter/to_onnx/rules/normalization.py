"""Normalisations."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import numpy as np

from exporter.to_onnx.rules import Call, Results, rule
from runtime_arm.errors import ExportError
from runtime_arm.operators.common.windows import channels_last


def _vector(call: Call, index: int) -> str:
    """A per-channel parameter as a vector."""
    dims = call.known_dims(index)
    if dims is not None and len(dims) == 1:
        return call.input(index)
    return call.weight(index, lambda w: w.reshape(-1)) or call.reshaped(call.input(index), -1)


def _along_channels(call: Call, index: int) -> str:
    """A per-channel parameter in a shape that broadcasts to the first input."""
    if channels_last(call.op):
        return _vector(call, index)
    shape = [-1, *[1] * (call.rank() - 2)]
    return call.weight(index, lambda w: w.reshape(shape)) or call.reshaped(call.input(index), *shape)


@rule("SpatialBN")
def spatial_bn(call: Call) -> Results:
    if not call.op.get_int("is_test", 0):
        raise ExportError("it uses the statistics of each batch, as in training")
    parameters, epsilon = [_vector(call, index) for index in range(1, 5)], call.op.get_float("epsilon", 1e-5)
    if not channels_last(call.op):
        return call.node("BatchNormalization", call.x, *parameters, epsilon=epsilon)
    rank = call.rank()
    y = call.node("BatchNormalization", call.channels_first(call.x, rank), *parameters, epsilon=epsilon)
    return call.channels_last(y, rank)


@rule("AffineChannel")
def affine_channel(call: Call) -> Results:
    scale, bias = (_along_channels(call, index) for index in (1, 2))
    return call.node("Add", call.node("Mul", call.x, scale), bias)


@rule("NormalizePlanarYUV")
def normalize_planar_yuv(call: Call) -> Results:
    """Only the first row of the tables of means and deviations is used."""
    rows = [call.node("Slice", call.input(index), call.ints(0), call.ints(1), call.ints(0)) for index in (1, 2)]
    mean, deviation = (call.reshaped(row, -1, 1, 1) for row in rows)
    return call.node("Div", call.node("Sub", call.x, mean), deviation)


@rule("InstanceNorm")
def instance_norm(call: Call) -> Results:
    """Outputs 1 and 2 are mean and 1 / sqrt(var + epsilon) of each picture and channel."""
    rank, epsilon = call.rank() if channels_last(call.op) else 0, call.op.get_float("epsilon", 1e-5)
    x = call.channels_first(call.x, rank) if rank else call.x
    y = call.node("InstanceNormalization", x, _vector(call, 1), _vector(call, 2), epsilon=epsilon)
    statistics = _statistics(call, x, -1, epsilon) if call.wants(1) or call.wants(2) else []
    return [call.channels_last(y, rank) if rank else y, *statistics]


@rule("GroupNorm")
def group_norm(call: Call) -> Results:
    """ONNX's operator since opset 21, with one parameter per channel; other outputs as in InstanceNorm."""
    rank, epsilon = call.rank() if channels_last(call.op) else 0, call.op.get_float("epsilon", 1e-5)
    x, groups = call.channels_first(call.x, rank) if rank else call.x, call.op.get_int("group", 32)
    y = call.node("GroupNormalization", x, _vector(call, 1), _vector(call, 2), epsilon=epsilon, num_groups=groups)
    statistics = _statistics(call, x, groups, epsilon) if call.wants(1) or call.wants(2) else []
    return [call.channels_last(y, rank) if rank else y, *statistics]


def _statistics(call: Call, x: str, groups: int, epsilon: float) -> List[str]:
    """Mean and 1 / sqrt(var + epsilon) of each picture and group of channels; -1: every channel is a group."""
    shape = call.ints(0, groups, -1) if groups != -1 else call.ints(0, 0, -1)
    if groups == -1 and call.rank() == 2:
        shape = call.node("Concat", call.node("Shape", x), call.ints(1), axis=0)
    grouped = call.node("Reshape", x, shape)
    mean, variance = _moments_of(call, grouped, [2])
    root = call.node("Sqrt", call.node("Add", variance, call.number(epsilon)))
    return [call.node("Squeeze", result, call.ints(2)) for result in (mean, call.node("Reciprocal", root))]


@rule("LayerNorm")
def layer_norm(call: Call) -> Results:
    """The second and third outputs are mean and standard deviation, with a last dimension of 1."""
    axis, epsilon, rank = call.op.get_int("axis", 1), call.op.get_float("epsilon", 1e-5), call.rank()
    axis += rank if axis < 0 else 0
    mean, variance = _moments(call, range(axis, rank))
    deviation = call.node("Sqrt", call.node("Add", variance, call.number(epsilon)))
    y = call.node("Div", call.node("Sub", call.x, mean), deviation)
    if call.op.get_bool("elementwise_affine"):
        shape = call.node("Shape", call.x, start=axis)
        gamma, beta = (call.node("Reshape", call.input(index), shape) for index in (1, 2))
        y = call.node("Add", call.node("Mul", y, gamma), beta)
    results: List[Optional[str]] = [y]
    for index, statistic in ((1, mean), (2, deviation)):
        results.append(call.reshaped(statistic, *[0] * axis, 1) if call.wants(index) else None)
    return results


def _moments(call: Call, axes: Sequence[int]) -> Tuple[str, str]:
    """Mean and variance over the axes, which are kept with size 1."""
    return _moments_of(call, call.x, axes)


def _moments_of(call: Call, x: str, axes: Sequence[int]) -> Tuple[str, str]:
    mean = call.node("ReduceMean", x, call.ints(*axes))
    centred = call.node("Sub", x, mean)
    return mean, call.node("ReduceMean", call.node("Mul", centred, centred), call.ints(*axes))


@rule("RMSNorm")
def rms_norm(call: Call) -> Results:
    axis, rank = call.op.get_int("axis", 1), call.rank()
    axis += rank if axis < 0 else 0
    mean = call.node("ReduceMean", call.node("Mul", call.x, call.x), call.ints(*range(axis, rank)))
    root = call.node("Sqrt", call.node("Add", mean, call.number(call.op.get_float("eps", 0.0))))
    shape = call.node("Shape", call.x, start=axis)
    gamma, beta = (call.node("Reshape", call.input(index), shape) for index in (1, 2))
    y = call.node("Add", call.node("Mul", call.node("Div", call.x, root), gamma), beta)
    if not call.wants(1):
        return y
    leading = call.node("Shape", call.x, start=0, end=axis)
    return [y, call.node("Reshape", call.node("Reciprocal", root), leading)]


@rule("Moments")
def moments(call: Call) -> Results:
    axes = list(call.op.get_ints("axes")) or list(range(call.rank()))
    mean, variance = _moments(call, axes)
    if call.op.get_bool("keepdims", True):
        return [mean, variance]
    return [call.node("Squeeze", result, call.ints(*axes)) for result in (mean, variance)]


@rule("BatchMoments")
def batch_moments(call: Call) -> Results:
    rank = call.rank()
    axes = [axis for axis in range(rank) if axis != (rank - 1 if channels_last(call.op) else 1)]
    squares = call.node("Mul", call.x, call.x)
    return [call.node("ReduceMean", name, call.ints(*axes), keepdims=0) for name in (call.x, squares)]


@rule("LRN", "onnx.LRN")
def local_response_normalization(call: Call) -> Results:
    """onnxruntime's LRN takes only odd sizes; even sizes, and the second output, the divisor, need several nodes."""
    op, rank = call.op, call.rank() if channels_last(call.op) else 0
    x = call.channels_first(call.x, rank) if rank else call.x
    size, beta = op.get_int("size"), op.get_float("beta", 0.75 if op.domain else 0.0)
    alpha, bias = op.get_float("alpha", 1e-4 if op.domain else 0.0), op.get_float("bias", 1.0)
    if size % 2 and not call.wants(1):
        y = call.node("LRN", x, size=size, alpha=alpha, beta=beta, bias=bias)
        return call.channels_last(y, rank) if rank else y
    scale = call.node("Add", call.node("Mul", _mean_of_squares(call, x, size), call.number(alpha)), call.number(bias))
    results = [call.node("Div", x, call.node("Pow", scale, call.number(beta))), scale]
    return [call.channels_last(y, rank) if rank else y for y in results[: len(op.output)]]


def _mean_of_squares(call: Call, x: str, size: int) -> str:
    """The mean over ``size`` channels, computed by a pool with the channels as rows of a picture."""
    rows = call.node("Unsqueeze", call.node("Mul", x, x), call.ints(1))
    kernel, spatial = [size, *[1] * (call.rank() - 2)], [0] * (call.rank() - 2)
    pads = [(size - 1) // 2, *spatial, size // 2, *spatial]
    return call.node(
        "Squeeze", call.node("AveragePool", rows, kernel_shape=kernel, pads=pads, count_include_pad=1), call.ints(1)
    )


@rule("Normalize")
def normalize(call: Call) -> Results:
    """Divided by the Euclidean norm, or by 1e-12 if that is larger."""
    norm = call.node("ReduceL2", call.x, call.ints(call.op.get_int("axis", -1)))
    return call.node("Div", call.x, call.node("Max", norm, call.number(1e-12)))


@rule("NormalizeL1")
def normalize_l1(call: Call) -> Results:
    """0 where the norm is 0."""
    norm = call.node("ReduceL1", call.x, call.ints(call.op.get_int("axis", -1)))
    is_zero = call.node("Equal", norm, call.number(0))
    quotient = call.node("Div", call.x, call.node("Where", is_zero, call.number(1), norm))
    return call.node("Where", is_zero, call.number(0), quotient)


@rule("LpNorm")
def lp_norm(call: Call) -> Results:
    """The sum of powers, or with ``average`` their mean, without the root."""
    powers = call.node("Abs", call.x) if call.op.get_int("p", 2) == 1 else call.node("Mul", call.x, call.x)
    type = "ReduceMean" if call.op.get_bool("average") else "ReduceSum"
    return call.reshaped(call.node(type, powers, keepdims=0), 1)


@rule("Softmax")
def softmax(call: Call) -> Results:
    """Over all dimensions from ``axis`` on, flattened."""
    axis, dims = call.op.get_int("axis", 1), call.known_dims()
    if axis == -1 or (dims is not None and axis + 1 == len(dims)):
        return call.node("Softmax", call.x, axis=-1)
    rows = call.node("Softmax", call.node("Flatten", call.x, axis=axis), axis=-1)
    return call.node("Reshape", rows, call.node("Shape", call.x))


@rule("caffe.BatchNorm")
def caffe_batch_norm(call: Call) -> Results:
    """With the statistics of the batch itself."""
    mean, variance = _moments(call, [axis for axis in range(call.rank()) if axis != 1])
    deviation = call.node("Sqrt", call.node("Add", variance, call.number(call.op.get_float("eps", 1e-5))))
    return call.node("Div", call.node("Sub", call.x, mean), deviation)


@rule("caffe.MVN")
def mean_variance_normalization(call: Call) -> Results:
    mean, variance = _moments(call, range(1 if call.op.get_bool("across_channels") else 2, call.rank()))
    centred = call.node("Sub", call.x, mean)
    if not call.op.get_bool("normalize_variance", True):
        return centred
    deviation = call.node("Add", call.node("Sqrt", variance), call.number(call.op.get_float("eps", 1e-9)))
    return call.node("Div", centred, deviation)


@rule("caffe.Normalize")
def caffe_normalize(call: Call) -> Results:
    axes = range(1, call.rank()) if call.op.get_bool("across_spatial") else [1]
    total = call.node("ReduceSumSquare", call.x, call.ints(*axes))
    norm = call.node("Sqrt", call.node("Add", total, call.number(call.op.get_float("eps", 1e-10))))
    shape = [-1, *[1] * (call.rank() - 2)]
    scale = call.weight(1, lambda w: w.reshape(shape)) or call.reshaped(call.input(1), *shape)
    return call.node("Mul", call.node("Div", call.x, norm), scale)


@rule("onnx.MeanVarianceNormalization")
def onnx_mean_variance_normalization(call: Call) -> Results:
    """Adds 1e-9 to the deviation, as the standard's reference does but not every runtime."""
    mean, variance = _moments(call, call.op.get_ints("axes", (0, 2, 3)))
    deviation = call.node("Add", call.node("Sqrt", variance), call.number(float(np.float32(1e-9))))
    return call.node("Div", call.node("Sub", call.x, mean), deviation)
