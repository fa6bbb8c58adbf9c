"""Kernels on integers run pictures of several sizes by one Predictor: what is packed once does not depend on sizes."""

from __future__ import annotations

import numpy as np
import pytest

from runtime_arm import Predictor
from tests.optimize.nets import pair_of

SCALES = "X_scale=0.05 X_zero_point=3 W_zero_point=0 Y_scale=0.1 Y_zero_point=-4"
PADS = "pads=[1, 1, 1, 1]"
NETS = {
    "convolution": f"tflite.QuantizedConv(x, w) -> y  W_scales=[0.02] {SCALES} {PADS}",
    "depthwise": f"tflite.QuantizedConv(x, d) -> y  W_scales=[0.02] {SCALES} {PADS} group=4",
    "transposed": f"tflite.QuantizedConvTranspose(x, w, size) -> y  W_scales=[0.02] {SCALES} strides=[2, 2]",
    "hybrid": "tflite.HybridConv(x, h) -> y  W_scales=[0.02] kernel=3 pad=1",
    "hybrid depthwise": "tflite.HybridDepthwiseConv(x, c) -> y  W_scales=[0.02] kernel=3 pad=1 group=4",
}
FILTERS = {"w": (6, 3, 3, 4), "d": (4, 3, 3, 1), "h": (6, 4, 3, 3), "c": (4, 1, 3, 3)}


@pytest.mark.parametrize("name", NETS)
def test_sizes_change_between_runs(name: str) -> None:
    rng = np.random.default_rng(1)
    used = {key: rng.integers(-127, 128, shape).astype(np.int8) for key, shape in FILTERS.items()}
    used["size"] = np.array([17, 17], np.int32)
    used = {key: value for key, value in used.items() if f", {key})" in NETS[name] or f", {key}," in NETS[name]}
    hybrid, batches = name.startswith("hybrid"), name == "transposed"  # whose size is a constant
    dtype = np.float32 if hybrid else np.int8
    sizes = [(1, 8, 8), (3, 8, 8)] if batches else [(1, 6, 5), (2, 40, 37), (1, 9, 70)]
    pair = pair_of(f'net "n": x, {", ".join(used)} -> y\n {NETS[name]}', used)
    with Predictor(pair, threads=1) as kept:
        for batch, height, width in sizes:
            dims = (batch, 4, height, width) if hybrid else (batch, height, width, 4)
            feed = {"x": rng.integers(-128, 128, dims).astype(dtype)}
            with Predictor(pair, threads=1) as fresh:
                np.testing.assert_array_equal(kept.run(feed)["y"], fresh.run(feed)["y"])
