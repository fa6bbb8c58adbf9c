"""Resizing of pictures."""

from __future__ import annotations

from typing import List, Optional

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import rule
from runtime_arm.errors import ExportError

_LARGEST = 1 << 16  # pixels


@rule("RESIZE_BILINEAR")
def resize_bilinear(node: Node) -> None:
    _resize(node, _coordinates(node), mode="linear")


@rule("RESIZE_NEAREST_NEIGHBOR", any_type=True)
def resize_nearest_neighbor(node: Node) -> None:
    """With half pixels TFLite takes floor((o + 0.5) * scale): ONNX's coordinate with halves rounded up."""
    coordinates = _coordinates(node)
    rounding = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
    _resize(node, coordinates, mode="nearest", nearest_mode=rounding)


def _coordinates(node: Node) -> str:
    corners, halves = (bool(node.option(name, False)) for name in ("align_corners", "half_pixel_centers"))
    if corners and halves:
        raise ExportError("align_corners and half_pixel_centers exclude each other")
    return "align_corners" if corners else "half_pixel" if halves else "asymmetric"


def new_size(node: Node) -> Optional[List[int]]:
    """Height and width if they are constant, checked."""
    size = node.constant_integers(1)
    if size is not None and (len(size) != 2 or min(size) < 1 or max(size) > _LARGEST):
        raise ExportError(f"the new size must be a height and a width up to {_LARGEST}, it is {size}")
    return size


def _resize(node: Node, coordinates: str, **arguments: str) -> None:
    size = new_size(node)
    sizes = node.input(1) if size is None else node.constant("sizes", np.array(size, np.int64))
    node.add(
        "Resize",
        [node.input(0, channels_first=True), "", "", sizes],
        [node.output(0, channels_first=True)],
        domain="onnx",
        axes=[2, 3],
        coordinate_transformation_mode=coordinates,
        **arguments,
    )
