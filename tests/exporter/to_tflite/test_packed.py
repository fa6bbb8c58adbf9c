"""Packed weights stay packed in TFLite files, and LiteRT makes the same floats of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_network_close
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import numbers, pair_of

pytest.importorskip("tflite", reason="tflite is not installed to write models with")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed to run models with")

import armnet
from exporter.to_tflite.writer import to_bytes
from tests.exporter.to_tflite.written import run_written, types_of

NET = """net "n": x, w1, b1, w2, w3, b3 -> y
    Conv(x, w1, b1) -> a  kernel=3 pad=1
    Conv(a, w2) -> b  kernel=7 pad=3 group=16
    Flatten(b) -> f
    FC(f, w3, b3) -> y"""
SHAPES = {"w1": (16, 4, 3, 3), "b1": (16,), "w2": (16, 1, 7, 7), "w3": (10, 16 * 36), "b3": (10,)}


def net() -> Pair:
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    return pair_of(NET, weights, {"x": (1, 4, 6, 6)})


@pytest.mark.parametrize(
    ("weights", "dtype", "share"), [("int8", np.int8, 0.5), ("float16", np.float16, 0.75), ("int4", np.float16, 0.75)]
)
def test_weights_are_as_small_as_they_can_be(weights: str, dtype: Any, share: float) -> None:
    pair, x = net(), np.random.default_rng(1).standard_normal((1, 4, 6, 6)).astype(np.float32)
    small = armnet.quantize(pair, None, weights)
    model, found = run_written(small, {"x": x})
    assert types_of(model).count("DEQUANTIZE") == 3
    large = [tensor for tensor in model.graphs[0].tensors if tensor.value is not None and tensor.value.size > 256]
    assert [tensor.dtype for tensor in large] == [np.dtype(dtype)] * 3
    assert len(to_bytes(model)) < share * len(to_bytes(run_written(pair, {"x": x})[0]))
    with armnet.Predictor(small, threads=1) as predictor:
        assert_network_close(found["y"], predictor.run({"x": x})["y"])


@pytest.mark.parametrize("weights", ["float16", "int8"])
def test_a_file_of_packed_weights_is_written_as_small_as_it_was_read(tmp_path: Path, weights: str) -> None:
    pair, x = net(), np.random.default_rng(1).standard_normal((1, 4, 6, 6)).astype(np.float32)
    armnet.save_tflite(armnet.quantize(pair, None, weights), tmp_path / "first.tflite")
    read = armnet.export(tmp_path / "first.tflite")
    armnet.save_tflite(read, tmp_path / "second.tflite")
    sizes = [(tmp_path / name).stat().st_size for name in ("first.tflite", "second.tflite")]
    assert sizes[1] < 1.02 * sizes[0]
    again = armnet.export(tmp_path / "second.tflite")
    feeds = {read.inputs[0].name: x if read.inputs[0].shape == x.shape else x.transpose(0, 2, 3, 1)}
    for (_, wanted), (_, found) in zip(numbers(read, feeds).items(), numbers(again, feeds).items()):
        np.testing.assert_array_equal(found, wanted)


def test_zeros_keep_their_signs() -> None:
    steps = np.random.default_rng(0).integers(-127, 128, (20, 16)).astype(np.float32)
    steps[:, 0], x = 127, np.ones((20, 16), np.float32)
    for zero, dtype in ((0.0, np.int8), (-0.0, np.float16)):
        w = np.where(steps == 0, np.float32(zero), steps)
        w[3] = zero
        pair = pair_of('net "n": x, w -> y\n Mul(x, w) -> y', {"w": w}, {"x": x.shape})
        model, found = run_written(pair, {"x": x})
        assert {tensor.dtype for tensor in model.graphs[0].tensors if tensor.value is not None} == {np.dtype(dtype)}
        np.testing.assert_array_equal(np.signbit(found["y"]), np.signbit(w))


def test_weights_of_palettes_become_floats() -> None:
    pair = armnet.quantize(net(), None, "palette")
    model, _ = run_written(pair, {"x": np.zeros((1, 4, 6, 6), np.float32)})
    assert "DEQUANTIZE" not in types_of(model)


def test_zero_points_of_filters_are_written_once() -> None:
    """They have eight bytes each, and those of all weights and biases are zeros."""
    rng = np.random.default_rng(0)
    values = {name: rng.standard_normal((512, 8)).astype(np.float32) for name in "wv"}
    values["b"] = np.ones(512, np.float32)
    pair = pair_of('net "n": x, w, v, b -> y, z\n FC(x, w, b) -> y\n FC(x, v, b) -> z', values, {"x": (1, 8)})
    feeds = [{"x": rng.standard_normal((1, 8)).astype(np.float32)} for _ in range(4)]
    small = armnet.quantize(pair, feeds, activations="int8", snr=-math.inf)
    model, found = run_written(small, feeds[0])
    np.testing.assert_array_equal(found["y"], numbers(small, feeds[0])["y"])
    weights, biases, scales, zeros = 2 * 512 * 8, 2 * 512 * 4, 4 * 512 * 4, 512 * 8
    assert len(to_bytes(model)) < weights + biases + scales + zeros + 4000
