"""Few pictures stand for those in other colours, too."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

from optimize import quantize
from optimize.quantization.outputs import OutputNoise
from optimize.quantization.recoloured import ENOUGH, InTwoColours, few_colours
from runtime_arm.netdef import Array
from tests.optimize.nets import pair_of

NET = """
    net "colours": x, w, b -> y
    Conv(x, w, b) -> a  kernel=3 pad=1
    Relu(a) -> y
"""
Samples = List[Dict[str, Array]]


def pictures(count: int, colour: int, seed: int = 0) -> Samples:
    """Of one colour, (1, 3, 16, 16)."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        picture = rng.uniform(0, 0.1, (1, 3, 16, 16))
        picture[:, colour] = rng.uniform(0, 1, (1, 16, 16))
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
    ],
)
def test_what_has_few_colours(shape: Tuple[int, ...], dtype: str, count: int, few: bool) -> None:
    sample = {"size": np.ones((1, 2), np.float32), "x": np.ones(shape, dtype)}
    assert few_colours([sample] * count) == few


@pytest.mark.parametrize("axis", [1, 3])
def test_each_picture_is_followed_by_itself_in_other_colours(axis: int) -> None:
    rng = np.random.default_rng(0)
    shape = (1, 3, 8, 9) if axis == 1 else (1, 8, 9, 3)
    given = [{"x": rng.random(shape), "size": np.array([[8.0, place]])} for place in range(3)]
    found = InTwoColours(given)
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


@pytest.mark.parametrize(("calibration", "holds"), [("auto", True), ("minmax", False)])
def test_ranges_of_red_pictures_hold_for_green_ones(calibration: str, holds: bool) -> None:
    """The net makes three times as much of green."""
    rng = np.random.default_rng(1)
    w = rng.uniform(0, 1, (8, 3, 3, 3)).astype(np.float32) * np.array([1, 3, 1], np.float32)[:, np.newaxis, np.newaxis]
    pair = pair_of(NET, {"w": w, "b": np.zeros(8, np.float32)}, {"x": (1, 3, 16, 16)})
    options: Any = {"activations": "int8", "snr": -math.inf, "calibration": calibration}
    small = quantize(pair, pictures(12, colour=0), **options)
    assert (OutputNoise(pair, pictures(4, colour=1, seed=2)).of(small) > 25) == holds
