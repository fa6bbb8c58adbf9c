"""Dynamic-range networks, with float blobs and int8 weights, equal LiteRT's reference kernels bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ExportError
from tests.support.tflite_models import Model, Quantization, ours, reference

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")


def model(
    type: str,
    options: str,
    x: Any,
    filters: Sequence[int],
    scales: int,
    version: int,
    bias: bool = True,
    axis: int = 0,
    signs: bool = False,
    dtype: str = "int8",
    **fields: Any,
) -> Tuple[bytes, Dict[str, Any]]:
    """One layer with 8-bit weights that have this number of scales; signs: some are negative, and one is 0."""
    rng = np.random.default_rng(sum(filters))
    net = Model()
    source = net.input("x", x.shape)
    of_weights = rng.uniform(0.001, 0.01, scales) * (np.arange(scales) % 3 - 1 if signs else 1)
    quantization = Quantization(of_weights, [0] * scales, axis)
    integers = rng.integers(-127, 128, filters).astype(np.int8).view(dtype)
    weights = net.constant("w", integers, quantization=quantization)
    offset = net.constant("b", rng.standard_normal(filters[axis])) if bias else -1
    y = net.tensor("y")
    net.operator(type, [source, weights, offset], [y], options, version=version, **fields)
    return net.to_bytes([y]), {"x": x}


def values(*shape: int, seed: int = 3) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def assert_equal(folder: Path, data: bytes, feeds: Dict[str, Any]) -> None:
    (expected,), (result,) = reference(data, feeds), ours(folder, data, feeds)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("type", "scales", "version"),
    [
        ("CONV_2D", 1, 2),
        ("CONV_2D", 6, 5),
        ("DEPTHWISE_CONV_2D", 6, 6),
        ("FULLY_CONNECTED", 1, 3),
        ("FULLY_CONNECTED", 6, 9),
        ("BATCH_MATMUL", 1, 4),
    ],
)
def test_scales_that_are_negative_or_zero(tmp_path: Path, type: str, scales: int, version: int) -> None:
    """With one scale it is negative."""
    window = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    options, x, filters, axis, fields = {
        "CONV_2D": ("Conv2DOptions", values(2, 5, 6, 3), (6, 2, 3, 3), 0, window),
        "DEPTHWISE_CONV_2D": (
            "DepthwiseConv2DOptions",
            values(2, 5, 6, 3),
            (1, 2, 3, 6),
            3,
            {**window, "DepthMultiplier": 2},
        ),
        "FULLY_CONNECTED": ("FullyConnectedOptions", values(5, 17), (6, 17), 0, {}),
        "BATCH_MATMUL": ("BatchMatMulOptions", values(2, 5, 17), (6, 17), 0, {}),
    }[type]
    if type == "BATCH_MATMUL":
        data, feeds = product(x, filters, Quantization([-0.01], [0]))
    else:
        data, feeds = model(type, options, x, filters, scales, version, True, axis, True, **fields)
    assert_equal(tmp_path, data, feeds)


STEPS = {"Padding": 0, "StrideW": 1, "StrideH": 1}


@pytest.mark.parametrize("filters", [1, 6])
def test_old_files_call_the_type_of_weights_uint8(tmp_path: Path, filters: int) -> None:
    """The bytes are those of int8 all the same."""
    shape, x = (filters, 2, 3, 3), values(2, 5, 6, 3)
    assert_equal(tmp_path, *model("CONV_2D", "Conv2DOptions", x, shape, 1, 5, dtype="uint8", **STEPS))
    for scales in {1, filters}:
        shape, x = (filters, 17), values(5, 17)
        layer = model("FULLY_CONNECTED", "FullyConnectedOptions", x, shape, scales, 9, dtype="uint8")
        assert_equal(tmp_path, *layer)


def test_weights_of_uint8_that_no_kernel_takes(tmp_path: Path) -> None:
    """LiteRT refuses them in depthwise convolutions, and ignores all scales but one in others."""
    x, depthwise = values(1, 4, 4, 3), {**STEPS, "DepthMultiplier": 1}
    layer = model(
        "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", x, (1, 2, 2, 3), 1, 6, axis=3, dtype="uint8", **depthwise
    )
    with pytest.raises(ExportError, match="type UINT8 cannot be combined with float inputs"):
        ours(tmp_path, *layer)
    with pytest.raises(ExportError, match="must have one scale"):
        ours(tmp_path, *model("CONV_2D", "Conv2DOptions", x, (4, 2, 2, 3), 4, 5, dtype="uint8", **STEPS))


def product(x: Any, shape: Sequence[int], quantization: Quantization) -> Tuple[bytes, Dict[str, Any]]:
    """A stack of matrices times one matrix of int8, turned."""
    net, rng = Model(), np.random.default_rng(1)
    source = net.input("x", x.shape)
    weights = net.constant("w", rng.integers(-127, 128, shape).astype(np.int8), quantization=quantization)
    y = net.tensor("y")
    net.operator("BATCH_MATMUL", [source, weights], [y], "BatchMatMulOptions", version=4, AdjY=True)
    return net.to_bytes([y]), {"x": x}


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("scales", [1, 33])
@pytest.mark.parametrize("length", [17, 333, 2048])
def test_fully_connected_layers(tmp_path: Path, length: int, scales: int, asymmetric: bool) -> None:
    data, feeds = model(
        "FULLY_CONNECTED",
        "FullyConnectedOptions",
        values(5, length),
        (33, length),
        scales,
        9 if scales > 1 else 3,
        AsymmetricQuantizeInputs=asymmetric,
        FusedActivationFunction=1,
    )
    assert_equal(tmp_path, data, feeds)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("scales", [1, 5])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 2)])
def test_convolutions(tmp_path: Path, kernel: Sequence[int], scales: int, padding: int) -> None:
    data, feeds = model(
        "CONV_2D",
        "Conv2DOptions",
        values(2, 9, 8, 40),
        (5, *kernel, 40),
        scales,
        5,
        Padding=padding,
        StrideW=2,
        StrideH=1,
        FusedActivationFunction=3,
    )
    assert_equal(tmp_path, data, feeds)


def test_sums_that_float32_cannot_hold(tmp_path: Path) -> None:
    """4,608 products of up to 127 * 255: the sums of channel slices are added in float64."""
    data, feeds = model(
        "CONV_2D", "Conv2DOptions", np.abs(values(1, 6, 6, 512)), (4, 3, 3, 512), 4, 5, Padding=0, StrideW=1, StrideH=1
    )
    assert_equal(tmp_path, data, feeds)


@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise_convolutions(tmp_path: Path, multiplier: int) -> None:
    filters = (1, 3, 3, 12 * multiplier)
    data, feeds = model(
        "DEPTHWISE_CONV_2D",
        "DepthwiseConv2DOptions",
        values(2, 12, 16, 12),
        filters,
        filters[3],
        6,
        axis=3,
        Padding=0,
        StrideW=1,
        StrideH=1,
        DepthMultiplier=multiplier,
    )
    assert_equal(tmp_path, data, feeds)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("scales", [1, 5])
@pytest.mark.parametrize(
    ("kernel", "strides"), [((3, 3), (2, 2)), ((2, 4), (1, 2)), ((5, 2), (3, 2)), ((1, 1), (1, 1))]
)
def test_transposed_convolutions(
    tmp_path: Path, kernel: Sequence[int], strides: Sequence[int], scales: int, padding: int
) -> None:
    """LiteRT converts the sums to floats in another order: these alone are not equal bit for bit."""
    net, rng = Model(), np.random.default_rng(5)
    beyond = [max(k - s, 0) if padding else 0 for k, s in zip(kernel, strides)]
    size = net.constant("size", np.array([2, 4 * strides[0] + beyond[0], 5 * strides[1] + beyond[1], 5]))
    of_w = Quantization(rng.uniform(0.001, 0.01, scales), [0] * scales)
    w = net.constant("w", rng.integers(-127, 128, (5, *kernel, 7)).astype(np.int8), quantization=of_w)
    x, b, y = net.input("x", (2, 4, 5, 7)), net.constant("b", rng.standard_normal(5)), net.tensor("y")
    fields = {"Padding": padding, "StrideH": strides[0], "StrideW": strides[1]}
    net.operator("TRANSPOSE_CONV", [size, w, x, b], [y], "TransposeConvOptions", version=3, **fields)
    feeds = {"x": values(2, 4, 5, 7) * np.array([1, 30], np.float32).reshape(2, 1, 1, 1)}
    data = net.to_bytes([y])
    assert_close(ours(tmp_path, data, feeds)[0], reference(data, feeds)[0], terms=5 * 2 * 7)


@pytest.mark.parametrize("scales", [1, 5])
def test_a_blob_of_zeros(tmp_path: Path, scales: int) -> None:
    data, feeds = model(
        "CONV_2D",
        "Conv2DOptions",
        np.zeros((1, 4, 4, 3), np.float32),
        (5, 3, 3, 3),
        scales,
        5,
        Padding=0,
        StrideW=1,
        StrideH=1,
    )
    assert_equal(tmp_path, data, feeds)


def test_a_single_filter_has_one_scale(tmp_path: Path) -> None:
    data, feeds = model(
        "CONV_2D", "Conv2DOptions", values(1, 4, 4, 3), (1, 3, 3, 3), 1, 5, Padding=0, StrideW=1, StrideH=1
    )
    assert_equal(tmp_path, data, feeds)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("scales", [[0.037], [-0.021], [0.1, 0.02, -0.3, 0.0, 0.017, 2.5]])
def test_rows_of_an_eight_bit_table(tmp_path: Path, scales: List[float], dtype: str) -> None:
    net = Model()
    table = np.random.default_rng(4).integers(-127, 128, (6, 5, 2)).astype(dtype)
    indices = net.input("i", (4,), "int32")
    rows = net.constant("table", table, quantization=Quantization(scales, [0] * len(scales)))
    y = net.tensor("y")
    net.operator("EMBEDDING_LOOKUP", [indices, rows], [y], version=3)
    assert_equal(tmp_path, net.to_bytes([y]), {"i": np.array([5, 0, 3, 2], np.int32)})


def test_scales_of_columns_are_refused(tmp_path: Path) -> None:
    net = Model()
    rows = net.constant("table", np.ones((6, 5), np.int8), quantization=Quantization([0.5] * 5, [0] * 5, 1))
    y = net.tensor("y")
    net.operator("EMBEDDING_LOOKUP", [net.input("i", (4,), "int32"), rows], [y], version=3)
    with pytest.raises(ExportError, match="must have one scale, or one per row"):
        ours(tmp_path, net.to_bytes([y]), {"i": np.zeros(4, np.int32)})


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_with_one_matrix(tmp_path: Path, transposed: bool, asymmetric: bool) -> None:
    net, x = Model(), values(2, 3, 40)
    matrix = np.random.default_rng(4).integers(-127, 128, (1, 7, 40) if transposed else (1, 40, 7)).astype(np.int8)
    source, y = net.input("x", x.shape), net.tensor("y")
    weights = net.constant("w", matrix, quantization=Quantization([0.013]))
    net.operator(
        "BATCH_MATMUL",
        [source, weights],
        [y],
        "BatchMatMulOptions",
        version=4,
        AdjY=transposed,
        AsymmetricQuantizeInputs=asymmetric,
    )
    assert_equal(tmp_path, net.to_bytes([y]), {"x": x})
