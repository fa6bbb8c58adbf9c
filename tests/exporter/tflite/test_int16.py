"""Networks of int16 activations and int8 weights equal LiteRT's reference kernels bit for bit, for all parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import export
from optimize import optimize
from runtime_arm import Predictor
from runtime_arm.errors import ExportError
from tests.support.tflite_integers import ACTIVATIONS, Single, affine, scales, whole_range
from tests.support.tflite_models import Model, Quantization, ours, reference

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
SEEDS = st.integers(0, 2**20)
SIDES = st.integers(1, 9)
few = settings(max_examples=25)
SAME, VALID = 0, 1


def layer(x: Any, w: Any, axis: int, one_scale: bool, seed: int, data: Any, least: float = 0) -> Any:
    """A network with X, weights and a bias of 64 bits, and the quantisation of Y. least: see below; rescaled sums
    have to fit into 32 bits, beyond which the reference kernels are undefined."""
    rng, filters, net = np.random.default_rng(seed), w.shape[axis], Single()
    x_scale = data.draw(scales())
    w_scales = (2.0 ** rng.uniform(-9, -3, 1 if one_scale else filters)).astype(np.float32)
    w_scales *= rng.choice([-1, 1], w_scales.size) if w_scales.size > 1 else 1
    net.feed(x, Quantization([x_scale], [0]))
    net.constant(w, Quantization(w_scales.tolist(), [0] * w_scales.size, axis))
    of_bias = "int32" if w.dtype == x.dtype else "int64"
    steps = 2.0 ** data.draw(st.floats(least, 15 if of_bias == "int32" else 22))  # sums that make a step of the output
    bias = (rng.uniform(-40000, 40000, filters) * steps).astype(of_bias)
    net.constant(bias, Quantization((w_scales * np.float32(x_scale)).tolist(), [0] * w_scales.size), of_bias)
    return net, Quantization([float(np.float32(x_scale * np.abs(w_scales).max() * steps))], [0])


def weights(shape: Sequence[int], seed: int) -> Any:
    return np.maximum(whole_range(shape, "int8", seed), -127).astype(np.int8)


@few
@given(
    st.booleans(),
    SIDES,
    SIDES,
    st.integers(1, 5),
    st.integers(1, 20),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from([SAME, VALID]),
    st.booleans(),
    ACTIVATIONS,
    SEEDS,
    st.data(),
)
def test_convolutions(
    depthwise: bool,
    height: int,
    width: int,
    channels: int,
    filters: int,
    kernel: int,
    stride: int,
    padding: int,
    one_scale: bool,
    activation: int,
    seed: int,
    data: Any,
) -> None:
    kernel = kernel if padding == SAME else min(kernel, height, width)
    x = whole_range((2, height, width, channels), "int16", seed)
    shape = (1, kernel, kernel, channels * 2) if depthwise else (filters, kernel, kernel, channels)
    net, of_y = layer(x, weights(shape, seed + 1), 3 if depthwise else 0, one_scale, seed, data)
    window = {"Padding": padding, "StrideH": stride, "StrideW": stride, "FusedActivationFunction": activation}
    window.update(DilationHFactor=1, DilationWFactor=1)
    if depthwise:
        net.assert_equal("DEPTHWISE_CONV_2D", "int16", of_y, "DepthwiseConv2DOptions", 5, DepthMultiplier=2, **window)
    else:
        net.assert_equal("CONV_2D", "int16", of_y, "Conv2DOptions", 4, **window)


@few
@given(
    st.integers(1, 20),
    st.sampled_from([1, 7, 64, 3000]),
    st.integers(1, 30),
    st.booleans(),
    st.sampled_from(["int8", "int16"]),
    ACTIVATIONS,
    SEEDS,
    st.data(),
)
def test_fully_connected(
    rows: int, length: int, filters: int, one_scale: bool, of_weights: str, activation: int, seed: int, data: Any
) -> None:
    x = whole_range((rows, length), "int16", seed)
    w = (
        weights((filters, length), seed + 1)
        if of_weights == "int8"
        else whole_range((filters, length), "int16", seed) // 256
    )
    net, of_y = layer(x, w, 0, one_scale or of_weights == "int16", seed, data, 8)
    net.assert_equal("FULLY_CONNECTED", "int16", of_y, "FullyConnectedOptions", 7, FusedActivationFunction=activation)


@few
@given(
    SIDES,
    SIDES,
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 2),
    st.booleans(),
    SEEDS,
    st.data(),
)
def test_transposed_convolutions(
    height: int,
    width: int,
    channels: int,
    filters: int,
    kernel: int,
    stride: int,
    one_scale: bool,
    seed: int,
    data: Any,
) -> None:
    sizes = [(n - 1) * stride + kernel for n in (height, width)]
    x = whole_range((2, height, width, channels), "int16", seed)
    net, of_y = layer(x, weights((filters, kernel, kernel, channels), seed + 1), 0, one_scale, seed, data)
    net.constant(np.array([2, *sizes, filters], np.int32))
    net.order([3, 1, 0, 2])
    net.assert_equal(
        "TRANSPOSE_CONV", "int16", of_y, "TransposeConvOptions", 4, Padding=VALID, StrideH=stride, StrideW=stride
    )


@few
@given(
    st.integers(1, 3),
    st.integers(1, 30),
    st.sampled_from([1, 7, 300]),
    st.integers(1, 20),
    st.booleans(),
    st.booleans(),
    SEEDS,
    st.data(),
)
def test_products_of_matrices(
    batch: int, rows: int, terms: int, columns: int, turned: bool, narrow: bool, seed: int, data: Any
) -> None:
    net, of_a, of_b = Single(), data.draw(affine("int16")), data.draw(affine("int16"))
    net.feed(whole_range((batch, rows, terms), "int16", seed), of_a)
    shape = (batch, columns, terms) if turned else (batch, terms, columns)
    if narrow:
        net.constant(weights(shape, seed + 1), of_b)
    else:
        net.feed(whole_range(shape, "int16", seed + 1), of_b)
    powers = st.floats(8, 20).map(lambda power: float(np.float32(of_a.scale[0] * of_b.scale[0] * 2**power)))
    of_y = data.draw(affine("int16", powers))
    net.assert_equal("BATCH_MATMUL", "int16", of_y, "BatchMatMulOptions", 4, AdjY=turned)


def network(seed: int) -> Any:
    """A convolution, a depthwise one, a sum, a pool, a fully connected layer and a softmax, with its input."""
    rng, model = np.random.default_rng(seed), Model()

    def tensor(name: str, scale: float) -> int:
        return model.tensor(name, (), "int16", quantization=Quantization([scale], [0]))

    def parameters(name: str, shape: Any, x_scale: float, axis: int) -> Any:
        count = shape[axis]
        of_w = (rng.uniform(0.5, 1, count) * 0.01).astype(np.float32)
        w = model.constant(
            f"{name}_w", weights(shape, seed), quantization=Quantization(of_w.tolist(), [0] * count, axis)
        )
        of_b = Quantization((of_w * np.float32(x_scale)).tolist(), [0] * count)
        return w, model.constant(f"{name}_b", rng.integers(-9999, 9999, count), dtype="int64", quantization=of_b)

    window = {"Padding": SAME, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    x = model.input("x", (1, 8, 8, 3), "int16", quantization=Quantization([1e-4], [0]), signature=(-1, 8, 8, 3))
    a, b, c, d, e, f = (tensor(name, scale) for name, scale in zip("abcdef", (3e-4, 5e-4, 6e-4, 6e-4, 1e-3, 2.0**-15)))
    model.operator("CONV_2D", [x, *parameters("a", (8, 3, 3, 3), 1e-4, 0)], [a], "Conv2DOptions", version=4, **window)
    depthwise = parameters("b", (1, 3, 3, 8), 3e-4, 3)
    model.operator(
        "DEPTHWISE_CONV_2D", [a, *depthwise], [b], "DepthwiseConv2DOptions", version=5, DepthMultiplier=1, **window
    )
    model.operator("ADD", [a, b], [c], "AddOptions", version=2, FusedActivationFunction=1)
    pool = {"Padding": VALID, "StrideH": 8, "StrideW": 8, "FilterHeight": 8, "FilterWidth": 8}
    model.operator("AVERAGE_POOL_2D", [c], [d], "Pool2DOptions", version=3, **pool)
    model.operator("FULLY_CONNECTED", [d, *parameters("e", (5, 8), 6e-4, 0)], [e], "FullyConnectedOptions", version=7)
    model.operator("SOFTMAX", [e], [f], "SoftmaxOptions", version=3, Beta=0.05)
    return model.to_bytes([f])


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_network(tmp_path: Path, batch: int, threads: int) -> None:
    data, feeds = network(batch), {"x": whole_range((batch, 8, 8, 3), "int16", batch)}
    (expected,), (plain,) = reference(data, feeds), ours(tmp_path, data, feeds)
    with Predictor(optimize(export(tmp_path / "model.tflite")), threads=threads) as predictor:
        (optimised,) = predictor.run(feeds).values()
    assert len(np.unique(expected)) > 3
    np.testing.assert_array_equal(plain, expected)
    np.testing.assert_array_equal(optimised, expected)


def test_a_bias_of_32_bits_is_refused(tmp_path: Path) -> None:
    """LiteRT's kernels read it as 64 bits."""
    model = Model()
    x = model.input("x", (1, 2, 2, 1), "int16", quantization=Quantization([0.1], [0]))
    w = model.constant("w", np.ones((1, 1, 1, 1), np.int8), quantization=Quantization([0.1], [0]))
    b = model.constant("b", np.ones(1, np.int32), quantization=Quantization([0.01], [0]))
    y = model.tensor("y", (1, 2, 2, 1), "int16", quantization=Quantization([0.1], [0]))
    options = {"Padding": 1, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    model.operator("CONV_2D", [x, w, b], [y], "Conv2DOptions", version=4, **options)
    (tmp_path / "net.tflite").write_bytes(model.to_bytes([y]))
    with pytest.raises(ExportError, match="the bias must be int64"):
        export(tmp_path / "net.tflite")
