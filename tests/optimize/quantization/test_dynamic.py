"""quantize(activations="dynamic"): products of integers made while the net runs, in the runtime and in LiteRT."""

from __future__ import annotations

from typing import Dict

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from optimize import quantize
from optimize.quantization import QuantizationReport
from optimize.quantization.table import Choice
from tests.optimize.nets import numbers, pair_of
from tests.optimize.quantization.test_quantize import NET, SHAPES, samples, snr, types, weights

LAYERS = {
    "conv": ("Conv(x, w, b) -> y  kernel=3 pad=1 stride=2", (2, 3, 9, 8), {"w": (12, 3, 3, 3), "b": (12,)}),
    "activated": ("ConvRelu(x, w, b) -> y  kernel=3", (1, 3, 9, 8), {"w": (12, 3, 3, 3), "b": (12,)}),
    "depthwise": ("Conv(x, w, b) -> y  kernel=3 group=32", (1, 32, 6, 6), {"w": (32, 1, 3, 3), "b": (32,)}),
    "rows": ("FC(x, w, b) -> y", (3, 20), {"w": (15, 20), "b": (15,)}),
    "rows of a picture": ("FC(x, w, b) -> y", (2, 4, 3, 5), {"w": (15, 60), "b": (15,)}),
    "columns": ("FCTransposed(x, w, b) -> y  axis=2", (2, 3, 20), {"w": (20, 15), "b": (15,)}),
    "product": ("onnx.MatMul(x, w) -> y", (2, 3, 20), {"w": (20, 15)}),
    "gemm": ("onnx.Gemm(x, w, b) -> y  transB=1", (4, 20), {"w": (15, 20), "b": (15,)}),
}


def layer(name: str) -> tuple:
    text, shape, constants = LAYERS[name]
    rng = np.random.default_rng(8)
    values: Dict[str, np.ndarray] = {key: rng.standard_normal(of).astype(np.float32) for key, of in constants.items()}
    net = f'net "layer": x, {", ".join(values)} -> y\n {text}'
    return pair_of(net, values, {"x": shape}), {"x": rng.standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_what_litert_computes(name: str) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed to run files with")
    pytest.importorskip("tflite", reason="tflite is not installed to write files with")
    from tests.exporter.to_tflite.written import run_written, types_of

    pair, feeds = layer(name)
    small = quantize(pair, activations="dynamic")
    assert any(one.startswith("tflite.Hybrid") for one in types(small)), types(small)
    wanted, actual = numbers(pair, feeds)["y"], numbers(small, feeds)["y"]
    assert np.square(wanted).sum() / np.square(wanted - actual).sum() > 10**3, "30 dB"
    model, found = run_written(small, feeds)
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"}.intersection(types_of(model))
    assert_close(found["y"], actual)


def test_a_net_needs_no_samples_and_a_quarter_of_the_bytes() -> None:
    pair, report = pair_of(NET, weights(), SHAPES), QuantizationReport()
    small = quantize(pair, activations="dynamic", report=report)
    assert snr(pair, small) > 30
    hybrid = [row for row in report.layers if row.choice == Choice("int8", "dynamic")]
    assert len(hybrid) == sum("Hybrid" in one for one in types(small)) == 1, "smaller weights are not worth it"
    assert all(row.nbytes < 0.4 * row.nbytes_before and row.snr > 35 for row in hybrid)


def test_a_table_mixes_them_with_integers_throughout() -> None:
    pair = pair_of(NET, weights(), SHAPES)
    small = quantize(pair, samples(8), activations="int8", table={"FC g": Choice("int8", "dynamic")})
    made = types(small)
    assert "tflite.QuantizedConv" in made
    assert "tflite.HybridFullyConnected" in made
    assert "tflite.QuantizedFullyConnected" not in made
    assert snr(pair, small) > 20


def test_layers_that_cannot_are_packed() -> None:
    net = 'net "t": x, w, b -> y\n ConvTranspose(x, w, b) -> y  kernel=3'
    values = {"w": np.ones((4, 8, 3, 3), np.float32), "b": np.zeros(8, np.float32)}
    small = quantize(pair_of(net, values, {"x": (1, 4, 5, 5)}), activations="dynamic")
    assert types(small) == ["onnx.DequantizeLinear", "ConvTranspose"]
