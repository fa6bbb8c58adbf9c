"""Quantised operators equal LiteRT's reference kernels bit for bit, for all parameters."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.tflite_integers import ACTIVATIONS, DTYPES, Single, affine, scales, whole_range
from tests.support.tflite_models import Quantization

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


@pytest.mark.parametrize(("x_scale", "y_scale"), [(0.5, 0.35355338), (0.125, 0.11785113), (0.01, 0.05)])
def test_sqrt_where_a_root_is_a_whole_number_of_steps(x_scale: float, y_scale: float) -> None:
    net = Single()
    net.feed(np.arange(-128, 128, dtype=np.int8), Quantization([float(np.float32(x_scale))], [-128]))
    net.assert_equal("SQRT", "int8", Quantization([float(np.float32(y_scale))], [-128]))


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
    st.sampled_from(["ADD", "SUB", "MUL"]),
    DTYPES,
    st.sampled_from([(1, 6, 5, 8), (8,), (1, 6, 1, 8), (1, 1, 1, 1)]),
    ACTIVATIONS,
    SEEDS,
    st.data(),
)
def test_arithmetic(type: str, dtype: str, shape: Any, activation: int, seed: int, data: Any) -> None:
    net = Single()
    of_a, of_b = data.draw(affine(dtype)), data.draw(affine(dtype))
    net.feed(whole_range((1, 6, 5, 8), dtype, seed), of_a)
    net.feed(whole_range(shape, dtype, seed + 1), of_b)
    least = np.log2(of_a.scale[0] * of_b.scale[0]) if type == "MUL" else -8
    of_y = data.draw(affine(dtype, scales(least + 0.1, 0)))
    net.assert_equal(type, dtype, of_y, f"{type.title()}Options", version=2, FusedActivationFunction=activation)


@few
@given(
    st.sampled_from(["EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"]), DTYPES, SEEDS, st.data()
)
def test_comparisons(type: str, dtype: str, seed: int, data: Any) -> None:
    net, options = Single(), "".join(part.title() for part in type.split("_"))
    for operand in range(2):
        net.feed(whole_range((4, 5, 3), dtype, seed + operand), data.draw(affine(dtype)))
    net.assert_equal(type, "bool", None, f"{options}Options", version=2)


@few
@given(DTYPES, SEEDS, st.data())
def test_prelu(dtype: str, seed: int, data: Any) -> None:
    net = Single()
    net.feed(whole_range((2, 6, 5, 8), dtype, seed), data.draw(affine(dtype)))
    net.constant(whole_range((1, 1, 8), dtype, seed + 1), data.draw(affine(dtype)))
    net.assert_equal("PRELU", dtype, data.draw(affine(dtype)))


@few
@given(SEEDS, st.data())
def test_squared_difference(seed: int, data: Any) -> None:
    net = Single()
    for operand in range(2):
        net.feed(whole_range((4, 5, 3), "int8", seed + operand), data.draw(affine("int8")))
    net.assert_equal("SQUARED_DIFFERENCE", "int8", data.draw(affine("int8")), "SquaredDifferenceOptions", version=2)


def every(dtype: str) -> Any:
    return np.arange(256, dtype=np.uint8).view(dtype).reshape(1, 16, 16, 1)


@few
@given(st.sampled_from(["RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "TANH"]), DTYPES, st.data())
def test_activations(type: str, dtype: str, data: Any) -> None:
    net = Single()
    net.feed(every(dtype), data.draw(affine(dtype)))
    net.assert_equal(type, dtype, data.draw(affine(dtype)))


@few
@given(DTYPES, st.data())
def test_logistic(dtype: str, data: Any) -> None:
    net = Single()
    net.feed(every(dtype), data.draw(affine(dtype)))
    net.assert_equal("LOGISTIC", dtype, Quantization([1 / 256], [int(np.iinfo(dtype).min)]))


@few
@given(DTYPES, st.floats(-0.5, 1.5, width=32), st.data())
def test_leaky_relu(dtype: str, alpha: float, data: Any) -> None:
    net = Single()
    net.feed(every(dtype), data.draw(affine(dtype)))
    net.assert_equal("LEAKY_RELU", dtype, data.draw(affine(dtype)), "LeakyReluOptions", Alpha=alpha)


@few
@given(DTYPES, st.floats(-3, 1, width=32), st.data())
def test_hard_swish(dtype: str, power: float, data: Any) -> None:
    net, of_x = Single(), data.draw(affine(dtype))
    net.feed(every(dtype), of_x)
    y_scale = float(np.float32(of_x.scale[0] * 2**power))
    net.assert_equal("HARD_SWISH", dtype, data.draw(affine(dtype, st.just(y_scale))))


@few
@given(st.sampled_from(["ABS", "EXP", "NEG", "ELU"]), st.data())
def test_functions_of_signed_numbers(type: str, data: Any) -> None:
    net = Single()
    net.feed(every("int8"), data.draw(affine("int8")))
    net.assert_equal(type, "int8", data.draw(affine("int8")), version={"NEG": 1, "ABS": 2, "EXP": 2}.get(type, 1))


@few
@given(st.sampled_from(["LOG", "SQRT", "RSQRT"]), st.data())
def test_functions_of_positive_numbers(type: str, data: Any) -> None:
    net = Single()
    net.feed(np.maximum(every("int8"), -127).astype(np.int8), Quantization([data.draw(scales())], [-128]))
    net.assert_equal(type, "int8", data.draw(affine("int8")), version=2)


def test_inverse_roots_round_as_fixed_point_does() -> None:
    """1 / sqrt(53.5) is 17.4998 / 128 exactly, but 17.5 / 128 in fixed point."""
    net = Single()
    net.feed(np.maximum(every("int8"), -127).astype(np.int8), Quantization([0.25], [-128]))
    net.assert_equal("RSQRT", "int8", Quantization([2.0**-7], [-128]), version=2)


@few
@given(DTYPES, st.booleans(), st.data())
def test_gelu(dtype: str, approximate: bool, data: Any) -> None:
    net = Single()
    net.feed(every(dtype), data.draw(affine(dtype)))
    net.assert_equal("GELU", dtype, data.draw(affine(dtype)), "GeluOptions", Approximate=approximate)


@few
@given(st.sampled_from(["int8", "uint8", "int16"]), SEEDS, st.data())
def test_quantize_and_dequantize(dtype: str, seed: int, data: Any) -> None:
    net, of_y = Single(), data.draw(affine(dtype))
    reals = np.random.default_rng(seed).standard_normal(50) * 100 * of_y.scale[0]
    halves = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 1e9, -1e9]) * of_y.scale[0]
    net.feed(np.concatenate([reals, halves]).astype(np.float32))
    net.assert_equal("QUANTIZE", dtype, of_y, "QuantizeOptions")
    back = Single()
    back.feed(whole_range((50,), dtype, seed), of_y)
    back.assert_equal("DEQUANTIZE", "float32", None, "DequantizeOptions", version=2)


@few
@given(
    st.sampled_from(
        [
            ("int8", "int8"),
            ("int8", "uint8"),
            ("uint8", "int8"),
            ("uint8", "uint8"),
            ("int16", "int16"),
            ("int8", "int16"),
            ("int16", "int8"),
        ]
    ),
    SEEDS,
    st.data(),
)
def test_requantize(dtypes: Tuple[str, str], seed: int, data: Any) -> None:
    net = Single()
    net.feed(whole_range((300,), dtypes[0], seed), data.draw(affine(dtypes[0])))
    net.assert_equal("QUANTIZE", dtypes[1], data.draw(affine(dtypes[1])), "QuantizeOptions", version=2)


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


@few
@given(st.booleans(), st.booleans(), SEEDS, st.data())
def test_sum(keep: bool, one_scale: bool, seed: int, data: Any) -> None:
    """Only uint8: for other types the reference kernel computes nothing."""
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


@few
@given(DTYPES, st.integers(1, 9), st.sampled_from([1, 2, 5, 300]), st.sampled_from([1.0, 0.5, 2.25]), SEEDS, st.data())
def test_softmax(dtype: str, rows: int, length: int, beta: float, seed: int, data: Any) -> None:
    net = Single()
    net.feed(whole_range((rows, length), dtype, seed), data.draw(affine(dtype, scales(-9, 2))))
    net.assert_equal(
        "SOFTMAX", dtype, Quantization([1 / 256], [int(np.iinfo(dtype).min)]), "SoftmaxOptions", version=2, Beta=beta
    )


@few
@given(st.integers(1, 9), st.sampled_from([1, 2, 5, 300]), SEEDS, st.data())
def test_log_softmax(rows: int, length: int, seed: int, data: Any) -> None:
    net = Single()
    net.feed(whole_range((rows, length), "int8", seed), data.draw(affine("int8", scales(-9, 2))))
    net.assert_equal("LOG_SOFTMAX", "int8", Quantization([1 / 16], [127]), "LogSoftmaxOptions", version=2)


@few
@given(DTYPES, st.integers(1, 9), st.sampled_from([1, 2, 5, 300]), SEEDS, st.data())
def test_l2_normalization(dtype: str, rows: int, length: int, seed: int, data: Any) -> None:
    net = Single()
    net.feed(whole_range((rows, length), dtype, seed), data.draw(affine(dtype)))
    of_y = Quantization([1 / 128], [0 if dtype == "int8" else 128])
    net.assert_equal("L2_NORMALIZATION", dtype, of_y, "L2NormOptions", version=2)


@few
@given(
    DTYPES,
    SIDES,
    SIDES,
    st.integers(1, 14),
    st.integers(1, 14),
    st.sampled_from(["", "AlignCorners", "HalfPixelCenters"]),
    SEEDS,
)
def test_resize_bilinear(dtype: str, height: int, width: int, rows: int, columns: int, option: str, seed: int) -> None:
    net, quantization = Single(), Quantization([0.1], [3])
    net.feed(whole_range((2, height, width, 3), dtype, seed), quantization)
    net.constant(np.array([rows, columns], np.int32))
    net.assert_equal(
        "RESIZE_BILINEAR", dtype, quantization, "ResizeBilinearOptions", version=3, **({option: True} if option else {})
    )


@few
@given(DTYPES, st.booleans(), SEEDS, st.data())
def test_concatenation(dtype: str, one_scale: bool, seed: int, data: Any) -> None:
    net, of_y = Single(), data.draw(affine(dtype))
    for operand in range(3):
        of_x = of_y if one_scale or dtype == "int8" else data.draw(affine(dtype))
        net.feed(whole_range((2, 3, 1 + operand), dtype, seed + operand), of_x)
    net.assert_equal("CONCATENATION", dtype, of_y, "ConcatenationOptions", version=2, Axis=-1)


@few
@given(DTYPES, st.data())
def test_pad(dtype: str, data: Any) -> None:
    net, quantization = Single(), data.draw(affine(dtype))
    net.feed(whole_range((1, 3, 4, 2), dtype, 1), quantization)
    net.constant(np.array([[0, 0], [1, 2], [0, 3], [0, 0]], np.int32))
    net.assert_equal("PAD", dtype, quantization, "PadOptions", version=2)


@pytest.mark.parametrize("type", ["MAXIMUM", "MINIMUM"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_extremes(type: str, dtype: str) -> None:
    net, quantization = Single(), Quantization([0.1], [3])
    for operand in range(2):
        net.feed(whole_range((2, 3, 4), dtype, operand), quantization)
    net.assert_equal(type, dtype, quantization, "MaximumMinimumOptions", version=2)


@few
@given(
    DTYPES, st.integers(1, 3), st.integers(1, 3), st.lists(st.integers(0, 4), min_size=4, max_size=4), SEEDS, st.data()
)
def test_space_to_batch(dtype: str, rows: int, columns: int, pads: Any, seed: int, data: Any) -> None:
    """The padding is the zero point."""
    block = np.array([rows, columns], np.int32)
    sizes = [-(-(5 + added) // n) * n - added for n, added in ((rows, sum(pads[:2])), (columns, sum(pads[2:])))]
    net, of_x = Single(), data.draw(affine(dtype))
    net.feed(whole_range((2, *sizes, 3), dtype, seed), of_x)
    net.constant(block)
    net.constant(np.array(pads, np.int32).reshape(2, 2))
    net.assert_equal("SPACE_TO_BATCH_ND", dtype, of_x, version=2)
