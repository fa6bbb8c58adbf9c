"""Networks written as .tflite files give the same outputs in LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from device_tests.host.networks.known import build
from device_tests.host.networks.tflite_writer import tflite_bytes
from device_tests.suite.tolerance import assert_network_close
from exporter import export
from optimize import optimize
from runtime_arm import Predictor
from runtime_arm.engines.conv import gemm


@pytest.mark.parametrize("network", ["mobilenet_v2", "squeezenet1_1", "resnet18"])
def test_the_file_gives_the_same_outputs_in_litert(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)  # plans then merge most of their steps
    pair = optimize(export(build(network, image_size=64)))
    x = np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype(np.float32)
    with Predictor(pair) as predictor:
        (expected,) = predictor.run([x]).values()
    interpreter = litert.Interpreter(model_content=tflite_bytes(pair))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x.transpose(0, 2, 3, 1))
    interpreter.invoke()
    actual = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    assert_network_close(actual, expected)
