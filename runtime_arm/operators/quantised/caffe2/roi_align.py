"""Caffe2's Int8RoIAlign: regions of a quantised image, sampled bilinearly with weights of 8 bits."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.detection.roi_align import Grid, batch_and_corners, bilinear_taps, grid_of, samples_of
from runtime_arm.operators.quantised.caffe2.conversion import LARGEST, output_quantization, output_spec, quantization_of
from runtime_arm.operators.quantised.rounding import requantize
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import QuantizedTensor, TensorSpec


def _grid(op: OperatorDef) -> Grid:
    return grid_of(op)._replace(centred=False)


@operator("Int8RoIAlign", inputs=2)
def int8_roi_align(op: OperatorDef, x: TensorSpec, rois: TensorSpec) -> List[TensorSpec]:
    """RoIAlign of X (N, H, W, C), order NHWC, without ``aligned``; regions (R, 5) or (R, 4) float32.

    Weights are rounded to multiples of 1/255. The sums of their products with X, minus 255 x_zero for each sample, are
    requantised like in gemmlowp. A sample outside the image is a byte 0. Source:
    caffe2/operators/quantized/int8_roi_align_op.h.
    """
    quantization_of(op, "X", x)
    if op.get_str("order", "NHWC") != "NHWC":
        raise ArgumentError(op, f"order must be NHWC, got {op.get_str('order')!r}")
    require(op, x.ndim == 4, "X must have four dimensions", x)
    fits = rois.size == 0 or (rois.ndim == 2 and rois.shape[1] in (4, 5))
    require(op, fits and rois.dtype == np.float32, "the regions must be rows of 4 or 5 float32", rois)
    grid = _grid(op)
    regions = rois.shape[0] if rois.size else 0
    return [output_spec(op, (regions, grid.height, grid.width, x.shape[3]))]


@int8_roi_align.reference
def int8_roi_align_reference(op: OperatorDef, x: QuantizedTensor, rois: Array) -> List[Any]:
    grid, stated = _grid(op), output_quantization(op)
    batch, corners = batch_and_corners(op, x.values, rois, 5) if rois.size else (rois, rois.reshape(0, 4))
    y = np.zeros((len(corners), grid.height, grid.width, x.values.shape[3]), np.uint8)
    for region, (left, top, right, bottom) in enumerate(corners * np.float32(grid.scale)):
        height, width = (np.maximum(extent, np.float32(1)) for extent in (bottom - top, right - left))
        rows, columns = samples_of(grid, top, height, 0), samples_of(grid, left, width, 1)
        count = rows.shape[1] * columns.shape[1]
        sums = _weighted_sums(x.values[batch[region]], rows, columns) - LARGEST * count * x.zero_point
        multiplier = float(np.float32(x.scale)) / (float(np.float32(stated.scale)) * LARGEST * count)
        if not multiplier < 1:
            raise ArgumentError(op, f"Y_scale must be larger than {multiplier * stated.scale}, got {stated.scale}")
        y[region] = requantize(sums, multiplier, stated.zero_point, np.uint8, "gemmlowp")
    return [y]


def _weighted_sums(image: Array, rows: Array, columns: Array) -> Array:
    """The sums of the samples of each output pixel, times 255: (height, width, C)."""
    taps = bilinear_taps(rows[:, :, None, None], columns, *image.shape[:2])
    sums = np.zeros((len(rows), len(columns), image.shape[2]), np.int64)
    for y, x, weight in zip(*taps):
        steps = np.rint(weight.astype(np.float32) * np.float32(LARGEST)).astype(np.int64)
        sums += (image[y, x].astype(np.int64) * steps[..., None]).sum((1, 3))
    return sums
