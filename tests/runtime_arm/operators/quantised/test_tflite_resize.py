"""TensorFlow Lite's RESIZE_BILINEAR on integers: the kernel equals the reference, whatever the weights and sizes."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.quantised.tflite.resize import BLOCK

RANDOM = np.random.default_rng(6)
SIZES: Dict[str, Tuple[Tuple[int, int, int, int], Tuple[int, int]]] = {
    "twice": ((2, 5, 6, 3), (10, 12)),
    "thrice and half": ((1, 4, 6, 3), (12, 3)),
    "any": ((1, 7, 5, 3), (11, 13)),
    "fewer": ((1, 40, 90, 2), (3, 7)),
    "one pixel": ((1, 1, 1, 5), (4, 3)),
    "the same": ((1, 4, 6, 3), (4, 6)),
    "several blocks": ((1, 40, 40, 9), (80, 80)),
    "wide rows that are read": ((1, 4, BLOCK // 2, 3), (8, 2)),
}


@pytest.mark.parametrize("arguments", [{}, {"half_pixel_centers": 1}, {"align_corners": 1}], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("name", SIZES)
def test_engines(name: str, dtype: str, arguments: Dict[str, Any]) -> None:
    shape, size = SIZES[name]
    limits = np.iinfo(dtype)
    x = RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)
    op = OperatorDef.of("QuantizedResizeBilinear", ["A", "B"], ["Y"], domain="tflite", **arguments)
    assert assert_engines_match_reference(op, [x, np.array(size)], constants=[1]) == ["NUMPY"]
