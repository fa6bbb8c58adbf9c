"""Operators of Caffe's forks: R-FCN's PSROIPooling, SegNet's Upsample."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.casting import to_integers
from runtime_arm.operators.common.dtypes import FLOAT32
from runtime_arm.operators.detection.roi_align import batch_and_corners, require_regions
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("PSROIPooling", domain="caffe", inputs=2, dtypes=FLOAT32)
def ps_roi_pooling(op: OperatorDef, x: TensorSpec, rois: TensorSpec) -> List[TensorSpec]:
    """(R, output_dim, group_size, group_size): the mean over cell (h, w) of region r, each cell in its own channel.

    X: (N, output_dim * group_size^2, H, W), one channel per output and cell; regions (R, 5): batch, x1, y1, x2, y2 in
    pixels of the image, to be multiplied by ``spatial_scale``. Cells without pixels are 0. Source: Dai et al., R-FCN,
    NIPS 2016, section 2, equation 1; psroi_pooling_layer.cu of its Caffe.
    """
    require_regions(op, x, rois, (5,))
    outputs, group = op.get_int("output_dim"), op.get_int("group_size")
    if min(outputs, group) < 1:
        raise ArgumentError(op, f"output_dim and group_size must be positive, got {outputs} and {group}")
    require(op, x.shape[1] == outputs * group * group, f"X must have {outputs} x {group} x {group} channels", x)
    return [x.with_shape((rois.shape[0], outputs, group, group))]


@ps_roi_pooling.reference
def ps_roi_pooling_reference(op: OperatorDef, x: Array, rois: Array) -> List[Any]:
    outputs, group = op.get_int("output_dim"), op.get_int("group_size")
    batch, corners = batch_and_corners(op, x, rois, 5)
    rounded = np.sign(corners) * np.floor(np.abs(corners) + np.float32(0.5)) + np.array([0, 0, 1, 1], np.float32)
    left, top, right, bottom = (rounded * np.float32(op.get_float("spatial_scale", 1.0))).T
    rows = _cells(top, bottom, group, x.shape[2])
    columns = _cells(left, right, group, x.shape[3])
    sums = np.zeros((*x.shape[:2], x.shape[2] + 1, x.shape[3] + 1))
    sums[:, :, 1:, 1:] = x.cumsum(2, dtype=np.float64).cumsum(3)
    by_cell = sums.reshape(len(x), outputs, group, group, *sums.shape[2:])
    y = np.zeros((len(rois), outputs, group, group), x.dtype)
    for h, w in np.ndindex(group, group):
        (y1, y2), (x1, x2) = ((edges[0][:, i], edges[1][:, i]) for edges, i in ((rows, h), (columns, w)))
        plane = by_cell[:, :, h, w]
        total = plane[batch, :, y2, x2] - plane[batch, :, y1, x2] - plane[batch, :, y2, x1] + plane[batch, :, y1, x1]
        area = (np.maximum(y2 - y1, 0) * np.maximum(x2 - x1, 0))[:, None]
        y[:, :, h, w] = np.where(area > 0, total / np.maximum(area, 1), 0)
    return [y]


def _cells(begin: Array, end: Array, count: int, size: int) -> Tuple[Array, Array]:
    """First row and row after the last of each cell of each region, within the image; (R, count) each."""
    step = np.maximum(end - begin, np.float32(0.1)) / np.float32(count)
    places = np.arange(count, dtype=np.float32)
    first = np.floor(places * step[:, None] + begin[:, None])
    last = np.ceil((places + 1) * step[:, None] + begin[:, None])
    edges = [to_integers(np.clip(edge, 0, size), np.int64) for edge in (first, last)]
    return edges[0], edges[1]


@operator("Upsample", domain="caffe", inputs=2, dtypes=FLOAT32)
def upsample(op: OperatorDef, x: TensorSpec, mask: TensorSpec) -> List[TensorSpec]:
    """0, except that each pixel of X, (N, C, H, W), is put where the mask, float32, says: an index into its plane.

    The planes are ``upsample_h`` by ``upsample_w``, by default ``scale_h`` and ``scale_w`` (2) times those of X, minus
    one with ``pad_out_h`` and ``pad_out_w``. Source: Badrinarayanan et al., SegNet, TPAMI 2017, section 3.
    """
    require(op, x.ndim == 4 and mask == x, "X must be (N, C, H, W), and the mask must have its shape", x, mask)
    sizes = []
    for n, side in zip(x.shape[2:], "hw"):
        scaled = n * op.get_int(f"scale_{side}", 2) - op.get_bool(f"pad_out_{side}")
        sizes.append(op.get_int(f"upsample_{side}", scaled))
    if min(sizes) < 0:
        raise ArgumentError(op, f"upsample_h and upsample_w must not be negative, got {sizes}")
    return [x.with_shape((*x.shape[:2], *sizes))]


@upsample.reference
def upsample_reference(op: OperatorDef, x: Array, mask: Array) -> List[Any]:
    shape = upsample.shape(op, TensorSpec(x.shape, x.dtype), TensorSpec(mask.shape, mask.dtype))[0].shape
    planes = np.zeros((x.shape[0] * x.shape[1], shape[2] * shape[3]), x.dtype)
    places = mask.reshape(len(planes), x.shape[2] * x.shape[3])
    inside = bool(np.all((places >= 0) & (places < planes.shape[1])))
    require(op, inside, f"the mask holds indices beyond the {shape[2]} x {shape[3]} pixels of the output")
    np.put_along_axis(planes, places.astype(np.int64), x.reshape(places.shape), axis=1)
    return [planes.reshape(shape)]
