"""Few pictures stand for those in other colours, too."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

from optimize import quantize
from optimize.quantization.outputs import OutputNoise
from optimize.quantization.swapped_colours import ENOUGH, WithSwappedColours, lacking, of_few_colours
from runtime_arm.netdef import Array
from tests.optimize.nets import pair_of

NET = """
    net "colours": x, w, b -> y
    Conv(x, w, b) -> a  kernel=3 pad=1
    Relu(a) -> y
"""
Samples = List[Dict[str, Array]]


def pictures(count: int, colour: int, seed: int = 0) -> Samples:
    """Of one colour but for a white pixel, (1, 3, 16, 16)."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        picture = rng.uniform(0, 0.1, (1, 3, 16, 16))
        picture[:, colour] = rng.uniform(0, 1, (1, 16, 16))
        picture[:, :, 0, 0] = 1
        found.append({"x": picture.astype(np.float32)})
    return found


@pytest.mark.parametrize(
    ("shape", "dtype", "count", "few"),
    [
        ((1, 3, 16, 16), "float32", 12, True),
        ((1, 16, 16, 3), "float32", 12, True),
        ((2, 8, 9, 3), "uint8", ENOUGH - 1, True),
        ((1, 3, 16, 16), "float32", ENOUGH, False),
        ((1, 3, 16, 16), "float32", 0, False),
        ((1, 1, 16, 16), "float32", 12, False),
        ((1, 3, 16, 7), "float32", 12, False),
        ((3, 16, 16), "float32", 12, False),
        ((1, 3, 16, 16), "bool", 12, False),
        ((1, 3, 16, 16), "int64", 12, False),
        ((0, 3, 16, 16), "float32", 12, False),
    ],
)
def test_what_has_few_colours(shape: Tuple[int, ...], dtype: str, count: int, few: bool) -> None:
    sample = {"size": np.ones((1, 2), np.float32), "x": np.ones(shape, dtype)}
    assert of_few_colours([sample] * count) == (("x",) if few else ())


@pytest.mark.parametrize(("scales", "colours"), [((1, 1.5, 0.8), True), ((1, 4, 16), False), ((1, 1, 0), False)])
def test_channels_of_unlike_ranges_are_no_colours(scales: Tuple[float, ...], colours: bool) -> None:
    rng = np.random.default_rng(0)
    samples = [{"x": rng.uniform(-1, 1, (1, 8, 8, 3)) * scales, "photo": rng.random((1, 3, 8, 8))} for _ in range(5)]
    assert of_few_colours(samples) == (("x", "photo") if colours else ("photo",))


def test_an_input_that_some_samples_lack_is_no_picture() -> None:
    picture = {"x": np.random.default_rng(0).random((1, 3, 8, 8)), "size": np.ones(1)}
    assert of_few_colours([picture, {"size": np.ones(1)}]) == ()


def test_signals_of_unlike_channels_get_ranges_of_their_own() -> None:
    """With channels exchanged their ranges would be 16 times as wide."""
    rng = np.random.default_rng(2)
    scales = np.array([1, 4, 16], np.float32)[:, np.newaxis, np.newaxis]
    w = (rng.standard_normal((8, 3, 3, 3)).astype(np.float32) / scales) / 5
    pair = pair_of(NET, {"w": w, "b": np.zeros(8, np.float32)}, {"x": (1, 3, 16, 16)})
    samples = [{"x": (rng.uniform(-1, 1, (1, 3, 16, 16)) * scales).astype(np.float32)} for _ in range(16)]
    small = [
        quantize(pair, samples[:12], activations="int8", snr=-math.inf, calibration=one) for one in ("auto", "minmax")
    ]
    found, plain = map(OutputNoise(pair, samples[12:]).of, small)
    assert found > plain - 1


@pytest.mark.parametrize("axis", [1, 3])
def test_each_picture_is_followed_by_itself_in_other_colours(axis: int) -> None:
    rng = np.random.default_rng(0)
    shape = (1, 3, 8, 9) if axis == 1 else (1, 8, 9, 3)
    given = [{"x": rng.random(shape), "size": np.array([[8.0, place]])} for place in range(3)]
    found = WithSwappedColours(given, ["x"])
    assert len(found) == 6
    for place, sample in enumerate(found):
        np.testing.assert_array_equal(sample["size"], given[place // 2]["size"])
        np.testing.assert_array_equal(
            sample["x"], np.take(given[place // 2]["x"], [2, 0, 1] if place % 2 else [0, 1, 2], axis)
        )
    assert [sample["size"][0, 1] for sample in found[1:4]] == [0, 1, 1]
    assert found[-1]["size"][0, 1] == 2
    with pytest.raises(IndexError):
        found[6]


@pytest.mark.parametrize("count", [1, 49, 50, 51, 75, 99, 100, 101, 1000])
def test_as_many_pictures_get_other_colours_as_are_missing(count: int) -> None:
    """None are missing from a hundred on, and no picture stands for more than one other."""
    given = [{"x": np.full((1, 3, 8, 8), place)} for place in range(count)]
    found = WithSwappedColours(given, ["x"], lacking(count))
    assert len(found) in (2 * count, max(ENOUGH, count))
    assert len(found) <= max(ENOUGH, count)
    assert [sample["x"][0, 0, 0, 0] for sample in found] == sorted(sample["x"][0, 0, 0, 0] for sample in found)
    assert {sample["x"][0, 0, 0, 0] for sample in found} == set(range(count))


@pytest.mark.parametrize(("calibration", "holds"), [("auto", True), ("minmax", False)])
def test_ranges_of_red_pictures_hold_for_green_ones(calibration: str, holds: bool) -> None:
    """The net makes three times as much of green."""
    rng = np.random.default_rng(1)
    w = rng.uniform(0, 1, (8, 3, 3, 3)).astype(np.float32) * np.array([1, 3, 1], np.float32)[:, np.newaxis, np.newaxis]
    pair = pair_of(NET, {"w": w, "b": np.zeros(8, np.float32)}, {"x": (1, 3, 16, 16)})
    options: Any = {"activations": "int8", "snr": -math.inf, "calibration": calibration}
    small = quantize(pair, pictures(12, colour=0), **options)
    assert (OutputNoise(pair, pictures(4, colour=1, seed=2)).of(small) > 25) == holds
