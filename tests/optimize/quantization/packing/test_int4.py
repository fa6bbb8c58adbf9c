"""Weights in 4 bits: how close they come to the floats, for any sizes of numbers, in how many bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimize.quantization.packing.formats import FORMATS, grid_of, packed_steps
from optimize.quantization.packing.int4 import best_scales, rounded, scales_of_elements
from runtime_arm.operators.quantised.int4 import BLOCK
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec

SHAPES = [(4, 70), (3, 5, 3, 3), (7, 33), (2, 1), (1, 64), (16, 1, 3, 3), (0, 4)]


def restored(weight: np.ndarray) -> np.ndarray:
    packed = FORMATS["int4"](weight, 0)
    assert packed is not None
    assert packed.nbytes == -(-weight.size // 2) - (-weight.size // BLOCK)
    specs = [TensorSpec.known(stored) for stored in packed.stored.values()]
    value = infer_operator(packed.unpack(tuple(packed.stored), "w"), specs)[1][0].value
    assert value is not None
    return value


def drawn(seed: int, shape: tuple, spread: float) -> np.ndarray:
    """Numbers of very different sizes, some blocks of zeros."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal(shape) * 2.0 ** rng.uniform(-spread, spread, shape)
    return (weight * (rng.random((shape[0], *[1] * (len(shape) - 1))) > 0.3)).astype(np.float32)


@given(st.integers(0, 10**6), st.sampled_from(SHAPES), st.floats(0, 45))
def test_each_block_is_as_close_as_its_largest_number_allows(seed: int, shape: tuple, spread: float) -> None:
    """Half a step of a scale up to a quarter larger than the one with which the largest number is an eight; where that
    is far below the largest of the weight, steps are those of the smallest scale."""
    weight = drawn(seed, shape, spread)
    errors, largest = np.zeros((2, -(-weight.size // BLOCK) * BLOCK))
    errors[: weight.size] = (np.float64(restored(weight)) - weight).reshape(-1)
    largest[: weight.size] = np.abs(weight).reshape(-1)
    steps = np.maximum(largest.reshape(-1, BLOCK).max(axis=1) / 7, largest.max(initial=0) / 8 * 2.0**-14)
    assert (np.square(errors.reshape(-1, BLOCK)).sum(axis=1) <= np.square(steps * 0.6) * BLOCK).all()


@given(st.integers(0, 10**6), st.sampled_from(SHAPES), st.floats(0, 45))
def test_the_file_holds_the_scales_and_the_steps_that_were_found(seed: int, shape: tuple, spread: float) -> None:
    weight = drawn(seed, shape, spread)
    scales = best_scales(weight)
    steps = rounded(weight, scales)
    expected = steps * scales_of_elements(weight, scales)
    np.testing.assert_array_equal(restored(weight), expected)
    grid = grid_of("int4", weight, 0)
    assert grid is not None
    np.testing.assert_array_equal(np.broadcast_to(grid.scales, weight.shape) * steps, expected)
    again, packed = packed_steps("int4", steps, grid, 0), FORMATS["int4"](weight, 0)
    assert packed is not None
    assert again.stored["int4"].tolist() == packed.stored["int4"].tolist()
    assert again.unpack(("q",), "w") == packed.unpack(("q",), "w")


def test_scales_of_four_bits_cost_nothing() -> None:
    """Beside the best of many scales of float32 with integers from -7 to 7, which took twice the bytes."""
    weight = np.random.default_rng(0).standard_normal((64, 320)).astype(np.float32)
    blocks = weight.reshape(-1, BLOCK)
    largest = np.abs(blocks).max(axis=1, keepdims=True) / 7
    tried = [largest * shrink for shrink in np.linspace(0.6, 1, 30)]
    errors = [np.square(np.clip(np.rint(blocks / one), -7, 7) * one - blocks).sum(axis=1) for one in tried]
    assert np.square(restored(weight) - weight).sum() < 0.85 * np.min(errors, axis=0).sum()


def test_the_largest_number_of_a_block_is_an_eight_of_either_sign() -> None:
    for sign in (-1, 1):
        weight = (np.arange(BLOCK).reshape(1, BLOCK) % 8).astype(np.float32) * -sign
        weight[0, 5] = 8 * sign
        np.testing.assert_array_equal(restored(weight), weight)


@pytest.mark.parametrize("factor", [2.0**-98, 1e-10, 1.0, 1e10, 2.0**116])
def test_numbers_of_any_size_are_held_alike(factor: float) -> None:
    weight = np.random.default_rng(1).uniform(-8, 8, (5, 70)).astype(np.float32)
    np.testing.assert_allclose(restored(weight * np.float32(factor)) / factor, restored(weight), rtol=0.3, atol=1.1)


def test_blocks_of_zeros_and_of_subnormals_are_zeros_without_a_sign() -> None:
    weight = np.ones((4, 32), np.float32)
    weight[1], weight[2] = 0, -1e-40
    actual = restored(weight)
    assert not np.signbit(actual).any()
    np.testing.assert_array_equal(actual, np.where(weight == 1, weight, 0))
    for nothing in (0, 1e-40):
        assert not restored(np.full((3, 7), nothing, np.float32)).any()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 3e38, 1e-35])
def test_what_has_no_scale_is_not_packed(wrong: float) -> None:
    weight = np.zeros((2, 40), np.float32)
    weight[1, 3] = wrong
    assert FORMATS["int4"](weight, 0) is None
    assert grid_of("int4", weight, 0) is None
