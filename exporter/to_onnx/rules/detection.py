"""Operators of detection networks."""

from __future__ import annotations

import numpy as np

from exporter.to_onnx.rules import Call, Results, rule
from runtime_arm.errors import ExportError
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.operators.detection.roi_align import grid_of
from runtime_arm.registry.schema import lookup


@rule("caffe.PriorBox")
def prior_box(call: Call) -> Results:
    """The boxes depend only on sizes."""
    like = [np.broadcast_to(np.float32(0), call.shape(index)) for index in (0, 1)]
    return call.constant(lookup(call.op).evaluate(call.op, like)[0])


@rule("RoIAlign")
def roi_align(call: Call) -> Results:
    """ONNX takes the batch indices and the corners as separate inputs."""
    grid, last, columns = grid_of(call.op), channels_last(call.op), (call.known_dims(1) or (None, None))[1]
    if columns is None:
        raise ExportError("whether the regions have batch indices must be known")
    x, rois = call.channels_first(call.x, 4) if last else call.x, call.input(1)
    if columns == 5:
        batch, rois = call.nodes("Split", [rois, call.ints(1, 4)], 2, axis=1)
    else:
        batch = call.node("Mul", call.node("Slice", rois, call.ints(0), call.ints(1), call.ints(1)), call.number(0))
    indices = call.node("Cast", call.node("Squeeze", batch, call.ints(1)), to=np.dtype(np.int64))
    y = call.node(
        "RoiAlign",
        x,
        rois,
        indices,
        output_height=grid.height,
        output_width=grid.width,
        sampling_ratio=max(grid.samples, 0),
        spatial_scale=grid.scale,
        coordinate_transformation_mode="half_pixel" if grid.centred else "output_half_pixel",
    )
    return call.channels_last(y, 4) if last else y
