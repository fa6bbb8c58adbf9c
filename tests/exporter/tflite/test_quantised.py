"""Quantised functions of numbers, and moves, equal LiteRT's reference kernels bit for bit, for all parameters."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tflite_integers import ACTIVATIONS, DTYPES, Single, affine, scales, whole_range
from tests.support.tflite_models import Quantization

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
SEEDS = st.integers(0, 2**20)
SIDES = st.integers(1, 9)
few = settings(max_examples=40)


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


@pytest.mark.parametrize(("x_scale", "y_scale"), [(0.5, 0.35355338), (0.125, 0.11785113), (0.01, 0.05)])
def test_sqrt_where_a_root_is_a_whole_number_of_steps(x_scale: float, y_scale: float) -> None:
    net = Single()
    net.feed(np.arange(-128, 128, dtype=np.int8), Quantization([float(np.float32(x_scale))], [-128]))
    net.assert_equal("SQRT", "int8", Quantization([float(np.float32(y_scale))], [-128]))


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
