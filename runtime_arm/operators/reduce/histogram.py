"""Caffe2's Histogram and IntegralImage."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32_64, FLOATS
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("Histogram", inputs=(1, None), dtypes=FLOAT32_64)
def histogram(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    """Y[i], int64: the number of elements of all inputs x with bin_edges[i] <= x < bin_edges[i + 1]."""
    edges = op.get_floats("bin_edges")
    if len(edges) < 2 or any(low >= high for low, high in zip(edges, edges[1:])):
        raise ArgumentError(op, f"bin_edges must be 2 or more ascending numbers, got {list(edges)}")
    require(op, all(x.dtype.kind == "f" for x in inputs), "inputs must be floats", *inputs)
    return [TensorSpec((len(edges) - 1,), np.int64)]


@histogram.reference
def histogram_reference(op: OperatorDef, *inputs: Array) -> List[Any]:
    edges = np.array(op.get_floats("bin_edges"))
    values = np.concatenate([x.astype(np.float64).reshape(-1) for x in inputs])
    bins = np.searchsorted(edges, values[values < edges[-1]], side="right")
    return [np.bincount(bins, minlength=len(edges))[1:].astype(np.int64)]


@operator("IntegralImage", dtypes=FLOATS)
def integral_image(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y[n, c, h, w] is the sum of X[n, c, :h, :w]; X (N, C, H, W), Y (N, C, H + 1, W + 1)."""
    require(op, x.ndim == 4, "X must be (N, C, H, W)", x)
    n, c, h, w = x.shape
    return [x.with_shape((n, c, h + 1, w + 1))]


@integral_image.reference
def integral_image_reference(op: OperatorDef, x: Array) -> List[Any]:
    n, c, h, w = x.shape
    y = np.zeros((n, c, h + 1, w + 1))
    y[:, :, 1:, 1:] = x.astype(np.float64).cumsum(axis=2).cumsum(axis=3)
    return [y.astype(x.dtype)]


@operator("IntegralImageGradient", inputs=2, dtypes=FLOATS)
def integral_image_gradient(op: OperatorDef, x: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dX[n, c, h, w] is the sum of dY[n, c, h + 1:, w + 1:]."""
    require(op, [dy] == integral_image.shape(op, x), "dY must have a row and a column more than X", x, dy)
    return [x]


@integral_image_gradient.reference
def integral_image_gradient_reference(op: OperatorDef, x: Array, dy: Array) -> List[Any]:
    reverse = dy.astype(np.float64)[:, :, :0:-1, :0:-1]
    return [reverse.cumsum(axis=2).cumsum(axis=3)[:, :, ::-1, ::-1].astype(x.dtype)]
