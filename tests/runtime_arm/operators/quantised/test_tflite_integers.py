"""TensorFlow Lite's quantised operators: engines against the reference kernels, refusals.

The reference kernels are compared with LiteRT's in tests/exporter/tflite/test_quantised*.py.
"""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, supporting_engines
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import OperatorDef

X: Dict[str, Any] = {"X_scale": 0.05, "X_zero_point": 4}
Y: Dict[str, Any] = {"Y_scale": 0.1, "Y_zero_point": -3}


def op(type: str, inputs: int, **arguments: Any) -> OperatorDef:
    return OperatorDef.of(type, [f"x{i}" for i in range(inputs)], ["y"], domain="tflite", **arguments)


def whole_range(*shape: int, dtype: str = "int8", seed: int = 1) -> Any:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([1, 3, 16, 33]),
    st.sampled_from([1, 8, 31]),
    st.sampled_from([(1, 1), (3, 3), (2, 5)]),
    st.sampled_from([(1, 1), (2, 2), (2, 1), (1, 3)]),
    st.sampled_from([(1, 1), (2, 3)]),
    st.sampled_from(["NONE", "RELU6"]),
    st.sampled_from([1000, 2**24]),
)
def test_convolutions_of_every_shape(
    height: int,
    width: int,
    channels: int,
    filters: int,
    kernel: Any,
    strides: Any,
    dilations: Any,
    activation: str,
    bias: int,
) -> None:
    conv = op(
        "QuantizedConv",
        3,
        **X,
        **Y,
        W_scales=list(np.linspace(0.001, 0.02, filters)),
        strides=strides,
        dilations=dilations,
        auto_pad="SAME_UPPER",
        activation=activation,
    )
    inputs = [
        whole_range(2, height, width, channels),
        whole_range(filters, *kernel, channels, seed=2),
        np.arange(filters, dtype=np.int32) * bias,
    ]
    assert assert_engines_match_reference(conv, inputs, constants=[1, 2])[-1:] == ["INT8"]


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([1, 3, 16, 33]),
    st.integers(1, 2),
    st.sampled_from([(1, 1), (3, 3), (2, 5)]),
    st.sampled_from([(1, 1), (2, 2), (2, 1), (1, 3), (7, 9)]),
    st.sampled_from([(1, 1), (2, 3)]),
    st.sampled_from([-1000, 2**24]),
)
def test_depthwise_convolutions_of_every_shape(
    height: int, width: int, channels: int, multiplier: int, kernel: Any, strides: Any, dilations: Any, bias: int
) -> None:
    conv = op(
        "QuantizedConv",
        3,
        **X,
        **Y,
        W_scales=[0.01],
        strides=strides,
        dilations=dilations,
        group=channels,
        auto_pad="SAME_UPPER",
    )
    inputs = [
        whole_range(2, height, width, channels),
        whole_range(channels * multiplier, *kernel, 1, seed=2),
        np.arange(channels * multiplier, dtype=np.int32) * bias,
    ]
    engines = assert_engines_match_reference(conv, inputs, constants=[1, 2])
    assert engines == (["INT8"] if channels == 1 else ["INT8_DEPTHWISE", "INT8"])


@pytest.mark.parametrize("bias", [2**20, 2**30])
def test_sums_that_float32_cannot_hold(bias: int) -> None:
    """Every product has the largest magnitude; slices of the sums are added in float64."""
    conv = op("QuantizedConv", 3, X_scale=1.0, X_zero_point=127, W_scales=[1.0], Y_scale=30000.0)
    inputs = [
        np.full((1, 3, 3, 2048), -128, np.int8),
        np.full((2, 3, 3, 2048), -128, np.int8),
        np.array([bias, -bias], np.int32),
    ]
    assert assert_engines_match_reference(conv, inputs, constants=[1, 2]) == ["INT8"]


@pytest.mark.parametrize("multiplier", [2.0**-20, 2.0**-13, 0.9, 3.0])
def test_multipliers_that_fit_into_float64_and_others(multiplier: float) -> None:
    conv = op("QuantizedConv", 2, X_scale=multiplier, X_zero_point=0, W_scales=[1.0], Y_scale=1.0)
    inputs = [whole_range(1, 5, 5, 300), whole_range(7, 3, 3, 300, seed=2)]
    assert assert_engines_match_reference(conv, inputs, constants=[1]) == ["INT8"]


@given(
    st.integers(1, 7),
    st.integers(1, 7),
    st.sampled_from([1, 3, 16]),
    st.sampled_from([1, 8]),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([0, 2**30]),
)
def test_transposed_convolutions_of_every_shape(
    height: int, width: int, channels: int, filters: int, kernel: int, stride: int, bias: int
) -> None:
    conv = op("QuantizedConvTranspose", 4, **X, **Y, W_scales=[0.004], strides=[stride, stride], auto_pad="SAME_UPPER")
    inputs = [
        whole_range(2, height, width, channels),
        whole_range(filters, kernel, kernel, channels, seed=2),
        np.array([height * stride, width * stride], np.int32),
        np.full(filters, bias, np.int32),
    ]
    assert assert_engines_match_reference(conv, inputs, constants=[1, 2, 3]) == ["INT8"]


@pytest.mark.parametrize(
    "shapes", [((3, 8), (8, 5)), ((2, 3, 8), (8, 5)), ((2, 1, 3, 8), (4, 8, 5)), ((2, 3, 3000), (2, 3000, 4))]
)
@pytest.mark.parametrize("constants", [[], [1]])
def test_products_of_matrices(shapes: Any, constants: Any) -> None:
    factors = [whole_range(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    matmul = op("QuantizedMatMul", 2, A_scale=0.05, A_zero_point=4, B_scale=0.07, B_zero_point=-9, Y_scale=0.3)
    assert assert_engines_match_reference(matmul, factors, constants=constants) == ["INT8"]


def test_computed_weights_are_left_to_the_reference_kernel() -> None:
    conv = op("QuantizedConv", 2, **X, **Y, W_scales=[0.01])
    assert supporting_engines(conv, [whole_range(1, 4, 4, 3), whole_range(2, 3, 3, 3)]) == []


@given(
    st.sampled_from([(1, 1), (7, 5), (12, 9)]),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["int8", "uint8"]),
)
def test_pools_of_every_shape(image: Any, down: int, across: int, stride: int, dtype: str) -> None:
    window = {"kernel_shape": [down, across], "strides": [stride, stride], "auto_pad": "SAME_UPPER"}
    pixels = [whole_range(2, *image, 5, dtype=dtype)]
    average = op("QuantizedAveragePool", 1, Y_scale=0.1, Y_zero_point=7, activation="RELU6", **window)
    assert assert_engines_match_reference(average, pixels) == ["INT8"]
    assert assert_engines_match_reference(op("QuantizedMaxPool", 1, **window), pixels) == ["NUMPY"]


@pytest.mark.parametrize(
    "shapes",
    [((2, 3, 4), (4,)), ((1,), (5, 1, 3)), ((3, 1), (1, 4)), ((), (2, 2)), ((4, 5000), (4, 5000)), ((4, 5000), (4, 1))],
)
def test_operands_that_broadcast(shapes: Any) -> None:
    operands = [whole_range(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    add = op("QuantizedAdd", 2, A_scale=0.05, A_zero_point=4, B_scale=0.07, B_zero_point=-9, **Y)
    assert assert_engines_match_reference(add, operands) == ["TABLE"]


@pytest.mark.parametrize("shape", [(3, 7), (2, 500, 60), (5, 20000), (0, 4)])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("type", ["QuantizedLogSoftmax", "QuantizedL2Normalize"])
def test_rows_in_blocks(type: str, shape: Any, dtype: str) -> None:
    assert assert_engines_match_reference(op(type, 1, **X), [whole_range(*shape, dtype=dtype)]) == ["NUMPY"]


@pytest.mark.parametrize("type", ["QuantizedMean", "QuantizedSum"])
def test_means_and_sums_of_nothing(type: str) -> None:
    (y,) = run_kernel(op(type, 1, **X, **Y, axes=[1]), [whole_range(2, 0, 3)], "NUMPY")
    np.testing.assert_array_equal(y, np.zeros((2, 3), np.int8))


def test_an_empty_batch() -> None:
    conv = op("QuantizedConv", 2, **X, **Y, W_scales=[0.01])
    (y,) = run_kernel(conv, [whole_range(0, 4, 4, 3), whole_range(2, 3, 3, 3)], "INT8", constants=[1])
    assert y.shape == (0, 2, 2, 2)


REFUSED: List[Any] = [
    ("QuantizedConv", {**X, **Y, "W_scales": [float("nan")]}, ArgumentError, "finite"),
    ("QuantizedConv", {**X, **Y, "W_scales": [0.1, 0.1, 0.1]}, ArgumentError, "one scale or 2"),
    ("QuantizedConv", {**X, **Y, "W_scales": [0.1], "W_zero_point": 3}, ArgumentError, "W_zero_point"),
    ("QuantizedConv", {**Y, "X_scale": -1.0, "W_scales": [0.1]}, ArgumentError, "the scale of X must be positive"),
    ("QuantizedConv", {**X, "Y_scale": 0.1, "Y_zero_point": 300, "W_scales": [0.1]}, ArgumentError, "-128 to 127"),
    ("QuantizedConv", {**X, **Y, "W_scales": [0.1], "activation": "TANH"}, ArgumentError, "activation must be one of"),
]


@pytest.mark.parametrize(("type", "arguments", "error", "message"), REFUSED)
def test_impossible_arguments_are_refused(type: str, arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        run_kernel(op(type, 2, **arguments), [whole_range(1, 4, 4, 3), whole_range(2, 3, 3, 3)])


def test_operands_of_different_types_are_refused() -> None:
    add = op("QuantizedAdd", 2, A_scale=0.05, B_scale=0.07, Y_scale=0.1)
    with pytest.raises(ShapeError, match="must have one type"):
        run_kernel(add, [whole_range(3), whole_range(3, dtype="uint8")])
