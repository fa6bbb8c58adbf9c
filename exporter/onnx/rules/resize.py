"""Resizing of pictures."""

from __future__ import annotations

from typing import List, Optional

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule
from runtime_arm.errors import ExportError


@rule("Resize")
def resize(node: Node) -> Operators:
    """Caffe2's ResizeNearest if every pixel is repeated, or every k-th pixel kept, without rounding."""
    node = _without_tf_half_pixel_for_nn(node)
    scales = _scales(node)
    defaults = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_floor"}
    modes = [node.get_str(name, default) for name, default in defaults.items()]
    plain = modes == ["nearest", "asymmetric", "floor"] and "axes" not in node.attributes
    if not plain or scales is None or len(scales) != 4 or scales[:2] != [1, 1]:
        return [node.as_onnx()]
    if any(scale not in _EXACT for scale in scales[2:]):
        return [node.as_onnx()]
    return [node.to("ResizeNearest", [node.input(0)], height_scale=scales[2], width_scale=scales[3])]


def _without_tf_half_pixel_for_nn(node: Node) -> Node:
    """The mode of opsets 11 and 12, whose coordinates lie half a pixel after those of half_pixel, as that mode."""
    mode, rounding = node.get_str("mode", "nearest"), node.get_str("nearest_mode", "round_prefer_floor")
    if node.get_str("coordinate_transformation_mode", "") != "tf_half_pixel_for_nn" or mode != "nearest":
        return node
    if rounding not in _HALF_LATER:
        raise ExportError(f"nearest_mode {rounding!r} with tf_half_pixel_for_nn is not supported")
    changed = {"coordinate_transformation_mode": "half_pixel", "nearest_mode": _HALF_LATER[rounding]}
    return node.replace(attributes={**node.attributes, **changed})


_HALF_LATER = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}
_EXACT = {1 / 8, 1 / 4, 1 / 2, *range(1, 65)}  # scales that divide without rounding


def _scales(node: Node) -> Optional[List[float]]:
    """Output size over input size for each dimension; None if it is unknown."""
    scales, sizes, dims = node.value(2), node.constant_ints(3), node.dims(0)
    if scales is not None:
        return [float(scale) for scale in scales.reshape(-1)]
    stretches = node.get_str("keep_aspect_ratio_policy", "stretch") == "stretch"
    if sizes is None or not stretches or dims is None or len(sizes) != len(dims) or not all(dims):
        return None
    return [size / n for size, n in zip(sizes, dims) if n]
