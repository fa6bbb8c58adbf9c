"""Resizing of pictures."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import numpy as np

from exporter.to_onnx.rules import Call, Results, rule
from runtime_arm.errors import ExportError
from runtime_arm.operators.common.windows import channels_last


def _scales(call: Call, names: Sequence[str]) -> Tuple[float, ...]:
    if call.has(1):
        value = call.value(1)
        if value is None:
            raise ExportError("computed scales are rounded differently in ONNX")
        return tuple(float(scale) for scale in value)
    return tuple(call.op.get_float(name, 1.0) for name in names)


@rule("ResizeNearest", "ResizeNearest3D")
def resize_nearest(call: Call) -> Results:
    """Pixel int(out / scale): ONNX's asymmetric coordinates, rounded down."""
    names = ("temporal_scale", "height_scale", "width_scale")
    scales = [*_scales(call, names if call.op.type.endswith("3D") else names[1:])]
    whole = [1.0, *scales, 1.0] if channels_last(call.op) else [1.0, 1.0, *scales]
    return call.node(
        "Resize",
        call.x,
        "",
        call.constant(whole, np.float32),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


@rule("UpsampleBilinear")
def upsample_bilinear(call: Call) -> Results:
    scales = _scales(call, ("height_scale", "width_scale"))
    return call.node(
        "Resize",
        call.x,
        "",
        call.constant([1.0, 1.0, *scales], np.float32),
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )


@rule("caffe.Interp")
def interp(call: Call) -> Results:
    """Crops the borders, then resizes with aligned corners."""
    op = call.op
    begin, end = op.get_int("pad_beg", 0), op.get_int("pad_end", 0)
    x = call.x
    if begin or end:
        x = call.node("Pad", x, call.ints(0, 0, begin, begin, 0, 0, end, end))
    inner = call.node("Shape", x, start=2, end=4)
    sizes = call.node("Concat", call.node("Shape", x, start=0, end=2), _sizes(call, inner), axis=0)
    return call.node("Resize", x, "", "", sizes, mode="linear", coordinate_transformation_mode="align_corners")


def _sizes(call: Call, inner: str) -> str:
    """Height and width of the result: given, or computed from the factors."""
    stated = [call.op.get_int(name, 0) for name in ("height", "width")]
    if all(stated):
        return call.ints(*stated)
    shrink, zoom = (call.ints(call.op.get_int(name, 1)) for name in ("shrink_factor", "zoom_factor"))
    one = call.ints(1)
    steps = call.node("Div", call.node("Sub", inner, one), shrink)  # towards zero, of what is not negative
    computed = call.node("Add", call.node("Mul", steps, zoom), one)
    parts: List[Optional[str]] = [call.ints(n) if n else None for n in stated]
    found = [
        part or call.node("Slice", computed, call.ints(axis), call.ints(axis + 1), call.ints(0))
        for axis, part in enumerate(parts)
    ]
    return call.node("Concat", *found, axis=0)
