"""Operators of Detectron's module for Caffe2: GroupSpatialSoftmax, PSRoIPool, SpatialNarrowAs.

Source: modules/detectron of Caffe2.
"""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32
from runtime_arm.operators.detection.caffe_roi import ps_roi_pooling
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("GroupSpatialSoftmax", dtypes=FLOAT32)
def group_spatial_softmax(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Softmax of X (N, A * num_classes, H, W), at each pixel, over each group of ``num_classes`` (81) channels."""
    classes = op.get_int("num_classes", 81)
    if classes < 1 or op.get_str("order", "NCHW") != "NCHW":
        raise ArgumentError(op, f"num_classes must be positive and order NCHW, got {classes} classes")
    require(op, x.ndim == 4 and x.shape[1] % classes == 0, f"X must be (N, A * {classes}, H, W)", x)
    return [x]


@group_spatial_softmax.reference
def group_spatial_softmax_reference(op: OperatorDef, x: Array) -> List[Any]:
    classes = op.get_int("num_classes", 81)
    groups = x.astype(np.float64).reshape(x.shape[0], x.shape[1] // classes, classes, *x.shape[2:])
    powers = np.exp(groups - groups.max(axis=2, keepdims=True)) if x.size else groups
    return [(powers / powers.sum(axis=2, keepdims=True)).astype(x.dtype).reshape(x.shape)]


@operator("PSRoIPool", inputs=2, outputs=(1, 2), dtypes=FLOAT32)
def ps_roi_pool(op: OperatorDef, x: TensorSpec, rois: TensorSpec) -> List[TensorSpec]:
    """Caffe's PSROIPooling. The second output is the channel that each element comes from, int32."""
    (pooled,) = ps_roi_pooling.shape(op, x, rois)
    return [pooled, pooled.with_dtype(np.int32)]


@ps_roi_pool.reference
def ps_roi_pool_reference(op: OperatorDef, x: Array, rois: Array) -> List[Any]:
    (pooled,) = ps_roi_pooling.evaluate(
        OperatorDef("PSROIPooling", op.input, op.output[:1], op.arg, domain="caffe"), [x, rois]
    )
    channels = np.arange(x.shape[1], dtype=np.int32).reshape(pooled.shape[1:])
    return [pooled, np.broadcast_to(channels, pooled.shape).copy()]


@operator("SpatialNarrowAs", inputs=2, dtypes=("float32", "int32"))
def spatial_narrow_as(op: OperatorDef, x: TensorSpec, like: TensorSpec) -> List[TensorSpec]:
    """X (N, C, H, W), cut to as many rows and columns, from the first on, as the second input has."""
    fits = x.ndim == like.ndim == 4 and x.shape[0] == like.shape[0]
    require(
        op,
        fits and x.shape[2] >= like.shape[2] and x.shape[3] >= like.shape[3],
        "both must be images, and the second must not be larger than the first",
        x,
        like,
    )
    return [x.with_shape((*x.shape[:2], *like.shape[2:]))]


@spatial_narrow_as.reference
def spatial_narrow_as_reference(op: OperatorDef, x: Array, like: Array) -> List[Any]:
    return [x[:, :, : like.shape[2], : like.shape[3]].copy()]
