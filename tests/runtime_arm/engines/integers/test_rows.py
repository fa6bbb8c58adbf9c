"""Padded rows of integers: what is kept for the taps of a kernel."""

from __future__ import annotations

import numpy as np

from runtime_arm.engines.integers.tflite_rows import Rows
from runtime_arm.operators.common.windows import Window


def test_strides_that_pass_over_pixels_cost_nothing() -> None:
    stride = 2**22
    window = Window((12, 12), (3, 3), (1, stride), (1, 1), (0, 0), (0, 0), (10, 1))
    rows, image = Rows(window, 4, 1, stride), np.arange(12 * 12 * 4, dtype=np.int8).reshape(12, 12, 4)
    buffer = np.zeros(rows.shape(2), np.float32)
    assert buffer.shape == (3, 4, 1, 4)
    for step in rows.fill(image, buffer, 5, padding=0):
        step()
    assert np.array_equal(buffer[:, :, 0], image[5:9, :3].transpose(1, 0, 2))
