"""Quantised layers and reductions equal LiteRT's reference kernels bit for bit, for all parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Tuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.tflite_integers import ACTIVATIONS, DTYPES, Single, affine, scales, whole_range
from tests.support.tflite_models import TYPES, Model, Quantization, ours, reference

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
SEEDS = st.integers(0, 2**20)
SIDES = st.integers(1, 9)
few = settings(max_examples=40)
SAME, VALID = 0, 1


def zero(dtype: str, data: Any) -> int:
    """A zero point for weights; 0 for int8."""
    return 0 if dtype == "int8" else int(data.draw(st.integers(0, 255)))


def convolution(dtype: str, x: Any, w: Any, data: Any, one_scale: bool, axis: int) -> Tuple[Single, Quantization]:
    """A network with X, weights and a bias, and the quantisation of Y."""
    of_x = data.draw(affine(dtype))
    filters = w.shape[axis]
    of_w = [data.draw(scales(-9, -3))] if one_scale else [float(np.float32(0.002 * (1 + i))) for i in range(filters)]
    net = Single()
    net.feed(x, of_x)
    net.constant(w, Quantization(of_w, [zero(dtype, data)] * len(of_w), axis))
    of_b = [float(np.float32(of_x.scale[0]) * np.float32(scale)) for scale in of_w]
    bias = np.random.default_rng(filters).integers(-30000, 30000, filters).astype(np.int32)
    net.constant(bias, Quantization(of_b, [0] * len(of_b)))
    powers = st.floats(0.5, 10, width=32)  # the multiplier is below 1 and may round tens of thousands to a step
    y_scale = powers.map(lambda power: float(np.float32(of_x.scale[0] * max(of_w) * 2.0**power)))
    return net, data.draw(affine(dtype, y_scale))


@few
@given(
    DTYPES,
    SIDES,
    SIDES,
    st.integers(1, 5),
    st.integers(1, 20),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 2),
    st.sampled_from([SAME, VALID]),
    st.booleans(),
    ACTIVATIONS,
    SEEDS,
    st.data(),
)
def test_conv_2d(
    dtype: str,
    height: int,
    width: int,
    channels: int,
    filters: int,
    kh: int,
    kw: int,
    stride: int,
    dilation: int,
    padding: int,
    one_scale: bool,
    activation: int,
    seed: int,
    data: Any,
) -> None:
    assume(padding == SAME or ((kh - 1) * dilation < height and (kw - 1) * dilation < width))
    dilation = dilation if stride == 1 else 1
    x = whole_range((2, height, width, channels), dtype, seed)
    w = np.maximum(whole_range((filters, kh, kw, channels), dtype, seed + 1), -127 if dtype == "int8" else 0)
    net, of_y = convolution(dtype, x, w.astype(dtype), data, one_scale or dtype == "uint8", 0)
    net.assert_equal(
        "CONV_2D",
        dtype,
        of_y,
        "Conv2DOptions",
        version=3,
        Padding=padding,
        StrideH=stride,
        StrideW=stride,
        DilationHFactor=dilation,
        DilationWFactor=dilation,
        FusedActivationFunction=activation,
    )


@few
@given(
    DTYPES,
    SIDES,
    SIDES,
    st.integers(1, 9),
    st.integers(1, 2),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([SAME, VALID]),
    st.booleans(),
    ACTIVATIONS,
    SEEDS,
    st.data(),
)
def test_depthwise_conv_2d(
    dtype: str,
    height: int,
    width: int,
    channels: int,
    multiplier: int,
    kh: int,
    kw: int,
    stride: int,
    padding: int,
    one_scale: bool,
    activation: int,
    seed: int,
    data: Any,
) -> None:
    assume(padding == SAME or (kh <= height and kw <= width))
    x = whole_range((2, height, width, channels), dtype, seed)
    w = np.maximum(whole_range((1, kh, kw, channels * multiplier), dtype, seed + 1), -127 if dtype == "int8" else 0)
    net, of_y = convolution(dtype, x, w.astype(dtype), data, one_scale or dtype == "uint8", 3)
    net.assert_equal(
        "DEPTHWISE_CONV_2D",
        dtype,
        of_y,
        "DepthwiseConv2DOptions",
        version=3,
        Padding=padding,
        StrideH=stride,
        StrideW=stride,
        DepthMultiplier=multiplier,
        DilationHFactor=1,
        DilationWFactor=1,
        FusedActivationFunction=activation,
    )


@few
@given(
    DTYPES,
    st.integers(1, 20),
    st.sampled_from([1, 7, 64, 3000]),
    st.integers(1, 30),
    st.booleans(),
    ACTIVATIONS,
    SEEDS,
    st.data(),
)
def test_fully_connected(
    dtype: str, rows: int, length: int, filters: int, one_scale: bool, activation: int, seed: int, data: Any
) -> None:
    x = whole_range((rows, length), dtype, seed)
    w = np.maximum(whole_range((filters, length), dtype, seed + 1), -127 if dtype == "int8" else 0)
    net, of_y = convolution(dtype, x, w.astype(dtype), data, one_scale or dtype == "uint8", 0)
    net.assert_equal(
        "FULLY_CONNECTED", dtype, of_y, "FullyConnectedOptions", version=4, FusedActivationFunction=activation
    )


@few
@given(DTYPES, st.integers(1, 20), st.integers(1, 64), st.integers(1, 9), st.booleans(), ACTIVATIONS, SEEDS, st.data())
def test_fully_connected_weights_with_a_zero_point(
    dtype: str, rows: int, length: int, filters: int, computed: bool, activation: int, seed: int, data: Any
) -> None:
    """TensorFlow's converter makes one of a product of two blobs, too: the weights are numbers like any others."""
    of_x, of_w = data.draw(affine(dtype)), data.draw(affine(dtype, scales(-9, -3)))
    net = Single()
    net.feed(whole_range((rows, length), dtype, seed), of_x)
    weights = whole_range((filters, length), dtype, seed + 1)
    (net.feed if computed else net.constant)(weights, of_w)
    powers = st.floats(0.5, 10, width=32)
    y_scale = powers.map(lambda power: float(np.float32(of_x.scale[0] * of_w.scale[0] * 2.0**power)))
    of_y = data.draw(affine(dtype, y_scale))
    net.assert_equal(
        "FULLY_CONNECTED", dtype, of_y, "FullyConnectedOptions", version=4, FusedActivationFunction=activation
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("x_scale", "w_scale", "power"), [(0.25, 0.5, 1), (0.5, 0.25, 4), (0.021, 0.037, 2), (0.3, 0.7, 3)]
)
def test_fully_connected_at_ties(dtype: str, x_scale: float, w_scale: float, power: int) -> None:
    """Sums whose product with X_scale W_scale / Y_scale is half a step, exactly or nearly, of either sign."""
    x_scale, w_scale = float(np.float32(x_scale)), float(np.float32(w_scale))
    y_scale = float(np.float32(x_scale * w_scale * 2.0**power))
    middle = 0 if dtype == "int8" else 128
    net = Single()
    net.feed(whole_range((64, 9), dtype, 3), Quantization([x_scale], [middle]))
    weights = np.maximum(whole_range((8, 9), dtype, 4), -127 if dtype == "int8" else 0).astype(dtype)
    weights[:, 1:] = middle  # sums are small: no output saturates
    weights[:, 0] = middle + np.arange(-4, 4)
    net.constant(weights, Quantization([w_scale], [middle]))
    net.constant(np.arange(8, dtype=np.int32), Quantization([x_scale * w_scale], [0]))
    net.assert_equal("FULLY_CONNECTED", dtype, Quantization([y_scale], [middle]), "FullyConnectedOptions", version=4)


@few
@given(
    DTYPES,
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([SAME, VALID]),
    st.booleans(),
    SEEDS,
    st.data(),
)
def test_transpose_conv(
    dtype: str,
    height: int,
    width: int,
    channels: int,
    filters: int,
    kernel: int,
    stride: int,
    padding: int,
    one_scale: bool,
    seed: int,
    data: Any,
) -> None:
    x = whole_range((2, height, width, channels), dtype, seed)
    w = np.maximum(whole_range((filters, kernel, kernel, channels), dtype, seed + 1), -127 if dtype == "int8" else 0)
    net, of_y = Single(), data.draw(affine(dtype))
    sizes = [n * stride if padding == SAME else (n - 1) * stride + kernel for n in (height, width)]
    net.constant(np.array([2, *sizes, filters], np.int32))
    of_x = data.draw(affine(dtype))
    of_w = [0.004] if one_scale or dtype == "uint8" else [0.001 * (1 + i) for i in range(filters)]
    net.constant(w.astype(dtype), Quantization(of_w, [zero(dtype, data)] * len(of_w)))
    net.feed(x, of_x)
    net.assert_equal(
        "TRANSPOSE_CONV",
        dtype,
        of_y,
        "TransposeConvOptions",
        version=2,
        Padding=padding,
        StrideH=stride,
        StrideW=stride,
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
def test_batch_matmul(
    batch: int, rows: int, terms: int, columns: int, turned: bool, constant: bool, seed: int, data: Any
) -> None:
    net, of_a, of_b = Single(), data.draw(affine("int8")), data.draw(affine("int8"))
    net.feed(whole_range((batch, rows, terms), "int8", seed), of_a)
    shape = (batch, columns, terms) if turned else (batch, terms, columns)
    (net.constant if constant else net.feed)(whole_range(shape, "int8", seed + 1), of_b)
    powers = st.floats(0.5, 10)
    y_scale = powers.map(lambda power: float(np.float32(of_a.scale[0] * of_b.scale[0] * 2**power)))
    net.assert_equal(
        "BATCH_MATMUL", "int8", data.draw(affine("int8", y_scale)), "BatchMatMulOptions", version=2, AdjY=turned
    )


@few
@given(
    st.sampled_from(["AVERAGE_POOL_2D", "MAX_POOL_2D"]),
    DTYPES,
    SIDES,
    SIDES,
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 3),
    st.sampled_from([SAME, VALID]),
    ACTIVATIONS,
    SEEDS,
    st.data(),
)
def test_pools(
    type: str,
    dtype: str,
    height: int,
    width: int,
    kh: int,
    kw: int,
    stride: int,
    padding: int,
    activation: int,
    seed: int,
    data: Any,
) -> None:
    assume(kh <= height and kw <= width)
    net, of_x = Single(), data.draw(affine(dtype))
    net.feed(whole_range((2, height, width, 3), dtype, seed), of_x)
    net.assert_equal(
        type,
        dtype,
        of_x,
        "Pool2DOptions",
        version=2,
        FilterHeight=kh,
        FilterWidth=kw,
        StrideH=stride,
        StrideW=stride,
        Padding=padding,
        FusedActivationFunction=activation,
    )


@few
@given(
    st.sampled_from(["int8", "uint8", "int16"]),
    st.sampled_from([(1, 2), (2,), (0, 3), (1,), (-1, 0, 1)]),
    st.booleans(),
    st.booleans(),
    SEEDS,
    st.data(),
)
def test_mean(dtype: str, axes: Any, keep: bool, one_scale: bool, seed: int, data: Any) -> None:
    net, of_x = Single(), data.draw(affine(dtype))
    net.feed(whole_range((2, 7, 6, 5), dtype, seed), of_x)
    net.constant(np.array(axes, np.int32))
    net.assert_equal(
        "MEAN", dtype, of_x if one_scale else data.draw(affine(dtype)), "ReducerOptions", version=2, KeepDims=keep
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_mean_of_nothing(dtype: str, axes: Any) -> None:
    """It is the integer 0, whatever the zero point."""
    net, zero_point = Single(), 0 if dtype == "int16" else 3
    net.feed(np.zeros((2, 0, 3), dtype), Quantization([0.1], [zero_point]))
    net.constant(np.array(axes, np.int32))
    net.assert_equal("MEAN", dtype, Quantization([0.2], [zero_point]), "ReducerOptions", version=2, KeepDims=False)


@pytest.mark.parametrize("axes", [(1, 2), (-3, -1), (2,), (0, 3)])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("type", ["MEAN", "REDUCE_MAX"])
def test_reduction_of_a_resized_picture(tmp_path: Path, type: str, keep: bool, axes: Tuple[int, ...]) -> None:
    """The resize leaves its channels first; the axes are those of the file."""
    model, of_x = Model(), Quantization([0.1], [3])
    x = model.input("x", (2, 4, 3, 5), "int8", quantization=of_x)
    larger, y = (model.tensor(name, dtype="int8", quantization=of_x) for name in ("larger", "y"))
    sizes, reduced = model.constant("sizes", np.array([8, 7])), model.constant("axes", np.array(axes))
    model.operator("RESIZE_NEAREST_NEIGHBOR", [x, sizes], [larger], "ResizeNearestNeighborOptions", version=2)
    model.operator(type, [larger, reduced], [y], "ReducerOptions", version=2, KeepDims=keep)
    data, feeds = model.to_bytes([y]), {"x": whole_range((2, 4, 3, 5), "int8", 1)}
    (expected,), (result,) = reference(data, feeds), ours(tmp_path, data, feeds)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(result, expected)


def test_a_transposed_convolution_whose_size_is_computed_but_declared(tmp_path: Path) -> None:
    """As Keras writes it where the batch is open."""
    model, of_x = Model(), Quantization([0.1], [3])
    x = model.input("x", (1, 5, 4, 2), "int8", quantization=of_x, signature=(-1, 5, 4, 2))
    w = model.constant("w", whole_range((3, 3, 3, 2), "int8", 1), quantization=Quantization([0.01], [0]))
    counts = [model.tensor(name, (4,), "int32") for name in ("shape", "size")]
    model.operator("SHAPE", [x], counts[:1], "ShapeOptions", OutType=TYPES["int32"])
    factors = model.constant("factors", np.array([1, 2, 2, 1]))
    more = model.constant("more", np.array([0, 0, 0, 1]))
    doubled = model.tensor("doubled", (4,), "int32")
    model.operator("MUL", [counts[0], factors], [doubled], "MulOptions")
    model.operator("ADD", [doubled, more], counts[1:], "AddOptions")
    y = model.tensor("y", (1, 10, 8, 3), "int8", quantization=of_x, signature=(-1, 10, 8, 3))
    window = {"Padding": SAME, "StrideH": 2, "StrideW": 2}
    model.operator("TRANSPOSE_CONV", [counts[1], w, x], [y], "TransposeConvOptions", version=2, **window)
    data, feeds = model.to_bytes([y]), {"x": whole_range((1, 5, 4, 2), "int8", 2)}
    (expected,), (result,) = reference(data, feeds), ours(tmp_path, data, feeds)
    np.testing.assert_array_equal(result, expected)


@few
@given(st.booleans(), st.booleans(), SEEDS, st.data())
def test_sum(keep: bool, one_scale: bool, seed: int, data: Any) -> None:
    """Only uint8: for other types the reference kernel computes nothing, and the optimised one is followed."""
    net, of_x = Single(), data.draw(affine("uint8"))
    net.feed(whole_range((2, 7, 6, 5), "uint8", seed), of_x)
    net.constant(np.array([1, 2], np.int32))
    net.assert_equal(
        "SUM",
        "uint8",
        of_x if one_scale else data.draw(affine("uint8", scales(-4, 2))),
        "ReducerOptions",
        version=2,
        KeepDims=keep,
    )


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("steps", [1.0, 4.0, 2.7, 11.3])  # of X in one of Y; by powers of two many sums are ties
def test_a_sum_of_signed_integers_is_that_of_the_optimised_kernel(tmp_path: Path, dtype: str, steps: float) -> None:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    zeros = [0, 0] if dtype == "int16" else [-9, -9 if steps == 1 else 17]
    model, x = Model(), whole_range((300, 5), dtype, 1)
    of_x, of_y = (Quantization([scale], [zero]) for scale, zero in zip((0.25, 0.25 * steps), zeros))
    source, axes = model.input("x", x.shape, dtype, quantization=of_x), model.constant("axes", np.array([1], np.int32))
    y = model.tensor("y", dtype=dtype, quantization=of_y)
    model.operator("SUM", [source, axes], [y], "ReducerOptions", version=2, KeepDims=False)
    data, kernels = model.to_bytes([y]), OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    runner = Interpreter(model_content=data, experimental_op_resolver_type=kernels)
    runner.allocate_tensors()
    runner.set_tensor(runner.get_input_details()[0]["index"], x)
    runner.invoke()
    expected = runner.get_tensor(runner.get_output_details()[0]["index"])
    np.testing.assert_array_equal(ours(tmp_path, data, {"x": x})[0], expected)


@few
@given(DTYPES, st.integers(1, 9), st.sampled_from([1, 2, 5, 300]), st.sampled_from([1.0, 0.5, 2.25]), SEEDS, st.data())
def test_softmax(dtype: str, rows: int, length: int, beta: float, seed: int, data: Any) -> None:
    net = Single()
    net.feed(whole_range((rows, length), dtype, seed), data.draw(affine(dtype, scales(-9, 2))))
    net.assert_equal(
        "SOFTMAX", dtype, Quantization([1 / 256], [int(np.iinfo(dtype).min)]), "SoftmaxOptions", version=2, Beta=beta
    )


@few
@given(DTYPES, st.sampled_from([1, 2, 9, 60, 9000]), st.sampled_from([1, 2, 5, 300]), SEEDS, st.data())
def test_log_softmax(dtype: str, rows: int, length: int, seed: int, data: Any) -> None:
    """Rows of one block and of several."""
    net = Single()
    net.feed(whole_range((rows, length), dtype, seed), data.draw(affine(dtype, scales(-9, 2))))
    of_y = Quantization([1 / 16], [int(np.iinfo(dtype).max)])
    net.assert_equal("LOG_SOFTMAX", dtype, of_y, "LogSoftmaxOptions", version=2)


@few
@given(DTYPES, st.integers(1, 9), st.sampled_from([1, 2, 5, 300]), SEEDS, st.data())
def test_l2_normalization(dtype: str, rows: int, length: int, seed: int, data: Any) -> None:
    net = Single()
    net.feed(whole_range((rows, length), dtype, seed), data.draw(affine(dtype)))
    of_y = Quantization([1 / 128], [0 if dtype == "int8" else 128])
    net.assert_equal("L2_NORMALIZATION", dtype, of_y, "L2NormOptions", version=2)
