"""Sorting and boxes."""

from __future__ import annotations

from typing import Iterator

import numpy as np

from device_tests.host.golden_cases.case import Case, case, onnx

BOXES = np.array([[0, 0, 10, 10], [1, 1, 11, 11], [0, 20, 10, 30], [0, 21, 9, 31], [40, 0, 50, 9]], np.float32)


def detection() -> Iterator[Case]:
    """Sorting and boxes, where the last bit of a sum may decide the result."""
    yield from case("ArgMax ArgMin", "3x7", axis=1)
    yield from case("TopK", "3x7", k=3, outputs=2)
    yield from onnx("TopK", "3x7", [2], outputs=2)
    yield from onnx("ArgMax ArgMin", "3x7", axis=0)
    yield from onnx("NonMaxSuppression", BOXES[np.newaxis], "pos 1x2x5", 3, np.float32(0.5))
    yield from onnx("NonZero", np.array([[0, 1], [2, 0]], np.float32))
    yield from onnx("Unique", np.array([3, 1, 3, 2], np.int64), outputs=4)
    regions = np.array([[0, 0, 0, 3, 3], [0, 1, 1, 2.5, 3]], np.float32)
    yield from case("RoIAlign", "1x2x5x5", regions, pooled_h=2, pooled_w=2, sampling_ratio=2)
    yield from onnx("RoiAlign", "1x2x5x5", regions[:, 1:], np.zeros(2, np.int64), output_height=2, output_width=2)
    yield from case("BBoxTransform", BOXES, "unit 5x4", np.array([[60, 60, 1]], np.float32))
