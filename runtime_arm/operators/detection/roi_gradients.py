"""The gradient of RoIAlign. Source: caffe2/operators/roi_align_gradient_op.cc."""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.operators.detection.roi_align import batch_and_corners, grid_of, roi_align, taps_of
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("RoIAlignGradient", inputs=3, dtypes=FLOATS)
def roi_align_gradient(op: OperatorDef, x: TensorSpec, rois: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dX: every neighbour of a sample gets its weight's share of the dY of the sample's pixel, divided by the samples.

    Arguments as for RoIAlign; regions have no gradient.
    """
    (y,) = roi_align.shape(op, x, rois)
    require(op, dy.shape == y.shape and dy.dtype == x.dtype, f"dY must have the shape {list(y.shape)}", x, rois, dy)
    return [x]


@roi_align_gradient.reference
def roi_align_gradient_reference(op: OperatorDef, x: Array, rois: Array, dy: Array) -> Sequence[Any]:
    last, grid = channels_last(op), grid_of(op)
    x, dy = (np.moveaxis(a, -1, 1) if last else a for a in (x, dy))
    batch, corners = batch_and_corners(op, x, rois, 5)
    dx = np.zeros(x.shape)
    for region, image, errors in zip(corners, batch, dy.astype(np.float64)):
        taps = taps_of(grid, region, x.shape[2:])
        if taps is None:
            continue
        shape = np.broadcast(*taps.weights).shape  # (height, samples, width, samples)
        share = errors[:, :, None, :, None] / (shape[1] * shape[3])
        for rows, columns, weights in zip(*taps):
            at: Any = (slice(None), *(np.broadcast_to(index, shape) for index in (rows, columns)))
            np.add.at(dx[image], at, share * weights)
    return [(np.moveaxis(dx, 1, -1) if last else dx).astype(x.dtype)]
