"""Maximum pooling of regions of interest: Caffe2's RoIPool and ONNX's MaxRoiPool."""

from __future__ import annotations

import math
from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.casting import to_integers
from runtime_arm.operators.common.windows import channels_last, require_at_least
from runtime_arm.operators.detection.roi_align import batch_and_corners, grid_of, require_regions
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def pool_regions(op: OperatorDef, x: Array, rois: Array, pooled: Tuple[int, int]) -> Tuple[Array, Array]:
    """The maximum of each cell of each region (rounded to pixels), and its index in the image, -1 in an empty cell."""
    y = np.zeros((len(rois), x.shape[1], *pooled), x.dtype)
    found = np.full(y.shape, -1, np.int32)
    batch, corners = batch_and_corners(op, x, rois, 5)
    scaled = corners.astype(np.float64) * np.float32(op.get_float("spatial_scale", 1.0))
    rounded = to_integers(np.sign(scaled) * np.floor(np.abs(scaled) + 0.5), np.int64)
    for region, (left, top, right, bottom) in enumerate(rounded.tolist()):
        rows = _cells(top, bottom, pooled[0], x.shape[2])
        columns = _cells(left, right, pooled[1], x.shape[3])
        for h, (y1, y2) in enumerate(rows):
            for w, (x1, x2) in enumerate(columns):
                if y1 < y2 and x1 < x2:
                    cell = x[batch[region], :, y1:y2, x1:x2].reshape(x.shape[1], -1)
                    at = cell.argmax(1)
                    y[region, :, h, w] = cell.max(1)
                    found[region, :, h, w] = (y1 + at // (x2 - x1)) * x.shape[3] + x1 + at % (x2 - x1)
    return y, found


def _cells(first: int, last: int, count: int, size: int) -> List[Tuple[int, int]]:
    """First and last pixel + 1, within the image, of the cells that first..last is divided into."""
    step = np.float32(max(last - first + 1, 1)) / np.float32(count)
    edges = [(math.floor(np.float32(i) * step), math.ceil(np.float32(i + 1) * step)) for i in range(count)]
    return [(min(max(begin + first, 0), size), min(max(end + first, 0), size)) for begin, end in edges]


@operator("RoIPool", inputs=2, outputs=(1, 2))
def roi_pool(op: OperatorDef, x: TensorSpec, rois: TensorSpec) -> List[TensorSpec]:
    """Y[r, c, h, w] = the maximum of X[batch, c] in cell (h, w) of region r; then its index, int32, -1 if empty.

    X: (N, C, H, W); regions (R, 5): batch, x1, y1, x2, y2. pooled_h, pooled_w (1), spatial_scale (1.0), is_test: no
    second output. Source: caffe2/operators/roi_pool_op.cc.
    """
    require_regions(op, x, rois, (5,))
    require(op, not channels_last(op), "order must be NCHW")
    grid = grid_of(op)
    y = x.with_shape((rois.shape[0], x.shape[1], grid.height, grid.width))
    return [y] if op.get_bool("is_test") else [y, y.with_dtype(np.int32)]


@roi_pool.reference
def roi_pool_reference(op: OperatorDef, x: Array, rois: Array) -> Sequence[Any]:
    grid = grid_of(op)
    return pool_regions(op, x, rois, (grid.height, grid.width))


@operator("MaxRoiPool", domain="onnx", inputs=2)
def max_roi_pool(op: OperatorDef, x: TensorSpec, rois: TensorSpec) -> List[TensorSpec]:
    """RoIPool with pooled_shape and spatial_scale (1.0), without the second output."""
    require_regions(op, x, rois, (5,))
    pooled = op.get_ints("pooled_shape")
    require(op, len(pooled) == 2, "pooled_shape must have two values")
    require_at_least(op, "pooled_shape", pooled, 1)
    return [x.with_shape((rois.shape[0], x.shape[1], *pooled))]


@max_roi_pool.reference
def max_roi_pool_reference(op: OperatorDef, x: Array, rois: Array) -> Sequence[Any]:
    height, width = op.get_ints("pooled_shape")
    return pool_regions(op, x, rois, (height, width))[:1]
