"""Layers of integers round as LiteRT's reference kernels do where a sum lies next to a tie between two outputs.

All inputs are zero points, so that a filter's sum is its bias. The biases are those at which the output changes, and
their neighbours.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

from exporter import export
from optimize import optimize
from runtime_arm import Predictor
from runtime_arm.netdef import OperatorDef
from tests.support.tflite_integers import Single
from tests.support.tflite_models import Model, Quantization, ours, reference

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
LAYERS = ["FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"]
KINDS = ["int8", "int16", "int16 by filter", "int16 of both signs", "int8 by filter", "int8 of both signs", "uint8"]
_WINDOW = {"Padding": 1, "StrideH": 1, "StrideW": 1}
_DILATION = {"DilationHFactor": 1, "DilationWFactor": 1}


def layer_of_ties(type: str, kind: str, seed: int) -> Tuple[bytes, Dict[str, Any]]:
    """A file with one layer whose sums lie next to ties, and its input."""
    rng, dtype = np.random.default_rng(seed), kind.split()[0]
    limits, by_filter = np.iinfo(dtype), kind != dtype
    x_scale, w_scale = (np.float32(2.0 ** rng.uniform(-9, -3)) for _ in range(2))
    reach = 100 if dtype != "int16" else 32000  # outputs on both sides of the zero point
    y_scale = np.float32(x_scale * w_scale * 2.0 ** rng.integers(6, 28) / reach)
    steps = np.repeat(np.unique(rng.integers(-reach, reach, 40)), 3)
    scales = (w_scale * rng.uniform(0.6, 1, steps.size) if by_filter else np.full(1, w_scale)).astype(np.float32)
    scales *= rng.choice([-1, 1], scales.size) if kind.endswith("signs") else 1
    exact = (steps + 0.5) * np.float64(y_scale) / (np.float64(x_scale) * scales.astype(np.float64))
    sums = np.rint(exact).astype(np.int64) + np.arange(steps.size) % 3 - 1
    bias = np.clip(sums, -(2**30), 2**30).astype("int64" if dtype == "int16" else "int32")
    return _layer(type, dtype, bias, (x_scale, scales, y_scale), int(rng.integers(limits.min, limits.max + 1)))


def _layer(type: str, dtype: str, bias: Any, scales: Tuple[Any, Any, Any], zero: int) -> Tuple[bytes, Dict[str, Any]]:
    x_scale, w_scales, y_scale = scales
    filters, of_weights, zero = bias.size, "int8" if dtype == "int16" else dtype, 0 if dtype == "int16" else zero
    depthwise = type == "DEPTHWISE_CONV_2D"
    x_shape, w_shape = {"FULLY_CONNECTED": ((1, 1), (filters, 1))}.get(type, ((1, 1, 1, 1), (filters, 1, 1, 1)))
    if depthwise:
        x_shape, w_shape = (1, 1, 1, filters), (1, 1, 1, filters)
    model = Model()
    x = model.input("x", x_shape, dtype, quantization=Quantization([float(x_scale)], [zero]))
    given = Quantization(w_scales.tolist(), [0 if of_weights == "int8" else 77] * w_scales.size, 3 if depthwise else 0)
    w = model.constant("w", np.zeros(w_shape, of_weights), quantization=given)
    of_bias = Quantization((w_scales * x_scale).tolist(), [0] * w_scales.size)
    b = model.constant("b", bias, dtype=bias.dtype.name, quantization=of_bias)
    y = model.tensor("y", dtype=dtype, quantization=Quantization([float(y_scale)], [zero // 2]))
    operands, options, fields = {
        "FULLY_CONNECTED": ([x, w, b], "FullyConnectedOptions", {}),
        "CONV_2D": ([x, w, b], "Conv2DOptions", {**_WINDOW, **_DILATION}),
        "DEPTHWISE_CONV_2D": ([x, w, b], "DepthwiseConv2DOptions", {**_WINDOW, **_DILATION, "DepthMultiplier": 1}),
        "TRANSPOSE_CONV": ([w, x, b], "TransposeConvOptions", _WINDOW),
    }[type]
    if type == "TRANSPOSE_CONV":
        operands = [model.constant("shape", np.array([1, 1, 1, filters], np.int32)), *operands]
    model.operator(type, operands, [y], options, version=4, **fields)
    return model.to_bytes([y]), {"x": np.full(x_shape, zero, dtype)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("type", LAYERS)
def test_a_layer_of_sums_beside_ties(tmp_path: Path, type: str, kind: str) -> None:
    differing: List[int] = []
    for seed in range(6):
        data, feeds = layer_of_ties(type, kind, seed)
        (expected,), (result,) = reference(data, feeds), ours(tmp_path, data, feeds)
        assert expected.dtype == result.dtype
        assert len(np.unique(expected)) > 10
        differing.append(int((expected != result).sum()))
    assert differing == [0] * 6


def test_an_optimised_layer_rounds_the_same(tmp_path: Path) -> None:
    data, feeds = layer_of_ties("FULLY_CONNECTED", "int8", 3)
    (tmp_path / "net.tflite").write_bytes(data)
    with Predictor(optimize(export(tmp_path / "net.tflite"))) as predictor:
        np.testing.assert_array_equal(next(iter(predictor.run(feeds).values())), reference(data, feeds)[0])


def test_every_engine_rounds_a_fully_connected_layer_the_same() -> None:
    """Sums of up to 25 bits, and ties at every second of them."""
    from device_tests.suite.kernels import assert_engines_match_reference

    rng = np.random.default_rng(8)
    x, w = rng.integers(-128, 128, (50, 3000)).astype(np.int8), rng.integers(-127, 128, (20, 3000)).astype(np.int8)
    op = OperatorDef.of(
        "QuantizedFullyConnected",
        ["X", "W", "B"],
        ["Y"],
        domain="tflite",
        X_scale=0.5,
        W_scales=[0.25],
        Y_scale=0.25 * 2**13,
        X_zero_point=-3,
        Y_zero_point=5,
    )
    bias = (rng.integers(-100, 100, 20) * 4096 + rng.integers(-2, 3, 20)).astype(np.int32)
    assert_engines_match_reference(op, [x, w, bias], terms=3000)


@pytest.mark.parametrize(("x_scale", "y_scale"), [(0.5, 0.35355338), (0.25, 0.1), (2.0, 0.7071068)])
def test_roots_are_divided_by_the_scale(x_scale: float, y_scale: float) -> None:
    """A product with the inverse of the scale lies on the other side of whole numbers."""
    net, every = Single(), np.arange(256, dtype=np.uint8).view(np.int8).reshape(1, 16, 16, 1)
    net.feed(every, Quantization([x_scale], [-128]))
    net.assert_equal("SQRT", "int8", Quantization([y_scale], [-128]), version=2)
