"""Ranges of blobs of one number a channel have room where samples are few."""

from __future__ import annotations

import math
from typing import Any, Dict, List

import numpy as np

from optimize import quantize
from optimize.quantization.calibration import Range
from optimize.quantization.headroom import HEADROOM, with_headroom
from optimize.quantization.outputs import OutputNoise
from optimize.quantization.swapped_colours import ENOUGH
from optimize.rewriting.program import Program
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import pair_of

NET = """
    net "means": x, w, b, v, c -> y
    Conv(x, w, b) -> a  kernel=3 pad=1
    AveragePool(a) -> m  global_pooling=1
    Flatten(m) -> f
    FC(f, v, c) -> y
"""


def means() -> Pair:
    rng = np.random.default_rng(0)
    shapes = {"w": (8, 3, 3, 3), "b": (8,), "v": (40, 8), "c": (40,)}
    values = {name: rng.standard_normal(shape).astype(np.float32) / 3 for name, shape in shapes.items()}
    return pair_of(NET, values, {"x": (1, 3, 16, 16)})


def pictures(count: int, light: float) -> List[Dict[str, Array]]:
    """Of noise around one brightness, by which means of the picture grow, and pixels little."""
    rng = np.random.default_rng(1)
    return [{"x": (rng.standard_normal((1, 3, 16, 16)) + light).astype(np.float32)} for _ in range(count)]


def test_blobs_of_one_number_a_channel_have_room() -> None:
    program = Program.of(means())
    ranges = dict.fromkeys(("a", "m", "y"), Range(-2.0, 4.0))
    wide = Range(-2.0 * (1 + HEADROOM / 2), 4.0 * (1 + HEADROOM / 2))
    assert with_headroom(ranges, program, 0.5) == {"a": ranges["a"], "m": wide, "y": wide}
    assert with_headroom(ranges, program, 0.0) == ranges


def test_means_of_brighter_pictures_are_held_where_samples_are_few() -> None:
    pair, brighter = means(), OutputNoise(means(), pictures(4, 1.4))

    def found(count: int, calibration: str) -> float:
        options: Any = {"activations": "int8", "snr": -math.inf, "equalize": False, "calibration": calibration}
        return brighter.of(quantize(pair, pictures(count, 1.0), **options))

    few, taken_as_they_are, many = found(12, "auto"), found(12, "minmax"), found(ENOUGH, "auto")
    assert few > 25 > taken_as_they_are
    assert many < 25, "a hundred samples are believed"
