"""Formats of weights: how close each comes to the floats, and how many bytes it takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimize.quantization.packing.formats import FORMATS, Packed, short_scales
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec

BITS = {"float16": 16, "bfloat16": 16, "int8": 8, "int4": 4, "palette": 4}


def restored(packed: Packed) -> np.ndarray:
    op = packed.unpack(tuple(packed.stored), "w")
    value = infer_operator(op, [TensorSpec.known(stored) for stored in packed.stored.values()])[1][0].value
    assert value is not None
    return value


def weights(seed: int, shape: tuple) -> np.ndarray:
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.01, 10, (shape[0], *[1] * (len(shape) - 1)))
    return (rng.standard_normal(shape) * spread).astype(np.float32)


@pytest.mark.parametrize("name", FORMATS)
def test_its_size_is_that_of_its_bits_and_scales(name: str) -> None:
    weight = weights(0, (64, 32, 3, 3))
    packed = FORMATS[name](weight, 0)
    assert packed is not None
    assert packed.nbytes == pytest.approx(weight.size * BITS[name] / 8, rel=0.13)
    assert packed.nbytes >= weight.size * BITS[name] / 8


@given(st.integers(0, 10**6), st.sampled_from([(4, 70), (3, 5, 3, 3), (7, 33), (2, 1), (1, 64)]))
def test_errors_are_those_of_rounding(seed: int, shape: tuple) -> None:
    weight = weights(seed, shape)
    largest = np.abs(weight.reshape(shape[0], -1)).max(axis=1).reshape(-1, *[1] * (len(shape) - 1))
    errors = {name: np.abs(restored(FORMATS[name](weight, 0)) - weight) for name in ("float16", "bfloat16")}
    assert (errors["float16"] <= np.abs(weight) * 2.0**-11 + 2.0**-25).all()
    assert (errors["bfloat16"] <= np.abs(weight) * 2.0**-8).all()
    squared = np.square(restored(FORMATS["int8"](weight, 0)) - weight).reshape(shape[0], -1).sum(axis=1)
    most = np.square(largest.reshape(-1) / 254) * (weight.size // shape[0])
    assert (squared <= most * 1.001).all()  # no worse than rounding to the scale that holds the largest


def test_a_palette_holds_sixteen_values_exactly() -> None:
    values = np.random.default_rng(1).standard_normal(16).astype(np.float32)
    weight = np.random.default_rng(2).choice(values, (40, 50)).astype(np.float32)
    actual = restored(FORMATS["palette"](weight, 0))
    assert np.square(actual - weight).sum() < 0.02 * np.square(weight).sum()


@pytest.mark.parametrize("name", FORMATS)
def test_zeros_and_tiny_numbers_stay_finite(name: str) -> None:
    weight = np.zeros((4, 64), np.float32)
    weight[1] = 1e-40
    packed = FORMATS[name](weight, 0)
    assert packed is not None
    assert np.abs(restored(packed)).max() < 1e-6


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_format_cannot_hold_is_not_packed(name: str) -> None:
    assert FORMATS[name](np.full((4, 64), np.nan, np.float32), 0) is None


def test_numbers_beyond_float16_are_not_packed() -> None:
    assert FORMATS["float16"](np.full((4, 64), 1e5, np.float32), 0) is None


def test_scales_lie_along_the_axis_asked_for() -> None:
    weight = weights(3, (6, 40)).T.copy()
    packed = FORMATS["int8"](weight, 1)
    assert packed is not None
    assert packed.stored["scale"].shape == (6,)
    assert np.square(restored(packed) - weight).sum() < 1e-4 * np.square(weight).sum()


@pytest.mark.parametrize("factor", [1.0, 1e-5, 1e-30, 1e9])
def test_scales_take_two_bytes_in_a_file(factor: float) -> None:
    """Of scales of tiny weights, float16 would leave too little; bfloat16 does not."""
    weight = weights(4, (64, 40))
    packed = FORMATS["int8"](weight * np.float32(factor), 0)
    assert packed is not None
    assert packed.stored["scale"].dtype == np.float32
    assert packed.nbytes == weight.size + 2 * 64
    assert np.square(restored(packed) / factor - weight).sum() < 2e-4 * np.square(weight).sum()


def test_short_scales_are_as_close_as_sixteen_bits_allow() -> None:
    scales = np.geomspace(2.0**-16, 60000, 500).astype(np.float32)
    assert (np.abs(short_scales(scales) - scales) <= scales * 2.0**-9).all()
    assert (np.abs(short_scales(scales[100:]) - scales[100:]) <= scales[100:] * 2.0**-11).all()
    tiny = np.array([1e-38, 1e-15, 1.0, 1e30], np.float32)
    assert (np.abs(short_scales(tiny) - tiny) <= tiny * 2.0**-8).all()
    assert np.array_equal(short_scales(short_scales(tiny)), short_scales(tiny))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("factor", [1e-30, 1e-10, 1e-7, 1e-3])
def test_a_weight_of_tiny_numbers_is_not_packed_as_zeros(name: str, factor: float) -> None:
    weight = weights(5, (16, 64)) * np.float32(factor)
    packed = FORMATS[name](weight, 0)
    if packed is None:
        assert name == "float16"
        assert factor < 1e-5
    else:
        error = np.square(np.float64(restored(packed)) - weight).sum()
        assert error < 0.05 * np.square(np.float64(weight)).sum()
