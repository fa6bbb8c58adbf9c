"""Deformable convolution: whole offsets shift the image; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ShapeError
from runtime_arm.netdef import OperatorDef

rng = np.random.default_rng(0)


@pytest.mark.parametrize("image", [(9,), (7, 8), (4, 5, 6)])
def test_whole_offsets_shift_the_image(image: Any) -> None:
    ndim = len(image)
    x = rng.standard_normal((2, 4, *image)).astype(np.float32)
    w = rng.standard_normal((6, 2, *[3] * ndim)).astype(np.float32)
    b = rng.standard_normal(6).astype(np.float32)
    output = [n - 2 for n in image]
    taps = 3**ndim
    attributes: Any = {"group": 2, "offset_group": 2}
    op = OperatorDef.of("DeformConv", ["X", "W", "O", "b", "M"], ["Y"], domain="onnx", **attributes)
    offsets = np.ones((2, 2 * taps * ndim, *output), np.float32)
    masks = np.full((2, 2 * taps, *output), 0.5, np.float32)
    shifted = np.zeros_like(x)
    shifted[(..., *[slice(0, -1)] * ndim)] = x[(..., *[slice(1, None)] * ndim)]
    plain = OperatorDef.of("Conv", ["X", "W", "b"], ["Y"], domain="onnx", group=2)
    expected = run_kernel(plain, [shifted * np.float32(0.5), w, b])[0]
    assert_close(run_kernel(op, [x, w, offsets, b, masks])[0], expected, terms=64)


@pytest.mark.parametrize(
    ("channels", "offsets", "rule"),
    [
        (2, (1, 18, 5, 5), "the offsets must have the shape"),
        (3, (1, 18, 4, 4), "X has 3 channels, but the weights take 2"),
    ],
)
def test_refuses(channels: int, offsets: Any, rule: str) -> None:
    op = OperatorDef.of("DeformConv", ["X", "W", "O"], ["Y"], domain="onnx")
    x, w = np.zeros((1, channels, 6, 6), np.float32), np.zeros((3, 2, 3, 3), np.float32)
    with pytest.raises(ShapeError, match=rule):
        run_kernel(op, [x, w, np.zeros(offsets, np.float32)])
