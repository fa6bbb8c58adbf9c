"""Caffe's normalisations that neither Caffe2 nor ONNX has: MVN, BatchNorm with the batch's statistics, Normalize."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.elementwise.caffe import FLOATS
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("MVN", domain="caffe", dtypes=FLOATS)
def mvn(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = (X - mean) / (sqrt(var) + eps) per image and channel, or per image with across_channels=1. X: (N, C, ...).

    With normalize_variance=0 only the mean is subtracted. eps is 1e-9. Source: Caffe's mvn_layer.cpp.
    """
    require(op, x.ndim >= 2 and x.size > 0, "X must have a batch and channels and must not be empty", x)
    return [x]


@mvn.reference
def mvn_reference(op: OperatorDef, x: Array) -> List[Any]:
    first = 1 if op.get_bool("across_channels") else 2
    rows = x.astype(np.float64).reshape(*x.shape[:first], -1)
    rows = rows - rows.mean(-1, keepdims=True)
    if op.get_bool("normalize_variance", True):
        rows = rows / (np.sqrt((rows**2).mean(-1, keepdims=True)) + op.get_float("eps", 1e-9))
    return [rows.reshape(x.shape).astype(x.dtype)]


@operator("BatchNorm", domain="caffe", dtypes=FLOATS)
def batch_norm(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = (X - mean) / sqrt(var + eps) per channel, with the statistics of the batch itself. X: (N, C, ...) or (N,).

    This is Caffe's layer with use_global_stats false. eps is 1e-5. Source: Caffe's batch_norm_layer.cpp.
    """
    require(op, x.ndim >= 1 and x.size > 0, "X must have a batch and must not be empty", x)
    return [x]


@batch_norm.reference
def batch_norm_reference(op: OperatorDef, x: Array) -> List[Any]:
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axes, keepdims=True)
    return [(centred / np.sqrt((centred**2).mean(axes, keepdims=True) + op.get_float("eps", 1e-5))).astype(x.dtype)]


@operator("Normalize", domain="caffe", inputs=2, dtypes=FLOATS)
def normalize(op: OperatorDef, x: TensorSpec, scale: TensorSpec) -> List[TensorSpec]:
    """Y = X / sqrt(sum of X ** 2 + eps) * scale. The sum is over channels, with across_spatial over the whole image.

    X: (N, C, ...). scale: one number, or one per channel. eps is 1e-10. Source: normalize_layer.cpp of Caffe's SSD
    fork.
    """
    require(op, x.ndim >= 2, "X must have a batch and channels", x)
    require(op, scale.size in (1, x.shape[1]), "scale must be one number, or one per channel", x, scale)
    return [x]


@normalize.reference
def normalize_reference(op: OperatorDef, x: Array, scale: Array) -> List[Any]:
    wide = x.astype(np.float64)
    axes: Tuple[int, ...] = tuple(range(1, x.ndim)) if op.get_bool("across_spatial") else (1,)
    norm = np.sqrt((wide**2).sum(axes, keepdims=True) + op.get_float("eps", 1e-10))
    return [(wide / norm * scale.reshape(-1, *[1] * (x.ndim - 2))).astype(x.dtype)]
