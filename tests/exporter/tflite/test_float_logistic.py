"""A float LOGISTIC between DEQUANTIZE and QUANTIZE: the integers of LiteRT's reference kernels, optimised or not."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import export
from optimize import optimize
from runtime_arm import Predictor
from tests.support.tflite_models import Model, Quantization, ours, reference

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")


def test_it_is_the_reference_kernels_function_but_for_the_last_bit_of_some_exponentials(tmp_path: Path) -> None:
    model, shape = Model(), (1, 300_000)
    x, y = model.input("x", shape), model.tensor("y", shape)
    model.operator("LOGISTIC", [x], [y])
    integers = model.tensor("z", shape, "int8", quantization=Quantization([1 / 256], [-128]))
    model.operator("QUANTIZE", [y], [integers], "QuantizeOptions")
    feeds = {"x": np.random.default_rng(0).uniform(-25, 25, shape).astype(np.float32)}
    data = model.to_bytes(outputs=[y, integers])
    expected, results = reference(data, feeds), ours(tmp_path, data, feeds)
    np.testing.assert_array_equal(results[1], expected[1])
    np.testing.assert_array_max_ulp(results[0], expected[0], 2)
    assert (results[0] != expected[0]).mean() < 0.002


@given(st.integers(0, 255), st.integers(0, 200), st.floats(0.01, 0.2), st.integers(-40, 40), st.booleans())
def test_a_float_logistic_between_integers_is_rounded_as_litert_does(
    code: int, steps: int, scale: float, zero_point: int, times: bool
) -> None:
    """The scale of the result puts one of the 256 results on a tie, where the last bit of the function decides."""
    x = np.arange(-128, 128, dtype=np.int8).reshape(1, 256)
    real = (int(x[0, code]) - zero_point) * float(np.float32(scale))
    value = 1 / (1 + np.exp(-real)) * (real if times else 1)
    of_y = Quantization([max(abs(float(np.float32(value / (steps + 0.5)))), 1e-6)], [0])
    model = Model()
    source = model.input("x", x.shape, "int8", quantization=Quantization([scale], [zero_point]))
    floats, product, y = model.tensor("floats", x.shape), model.tensor("product", x.shape), model.tensor("s", x.shape)
    model.operator("DEQUANTIZE", [source], [floats], "DequantizeOptions", version=2)
    model.operator("LOGISTIC", [floats], [y])
    if times:
        model.operator("MUL", [floats, y], [product], "MulOptions")
    result = model.tensor("y", x.shape, "int8", quantization=of_y)
    model.operator("QUANTIZE", [product if times else y], [result], "QuantizeOptions")
    data = model.to_bytes(outputs=[result])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(data)
        plain = export(path)
        pairs = (plain, optimize(plain))
    expected = reference(data, {"x": x})[0]
    for pair in pairs:
        with Predictor(pair, threads=1) as predictor:
            np.testing.assert_array_equal(predictor.run([x])[pair.outputs[0].name], expected)
