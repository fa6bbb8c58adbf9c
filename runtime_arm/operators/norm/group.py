"""Normalisation per group of channels (Caffe2, ONNX), and ONNX's MeanVarianceNormalization over any dimensions."""

from __future__ import annotations

from math import prod
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.statistics import (
    RowStatistics,
    affine,
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
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

Groups = Tuple[Shape, List[int], Shape]


def _groups(op: OperatorDef, shape: Shape, count: int) -> Groups:
    """X's shape as (groups, channels per group), the axes of one group, the shape of parameters."""
    channels = shape[-1] if channels_last(op) else shape[1]
    split = (count, channels // count)
    if channels_last(op):
        return (shape[0], prod(shape[1:-1]), *split), [1, 3], split
    return (shape[0], *split, prod(shape[2:])), [2, 3], (*split, 1)


def _require_groups(op: OperatorDef, x: TensorSpec, axis: int, count: int, *parameters: TensorSpec) -> None:
    require(op, x.ndim >= 2, "X must have 2 dimensions or more", x)
    require_floats(op, x, *parameters)
    require_channels(op, x, axis, *parameters)
    if count < 1 or x.shape[axis] % count:
        raise ArgumentError(op, f"{x.shape[axis]} channels cannot be divided into {count} groups")


def _group_normalized(op: OperatorDef, x: Array, count: int, scale: Array, bias: Array) -> Tuple[Array, Array, Array]:
    shape, axes, parameters = _groups(op, x.shape, count)
    y, mean, inverse = standardized(x.reshape(shape), axes, op.get_float("epsilon", 1e-5))
    y = y * scale.reshape(parameters) + bias.astype(np.float64).reshape(parameters)
    return y.reshape(x.shape).astype(x.dtype), mean, inverse


@operator("GroupNorm", inputs=3, outputs=(1, 3), inplace={0: 0})
def group_norm(op: OperatorDef, x: TensorSpec, gamma: TensorSpec, beta: TensorSpec) -> List[TensorSpec]:
    """Y = (X - mean) / sqrt(var + epsilon) * gamma + beta per image and group; ``group`` (32) groups of channels.

    X: (N, C, ...) or, order NHWC, (N, ..., C). Outputs 1 and 2, required with is_test=0, are mean and 1 / sqrt(var +
    epsilon), (N, group). epsilon is 1e-5. Source: Caffe2; Wu and He, Group Normalization (2018).
    """
    count = op.get_int("group", 32)
    _require_groups(op, x, -1 if channels_last(op) else 1, count, gamma, beta)
    if len(op.output) != 3 and (len(op.output) == 2 or not op.get_int("is_test", 1)):
        raise ArgumentError(op, f"there must be 3 outputs, or 1 if is_test is not 0, got {len(op.output)}")
    statistics = x.with_shape((x.shape[0], count))
    return [x, statistics, statistics]


@group_norm.reference
def group_norm_reference(op: OperatorDef, x: Array, gamma: Array, beta: Array) -> List[Any]:
    count = op.get_int("group", 32)
    y, *statistics = _group_normalized(op, x, count, gamma, beta)
    return [y] + [s.reshape(x.shape[0], count).astype(x.dtype) for s in statistics]


@operator("GroupNormalization", domain="onnx", inputs=3, inplace={0: 0})
def group_normalization(op: OperatorDef, x: TensorSpec, scale: TensorSpec, bias: TensorSpec) -> List[TensorSpec]:
    """Y = (X - mean) / sqrt(var + epsilon) * scale + bias per image and group; ``num_groups`` groups of channels.

    X: (N, C, ...); epsilon is 1e-5.
    """
    _require_groups(op, x, 1, op.get_int("num_groups"), scale, bias)
    return [x]


@group_normalization.reference
def group_normalization_reference(op: OperatorDef, x: Array, scale: Array, bias: Array) -> List[Any]:
    return [_group_normalized(op, x, op.get_int("num_groups"), scale, bias)[0]]


def _contiguous_groups(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return "only for order NCHW" if channels_last(op) else single_or_double(op, inputs, outputs)


def _group_count(op: OperatorDef) -> int:
    return op.get_int("num_groups") if op.domain else op.get_int("group", 32)


def _group_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return columns(outputs[0].shape[0] * _group_count(op), outputs[0].dtype, 2)


@group_norm.kernel("NUMPY", supports=_contiguous_groups, scratch=_group_scratch)
@group_normalization.kernel("NUMPY", supports=_contiguous_groups, scratch=_group_scratch)
def group_norm_numpy(call: Call) -> Run:
    x, scale, bias = call.inputs
    shape, _, parameters = _groups(call.op, x.shape, _group_count(call.op))
    matrix = split_at(shape, 2)
    normal = call.outputs[0].reshape(matrix)
    mean, inverse = statistics_buffers(call)
    rows = RowStatistics(x.reshape(matrix), normal, mean, inverse, call.op.get_float("epsilon", 1e-5))
    finish = affine(call.outputs[0].reshape(shape), scale.reshape(parameters), bias.reshape(parameters))

    def run() -> None:
        rows.standardise()
        finish()

    return run


@operator("MeanVarianceNormalization", domain="onnx")
def mean_variance_normalization(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = (X - mean) / (sqrt(var) + 1e-9) over ``axes`` (0, 2, 3)."""
    require_floats(op, x)
    for axis in op.get_ints("axes", (0, 2, 3)):
        axis_of(op, axis, x.ndim)
    return [x]


@mean_variance_normalization.reference
def mean_variance_normalization_reference(op: OperatorDef, x: Array) -> List[Any]:
    axes = sorted({axis_of(op, axis, x.ndim) for axis in op.get_ints("axes", (0, 2, 3))})
    mean, variance = moments(x, axes)
    return [((x - mean) / (np.sqrt(variance) + 1e-9)).astype(x.dtype)]
