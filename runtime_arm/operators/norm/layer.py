"""Normalisation over the trailing dimensions: LayerNorm, RMSNorm (Caffe2), Layer- and RMSNormalization (ONNX)."""

from __future__ import annotations

from math import prod
from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.netdef.dtypes import dtype_of
from runtime_arm.operators.common.statistics import (
    RowStatistics,
    affine,
    columns,
    require_floats,
    single_or_double,
    split_at,
    standardized,
    statistics_buffers,
)
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import TensorSpec


def _from(axis: int, ndim: int) -> List[int]:
    return list(range(axis, ndim))


@operator("LayerNorm", inputs=(1, 3), outputs=3, inplace={0: 0})
def layer_norm(op: OperatorDef, x: TensorSpec, *parameters: TensorSpec) -> List[TensorSpec]:
    """Y = (X - mean) / std with std = sqrt(var + epsilon), over the dimensions from ``axis`` (1) on.

    Outputs 1 and 2 are mean and std, (..., 1). With elementwise_affine=1 Y is multiplied by gamma, and beta is added;
    both have as many elements as the dimensions that are normalised. epsilon is 1e-5. Source: Caffe2; Ba et al., Layer
    Normalization (2016).
    """
    require(op, x.ndim >= 2, "X must have 2 dimensions or more", x)
    require_floats(op, x, *parameters)
    require(op, len(parameters) != 1, "gamma and beta must be given together")
    axis = axis_of(op, op.get_int("axis", 1), x.ndim)
    if op.get_bool("elementwise_affine"):
        require(op, len(parameters) == 2, "elementwise_affine=1 needs gamma and beta")
        _require_elements(op, x, axis, *parameters)
    statistics = x.with_shape((*x.shape[:axis], 1))
    return [x, statistics, statistics]


def _require_elements(op: OperatorDef, x: TensorSpec, axis: int, *parameters: TensorSpec) -> None:
    count = prod(x.shape[axis:])
    for parameter in parameters:
        require(op, parameter.size == count, f"gamma and beta must have {count} elements", x, parameter)


@layer_norm.reference
def layer_norm_reference(op: OperatorDef, x: Array, *parameters: Array) -> List[Any]:
    axis = axis_of(op, op.get_int("axis", 1), x.ndim)
    y, mean, inverse = standardized(x, _from(axis, x.ndim), op.get_float("epsilon", 1e-5))
    if op.get_bool("elementwise_affine"):
        gamma, beta = (parameter.astype(np.float64).reshape(x.shape[axis:]) for parameter in parameters)
        y = y * gamma + beta
    statistics = (*x.shape[:axis], 1)
    return [y.astype(x.dtype), *(s.reshape(statistics).astype(x.dtype) for s in (mean, 1 / inverse))]


def _layer_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return columns(outputs[1].size, outputs[0].dtype, 1)


@layer_norm.kernel("NUMPY", supports=single_or_double, scratch=_layer_scratch)
def layer_norm_numpy(call: Call) -> Run:
    x, axis = call.inputs[0], axis_of(call.op, call.op.get_int("axis", 1), call.inputs[0].ndim)
    matrix = split_at(x.shape, axis)
    y, mean, deviation = (call.outputs[0].reshape(matrix), *(out.reshape(-1, 1) for out in call.outputs[1:]))
    inverse = call.scratch[0]
    rows = RowStatistics(x.reshape(matrix), y, mean, inverse, call.op.get_float("epsilon", 1e-5))
    is_affine = call.op.get_bool("elementwise_affine")
    finish = affine(y, *(parameter.reshape(-1) if is_affine else None for parameter in call.inputs[1:]))

    def run() -> None:
        rows.standardise()
        np.divide(1, inverse, out=deviation)
        finish()

    return run


def _require_broadcast(op: OperatorDef, x: TensorSpec, *parameters: Optional[TensorSpec]) -> None:
    for parameter in parameters:
        if parameter is not None:
            tail = x.shape[x.ndim - parameter.ndim :] if parameter.ndim <= x.ndim else None
            require(
                op,
                tail is not None and all(p in (1, n) for p, n in zip(parameter.shape, tail)),
                "scale and bias must broadcast to X",
                x,
                parameter,
            )


@operator("LayerNormalization", domain="onnx", inputs=(2, 3), outputs=(1, 3), inplace={0: 0})
def layer_normalization(
    op: OperatorDef, x: TensorSpec, scale: TensorSpec, bias: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Y = (X - mean) / sqrt(var + epsilon) * scale + bias over the dimensions from ``axis`` (-1) on.

    Outputs 1 and 2 are mean and 1 / sqrt(var + epsilon) in the dtype ``stash_type`` (float32). Reduced axes stay as 1.
    """
    require_floats(op, x, scale, bias)
    axis = axis_of(op, op.get_int("axis", -1), x.ndim)
    _require_broadcast(op, x, scale, bias)
    statistics = TensorSpec((*x.shape[:axis], *[1] * (x.ndim - axis)), _stash(op))
    return [x, statistics, statistics]


def _stash(op: OperatorDef) -> np.dtype[Any]:
    dtype = dtype_of(op.get_int("stash_type", 1))
    if dtype is None or dtype.kind != "f":
        raise ArgumentError(op, f"stash_type must be a float data type, got {op.get_int('stash_type')}")
    return dtype


@layer_normalization.reference
def layer_normalization_reference(op: OperatorDef, x: Array, scale: Array, bias: Optional[Array] = None) -> List[Any]:
    axis = axis_of(op, op.get_int("axis", -1), x.ndim)
    y, mean, inverse = standardized(x, _from(axis, x.ndim), op.get_float("epsilon", 1e-5))
    y = y * scale + (0 if bias is None else bias.astype(np.float64))
    return [y.astype(x.dtype), mean.astype(_stash(op)), inverse.astype(_stash(op))]


def _same_stash(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if any(output.dtype != outputs[0].dtype for output in outputs):
        return "only for statistics in X's dtype"
    return single_or_double(op, inputs, outputs)


def _row_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    x = outputs[0]
    return columns(prod(x.shape[: axis_of(op, op.get_int("axis", -1), x.ndim)]), x.dtype, 2)


@layer_normalization.kernel("NUMPY", supports=_same_stash, scratch=_row_scratch)
def layer_normalization_numpy(call: Call) -> Run:
    x, y = call.inputs[0], call.outputs[0]
    matrix = split_at(x.shape, axis_of(call.op, call.op.get_int("axis", -1), x.ndim))
    mean, inverse = statistics_buffers(call)
    rows = RowStatistics(x.reshape(matrix), y.reshape(matrix), mean, inverse, call.op.get_float("epsilon", 1e-5))
    finish = affine(y, call.inputs[1], call.inputs[2] if len(call.inputs) > 2 else None)

    def run() -> None:
        rows.standardise()
        finish()

    return run


@operator("RMSNormalization", domain="onnx", inputs=2, inplace={0: 0})
def rms_normalization(op: OperatorDef, x: TensorSpec, scale: TensorSpec) -> List[TensorSpec]:
    """Y = X / sqrt(mean of X squared + epsilon) * scale over the dimensions from ``axis`` (-1) on; in scale's dtype."""
    require_floats(op, x)
    require_floats(op, scale)
    axis_of(op, op.get_int("axis", -1), x.ndim)
    _require_broadcast(op, x, scale)
    return [TensorSpec(x.shape, scale.dtype)]


def _root_mean_square(x: Array, axis: int, epsilon: float) -> Any:
    exact = x.astype(np.float64)
    squares = np.square(exact).sum(axis=tuple(_from(axis, x.ndim)), keepdims=True) / max(prod(x.shape[axis:]), 1)
    return np.sqrt(squares + epsilon)


@rms_normalization.reference
def rms_normalization_reference(op: OperatorDef, x: Array, scale: Array) -> List[Any]:
    root = _root_mean_square(x, axis_of(op, op.get_int("axis", -1), x.ndim), op.get_float("epsilon", 1e-5))
    return [(x / root * scale).astype(scale.dtype)]


def _one_dtype(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if inputs[0] is None or inputs[0].dtype != outputs[0].dtype:
        return "only for X and scale of one dtype"
    return single_or_double(op, inputs, outputs)


@rms_normalization.kernel("NUMPY", supports=_one_dtype, scratch=_row_scratch)
def rms_normalization_numpy(call: Call) -> Run:
    x, y = call.inputs[0], call.outputs[0]
    matrix = split_at(x.shape, axis_of(call.op, call.op.get_int("axis", -1), x.ndim))
    mean, inverse = call.scratch
    source, normal = x.reshape(matrix), y.reshape(matrix)
    rows = RowStatistics(source, normal, mean, inverse, call.op.get_float("epsilon", 1e-5))
    finish = affine(y, call.inputs[1])

    def run() -> None:
        rows.measure(source)
        np.multiply(source, inverse, out=normal)
        finish()

    return run


@operator("RMSNorm", inputs=3, outputs=2)
def rms_norm(op: OperatorDef, x: TensorSpec, gamma: TensorSpec, beta: TensorSpec) -> List[TensorSpec]:
    """Y = X * rrms * gamma + beta; rrms = 1 / sqrt(mean of X squared + eps) over the dimensions from ``axis`` (1) on.

    Output 1 is rrms. eps is 0. gamma and beta have as many elements as the dimensions that are normalised. Source:
    Caffe2.
    """
    require(op, x.ndim >= 2, "X must have 2 dimensions or more", x)
    require_floats(op, x, gamma, beta)
    axis = axis_of(op, op.get_int("axis", 1), x.ndim)
    _require_elements(op, x, axis, gamma, beta)
    return [x, x.with_shape(x.shape[:axis])]


@rms_norm.reference
def rms_norm_reference(op: OperatorDef, x: Array, gamma: Array, beta: Array) -> List[Any]:
    axis = axis_of(op, op.get_int("axis", 1), x.ndim)
    inverse = 1 / _root_mean_square(x, axis, op.get_float("eps", 0.0))
    y = x * inverse * gamma.reshape(x.shape[axis:]) + beta.reshape(x.shape[axis:])
    return [y.astype(x.dtype), inverse.reshape(x.shape[:axis]).astype(x.dtype)]
