"""Functions of int16, comparisons, pools and casts equal LiteRT's reference kernels bit for bit, for all parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import export
from runtime_arm.errors import ExportError
from tests.support.tflite_integers import ACTIVATIONS, Single, affine, scales, whole_range
from tests.support.tflite_models import Model, Quantization

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
SEEDS = st.integers(0, 2**20)
SIDES = st.integers(1, 9)
few = settings(max_examples=25)
SAME = 0
UNIT = Quantization([2.0**-15], [0])
EVERY = np.arange(-(2**15), 2**15).astype(np.int16).reshape(256, 256)


@few
@given(
    st.sampled_from(["ADD", "SUB", "MUL"]),
    st.sampled_from([(1, 6, 5, 8), (8,), (1, 6, 1, 8), (1, 1, 1, 1)]),
    ACTIVATIONS,
    SEEDS,
    st.data(),
)
def test_arithmetic(type: str, shape: Any, activation: int, seed: int, data: Any) -> None:
    net = Single()
    uneven = scales(-14, -3).map(lambda scale: float(np.float32(1.1 * scale)))  # powers of two have rules of their own
    of_a, of_b = data.draw(affine("int16", uneven)), data.draw(affine("int16", uneven))
    net.feed(whole_range((1, 6, 5, 8), "int16", seed), of_a)
    net.feed(whole_range(shape, "int16", seed + 1), of_b)
    least = np.log2(of_a.scale[0] * of_b.scale[0]) if type == "MUL" else np.log2(max(*of_a.scale, *of_b.scale)) - 12
    of_y = data.draw(affine("int16", scales(least + 0.1, least + 14)))
    net.assert_equal(type, "int16", of_y, f"{type.title()}Options", 2, FusedActivationFunction=activation)


@pytest.mark.parametrize("activation", [0, 1, 3])
@pytest.mark.parametrize("powers", [(-15, -13), (-13, -15), (-13, -13), (-13, -20)])
@pytest.mark.parametrize("type", ["ADD", "SUB"])
def test_sums_of_powers_of_two(type: str, powers: Any, activation: int) -> None:
    """One operand has the scale of the output, the other is rounded to it."""
    net = Single()
    for operand, power in enumerate(powers):
        net.feed(whole_range((4000,), "int16", operand), Quantization([2.0**power], [0]))
    of_y = Quantization([2.0 ** max(powers)], [0])
    net.assert_equal(type, "int16", of_y, f"{type.title()}Options", 2, FusedActivationFunction=activation)


def test_sums_of_other_powers_of_two_are_refused(tmp_path: Path) -> None:
    model = Model()
    inputs = [model.input(f"x{n}", (4,), "int16", quantization=Quantization([2.0**n], [0])) for n in (-15, -14)]
    y = model.tensor("y", (4,), "int16", quantization=Quantization([2.0**-13], [0]))
    model.operator("ADD", inputs, [y], "AddOptions", version=2)
    (tmp_path / "net.tflite").write_bytes(model.to_bytes([y]))
    with pytest.raises(ExportError, match="the larger scale must be Y's"):
        export(tmp_path / "net.tflite")


@few
@given(st.sampled_from(["EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"]), SEEDS, st.data())
def test_comparisons(type: str, seed: int, data: Any) -> None:
    net, options = Single(), "".join(part.title() for part in type.split("_"))
    values = [whole_range((4, 5, 3), "int16", seed + operand) for operand in range(2)]
    values[1][:2] = values[0][:2]
    for array in values:
        net.feed(array, data.draw(affine("int16")))
    net.assert_equal(type, "bool", None, f"{options}Options", version=2)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@few
@given(seed=SEEDS, activation=ACTIVATIONS, data=st.data())
def test_quotients(dtype: str, seed: int, activation: int, data: Any) -> None:
    """Quotients of a step or more: the reference kernel's are undefined where they are much less."""
    net, of_a, of_b = Single(), data.draw(affine(dtype)), data.draw(affine(dtype))
    centre = of_b.zero_point[0]
    divisors = np.random.default_rng(seed).integers(1, 20, 300) * np.random.default_rng(seed).choice([-1, 1], 300)
    limits = np.iinfo(dtype)
    divisors = np.where((centre + divisors > limits.max) | (centre + divisors < limits.min), -divisors, divisors)
    net.feed(whole_range((300,), dtype, seed), of_a)
    net.feed((centre + divisors).astype(dtype), of_b)
    coarse = of_a.scale[0] / of_b.scale[0]
    of_y = data.draw(affine(dtype, st.floats(-12, -5).map(lambda power: float(np.float32(coarse * 2**power)))))
    net.assert_equal("DIV", dtype, of_y, "DivOptions", 2, FusedActivationFunction=activation)


@few
@given(SEEDS, st.data())
def test_slopes_of_8_bits(seed: int, data: Any) -> None:
    net = Single()
    net.feed(whole_range((2, 6, 5, 8), "int16", seed), data.draw(affine("int16")))
    net.constant(whole_range((1, 1, 8), "int8", seed + 1), Quantization([data.draw(scales())], [0]))
    net.assert_equal("PRELU", "int16", data.draw(affine("int16")))


@few
@given(st.sampled_from(["LOGISTIC", "TANH"]), st.floats(-18, 1) | st.integers(-18, 0))
def test_sigmoids(type: str, power: float) -> None:
    net = Single()
    net.feed(EVERY, Quantization([float(np.float32(2.0**power))], [0]))
    net.assert_equal(type, "int16", UNIT, version=3)


@few
@given(
    st.sampled_from(["RELU", "RELU6", "LEAKY_RELU", "ABS", "NEG", "EXP", "LOG", "SQRT", "RSQRT", "GELU"]),
    st.booleans(),
    st.data(),
)
def test_functions_of_one_number(type: str, flag: bool, data: Any) -> None:
    x = EVERY if type not in ("SQRT", "RSQRT") else np.maximum(np.abs(EVERY.astype(np.int32)) - 1, 1).astype(np.int16)
    net, options, fields = Single(), "", {}
    if type in ("LEAKY_RELU", "NEG", "EXP", "GELU"):
        options = {"LEAKY_RELU": "LeakyRelu"}.get(type, type.title()) + "Options"
        fields = {"LEAKY_RELU": {"Alpha": 0.3 if flag else -0.7}, "GELU": {"Approximate": flag}}.get(type, {})
    net.feed(x, data.draw(affine("int16", scales(-14, -5))))
    net.assert_equal(type, "int16", data.draw(affine("int16", scales(-14, -3))), options, version=1, **fields)


@few
@given(st.integers(1, 9), st.sampled_from([1, 2, 5, 300]), st.sampled_from([1.0, 0.5, 2.25]), SEEDS, st.data())
def test_softmax(rows: int, length: int, beta: float, seed: int, data: Any) -> None:
    net = Single()
    values = whole_range((rows, length), "int16", seed) // data.draw(st.integers(1, 400))
    net.feed(values.astype(np.int16), data.draw(affine("int16", scales(-16, -2))))
    net.assert_equal("SOFTMAX", "int16", UNIT, "SoftmaxOptions", 3, Beta=beta)


@few
@given(st.sampled_from(["int8", "int16"]), st.sampled_from([(1,), (0, 2), (-1,)]), st.booleans(), SEEDS, st.data())
def test_products_of_elements(dtype: str, axes: Any, keep: bool, seed: int, data: Any) -> None:
    """As long as no product exceeds 31 bits."""
    net, x = Single(), np.random.default_rng(seed).integers(-9, 10, (3, 4, 2))
    net.feed(x.astype(dtype), Quantization([data.draw(scales(-5, -1))], [0]))
    net.constant(np.array(axes, np.int32))
    of_y = data.draw(affine(dtype, scales(-8, 0)))
    net.assert_equal("REDUCE_PROD", dtype, of_y, "ReducerOptions", 2, KeepDims=keep)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_reduce_prod_to_nothing(dtype: str) -> None:
    net = Single()
    net.feed(np.zeros((2, 0, 3), dtype), Quantization([0.1], [0]))
    net.constant(np.array([0], np.int32))
    net.assert_equal("REDUCE_PROD", dtype, Quantization([0.2], [0]), "ReducerOptions", 2, KeepDims=False)


@few
@given(SIDES, SIDES, st.integers(1, 5), SIDES, SIDES, st.sampled_from([(0, 0), (1, 0), (0, 1)]), SEEDS)
def test_resize_bilinear(height: int, width: int, channels: int, rows: int, columns: int, mode: Any, seed: int) -> None:
    net, same = Single(), Quantization([0.1], [0])
    net.feed(whole_range((2, height, width, channels), "int16", seed), same)
    net.constant(np.array([rows, columns], np.int32))
    flags = dict(zip(("AlignCorners", "HalfPixelCenters"), map(bool, mode)))
    net.assert_equal("RESIZE_BILINEAR", "int16", same, "ResizeBilinearOptions", 4, **flags)


@few
@given(st.sampled_from(["AVERAGE_POOL_2D", "MAX_POOL_2D"]), SIDES, st.integers(1, 4), ACTIVATIONS, SEEDS)
def test_pools(type: str, side: int, kernel: int, activation: int, seed: int) -> None:
    net, same = Single(), Quantization([2.0**-9], [0])
    net.feed(whole_range((2, side, side + 1, 3), "int16", seed), same)
    fields = {"Padding": SAME, "StrideH": 2, "StrideW": 1, "FilterHeight": kernel, "FilterWidth": kernel}
    net.assert_equal(type, "int16", same, "Pool2DOptions", 3, FusedActivationFunction=activation, **fields)


@few
@given(st.sampled_from([("int16", "int32"), ("int32", "int16")]), SEEDS, st.data())
def test_changes_of_type(dtypes: Any, seed: int, data: Any) -> None:
    net = Single()
    wide = scales(-24, -18)
    net.feed(whole_range((300,), dtypes[0], seed), data.draw(affine("int16", wide if dtypes[0] == "int32" else None)))
    of_y = data.draw(affine("int16", scales(-8, -1)))
    net.assert_equal("QUANTIZE", dtypes[1], of_y, "QuantizeOptions", version=3)


@pytest.mark.parametrize("type", ["FLOOR_DIV", "FLOOR_MOD"])
def test_integers_are_divided_as_they_are(type: str) -> None:
    """Their scales do not count."""
    net, options = Single(), "".join(part.title() for part in type.split("_"))
    net.feed(whole_range((300,), "int16", 1), Quantization([0.5], [0]))
    net.feed(np.maximum(np.abs(whole_range((300,), "int16", 2) // 100), 1), Quantization([0.25], [0]))
    net.assert_equal(type, "int16", Quantization([0.125], [0]), f"{options}Options")


def test_operands_of_other_scales_are_joined_as_they_are() -> None:
    net = Single()
    for operand, scale in enumerate((0.1, 0.3)):
        net.feed(whole_range((3, 4), "int16", operand), Quantization([scale], [0]))
    net.assert_equal("CONCATENATION", "int16", Quantization([0.1], [0]), "ConcatenationOptions", 3, Axis=1)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_rows_of_integers_are_looked_up(dtype: str) -> None:
    net, same = Single(), Quantization([0.1], [0])
    net.feed(np.array([2, 0], np.int32))
    net.constant(whole_range((3, 4), dtype, 1), same)
    net.assert_equal("EMBEDDING_LOOKUP", dtype, same, version=4 if dtype == "int16" else 3)
