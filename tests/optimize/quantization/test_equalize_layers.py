"""Cross-layer equalisation: the same numbers from weights of even ranges, and what keeps channels as they are."""

from __future__ import annotations

import math
from typing import Dict, List

import numpy as np
import pytest

from optimize import quantize
from optimize.quantization import QuantizationReport
from optimize.quantization.equalize_layers import equalized
from optimize.rewriting.program import Program
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import numbers, pair_of
from tests.optimize.quantization.test_quantize import snr

NET = """
    net "uneven": x, w1, b1, w2, w3, b3, w4 -> y
    Conv(x, w1, b1) -> a  kernel=3 pad=1
    {limit}(a) -> r  {arguments}
    Conv(r, w2) -> b  kernel=3 pad=1 group=8
    {limit}(b) -> s  {arguments}
    MaxPool(s) -> p  kernel=2 stride=2
    Conv(p, w3, b3) -> c  kernel=1
    Add(c, p) -> d
    Conv(d, w4) -> y  kernel=1
"""
SHAPES = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 1, 3, 3), "w3": (8, 8, 1, 1), "b3": (8,), "w4": (4, 8, 1, 1)}
SPREAD = np.array([1, 30, 1, 0.03, 1, 8, 0.2, 1], np.float32)  # of the channels


def uneven(limit: str = "Relu", arguments: str = "", scale: float = 1.0) -> Pair:
    rng = np.random.default_rng(2)
    weights: Dict[str, np.ndarray] = {
        name: (rng.standard_normal(shape) * scale / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float32)
        for name, shape in SHAPES.items()
    }
    weights["w1"] *= SPREAD.reshape(-1, 1, 1, 1)
    weights["b1"] *= SPREAD
    weights["w2"] /= SPREAD.reshape(-1, 1, 1, 1)
    return pair_of(NET.format(limit=limit, arguments=arguments), weights, {"x": (1, 3, 16, 16)})


def feeds(count: int = 6) -> List[Dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal((1, 3, 16, 16)).astype(np.float32)} for _ in range(count)]


def ranges(pair: Pair) -> np.ndarray:
    return np.abs(Program.of(pair).value("w1")).max(axis=(1, 2, 3))


@pytest.mark.parametrize(("limit", "arguments"), [("Relu", ""), ("LeakyRelu", "alpha=0.1")])
def test_filters_get_even_ranges_and_the_net_computes_the_same(limit: str, arguments: str) -> None:
    pair = uneven(limit, arguments)
    program, changed = equalized(Program.of(pair))
    after = program.pair(pair)
    assert changed == ["Conv a", "Conv b", "Conv c", "Conv y"]
    assert ranges(after).max() / ranges(after).min() < 12 < 500 < ranges(pair).max() / ranges(pair).min()
    for feed in feeds(2):
        np.testing.assert_allclose(numbers(after, feed)["y"], numbers(pair, feed)["y"], rtol=1e-4, atol=1e-5)


def test_a_limit_that_may_be_reached_keeps_its_channels() -> None:
    pair = uneven("Clip", "min=0.0 max=6.0")
    program, _ = equalized(Program.of(pair))
    np.testing.assert_array_equal(ranges(program.pair(pair)), ranges(pair))


def test_a_limit_that_is_proven_never_to_be_reached_stays_so() -> None:
    pair = uneven("Clip", "min=0.0 max=6.0", scale=0.3)
    program, changed = equalized(Program.of(pair))
    assert "Conv b" in changed
    after = program.pair(pair)
    large = {"x": np.full((1, 3, 16, 16), 1e3, np.float32)}  # all that comes before the limits
    for feed in (*feeds(2), large, {"x": -large["x"]}):
        np.testing.assert_allclose(numbers(after, feed)["y"], numbers(pair, feed)["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("per_tensor", [True, False])
def test_layers_are_equalized_where_that_is_better_on_the_samples(per_tensor: bool) -> None:
    pair, report = uneven(), QuantizationReport()
    options = {"activations": "int8", "per_tensor": per_tensor, "snr": -math.inf, "calibration": "minmax"}
    with_, without = (quantize(pair, feeds(), equalize=one, **options) for one in (True, False))
    best = quantize(pair, feeds(), report=report, **options)
    assert snr(pair, with_) > snr(pair, without) + 3
    assert snr(pair, best) == snr(pair, with_)
    assert all("equalized" in row.steps for row in report.layers)
