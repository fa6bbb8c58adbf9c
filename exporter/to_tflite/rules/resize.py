"""Resizing of pictures. The pixels that TFLite's kernels would read are computed and compared with those that the
operator reads.
"""

from __future__ import annotations

from typing import Any, Dict, Sequence, Tuple

import numpy as np

from exporter.to_tflite.graph import Operand
from exporter.to_tflite.layout import channels_last, plain
from exporter.to_tflite.rules import Call, Results, rule
from optimize.layers.pictures import matrix_of
from runtime_arm.errors import ExportError
from runtime_arm.operators.common.resampling import Resampled
from runtime_arm.operators.common.windows import channels_last as has_channels_last
from runtime_arm.operators.image import caffe2, onnx

_CHOICES: Tuple[Dict[str, Any], ...] = ({"HalfPixelCenters": True}, {}, {"AlignCorners": True})
_TOLERANCE = 1e-5  # of a weight: float32 coordinates of pictures of some thousand pixels


@rule("ResizeNearest", "UpsampleNearest", "UpsampleBilinear", "onnx.Resize")
def resize(call: Call) -> Results:
    """TFLite has three kinds of coordinates for each way of resizing."""
    specs = [None if one is None else one.spec for one in call.operands]
    assert specs[0] is not None
    axes = (onnx.axes_of if call.op.domain else caffe2.axes_of)(call.op, specs[0], *specs[1:])
    last = not call.op.domain and has_channels_last(call.op)
    return resized(call, axes, last)


def resized(call: Call, axes: Sequence[Resampled], last: bool) -> Operand:
    """The first input, a picture, resampled along its height and width."""
    rank = call.spec().ndim
    order = plain(rank) if last else channels_last(rank)
    image = order[1:-1]
    moved = [one for one in axes if not _is_copy(one, call.spec().shape[one.axis])]
    if rank != 4 or any(one.axis not in image or one.outside is not None for one in moved):
        raise ExportError("TFLite resizes only the height and width of pictures")
    type = "RESIZE_NEAREST_NEIGHBOR" if all(one.weights is None for one in moved) else "RESIZE_BILINEAR"
    sizes = [call.outputs[0].shape[axis] for axis in image]
    for options in _CHOICES:
        if all(_reads_the_same(one, call.spec().shape[one.axis], type, options) for one in moved):
            inputs = [call.take(0, order), call.ints(*sizes)]
            return call.result(call.emit(type, inputs, call.shape_in(order), **options), order)
    if type == "RESIZE_NEAREST_NEIGHBOR":
        return _gathered(call, moved)
    raise ExportError("TFLite has no such coordinates for its interpolation")


def _is_copy(one: Resampled, size: int) -> bool:
    return one.size == size and one.weights is None and np.array_equal(one.indices[0], np.arange(size))


def _gathered(call: Call, axes: Sequence[Resampled]) -> Operand:
    order, x = call.order(), call.as_held()
    for one in axes:
        at = order.index(one.axis)
        shape = list(call.graph[x].shape)
        shape[at] = one.size
        x = call.emit("GATHER", [x, call.ints(*one.indices[0])], shape, Axis=at)
    return call.result(x, order)


def _reads_the_same(one: Resampled, size: int, type: str, options: Dict[str, bool]) -> bool:
    """Whether TFLite's kernel computes each output from the same pixels. Source: reference/resize_bilinear.h and
    others.
    """
    half, aligned = options.get("HalfPixelCenters", False), options.get("AlignCorners", False)
    scale = np.float32(size) / np.float32(one.size)
    if aligned and one.size > 1:
        scale = np.float32(size - 1) / np.float32(one.size - 1)
    at = np.arange(one.size, dtype=np.float32)
    if type == "RESIZE_NEAREST_NEIGHBOR":
        place = (at + np.float32(0.5 if half else 0)) * scale
        place = np.floor(place + 0.5) if aligned else np.floor(place)
        return one.weights is None and np.array_equal(one.indices[0], np.clip(place, 0, size - 1))
    place = (at + np.float32(0.5)) * scale - np.float32(0.5) if half else at * scale
    low = np.maximum(np.floor(place), 0).astype(np.int64)
    high = np.minimum(np.ceil(place), size - 1).astype(np.int64) if half else np.minimum(low + 1, size - 1)
    share = np.maximum(place, 0) - low if not half else place - np.floor(place)
    share = np.where(place < 0, 0, share)
    taps = np.stack([np.clip(low, 0, size - 1), np.clip(high, 0, size - 1)])
    found = Resampled(one.axis, taps, np.stack([1 - share, share]))
    return bool(np.abs(matrix_of(one, size) - matrix_of(found, size)).max(initial=0) < _TOLERANCE * max(size, 1))
