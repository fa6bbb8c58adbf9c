"""Rounding by data: less noise where inputs go together, and never more than nearest rounding gives on the samples."""

from __future__ import annotations

import math
from typing import Any, Dict, List

import numpy as np
import pytest

from optimize import quantize
from optimize.quantization import QuantizationReport
from optimize.quantization.covariances import POSITIONS, covariances
from optimize.quantization.filters import filters_of
from optimize.quantization.outputs import OutputNoise
from optimize.rewriting.program import Program
from tests.optimize.nets import numbers, pair_of

LAYERS: Dict[str, Any] = {
    "convolution": ("Conv(x, w, b) -> y  kernel=3 pad=1 stride=2", (24, 8, 3, 3)),
    "dilated": ("Conv(x, w, b) -> y  kernel=3 pad=2 dilation=2", (24, 8, 3, 3)),
    "groups": ("Conv(x, w, b) -> y  kernel=3 pad=1 group=4", (24, 2, 3, 3)),
    "depthwise": ("Conv(x, w, b) -> y  kernel=7 pad=3 group=8", (8, 1, 7, 7)),
    "rows": ("Flatten(x) -> r\n FC(r, w, b) -> y", (30, 8 * 12 * 12)),
    "columns": ("Flatten(x) -> r\n FCTransposed(r, w, b) -> y", (8 * 12 * 12, 30)),
}


def layer(name: str) -> Any:
    rng = np.random.default_rng(3)
    text, shape = LAYERS[name]
    count = shape[1] if name == "columns" else shape[0]
    weights = {"w": rng.standard_normal(shape).astype(np.float32), "b": rng.standard_normal(count).astype(np.float32)}
    return pair_of(f'net "n": x, w, b -> y\n {text}', weights, {"x": (1, 8, 12, 12)})


def smooth(count: int) -> List[Dict[str, np.ndarray]]:
    """Pictures whose neighbouring numbers are alike."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((count, 1, 8, 12, 12)).cumsum(axis=2).cumsum(axis=3).cumsum(axis=4)
    return [{"x": one.astype(np.float32)} for one in noise / 20]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_layers_come_closer_to_their_floats(name: str, weights: str) -> None:
    pair, report = layer(name), QuantizationReport()
    nearest, better = (quantize(pair, smooth(24), weights, rounding=one) for one in ("nearest", "data"))
    quantize(pair, smooth(24), weights, report=report)
    assert report.layers[0].steps == ("bias corrected", "rounded by data")
    judged = OutputNoise(pair, smooth(24)[12:])
    assert judged.of(better) > judged.of(nearest) + 1


@pytest.mark.parametrize("per_tensor", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_on_integers(name: str, per_tensor: bool) -> None:
    pair, report, judged = layer(name), QuantizationReport(), OutputNoise(layer(name), smooth(24)[12:])
    options: Any = {"activations": "int8", "per_tensor": per_tensor}
    nearest = quantize(pair, smooth(24), rounding="nearest", **options)
    better = quantize(pair, smooth(24), report=report, **options)
    assert report.layers[0].steps == ("bias corrected", "rounded by data")
    assert judged.of(better) > judged.of(nearest) - 0.1  # most of the noise is that of activations
    assert judged.of(better) > 30


@pytest.mark.parametrize("name", LAYERS)
def test_covariances_are_those_of_what_filters_meet(name: str) -> None:
    """The energy of the outputs follows from them, but for the positions that are left out; here none are."""
    pair, feed = layer(name), smooth(1)[0]
    program = Program.of(pair)
    filters = filters_of(program, program.net.op[-1])
    assert filters is not None
    weight, bias = program.value("w"), program.value("b")
    assert weight is not None
    assert bias is not None
    found = covariances(pair, {"y": filters}, {"y": weight}, [feed])["y"]
    rows = filters.grouped(weight).reshape(*filters.shape[:2], -1).astype(np.float64)
    energy = (np.matmul(rows, found.products) * rows).sum(axis=2).reshape(-1)
    y = numbers(pair, feed)["y"].astype(np.float64)
    products = y - bias.reshape([1, -1] + [1] * (y.ndim - 2))
    others = tuple({*range(y.ndim)} - {1})
    np.testing.assert_allclose(energy, np.square(products).sum(axis=others), rtol=1e-4)
    varying = np.square(products - products.mean(axis=others, keepdims=True)).sum(axis=others)
    np.testing.assert_allclose((np.matmul(rows, found.centred) * rows).sum(axis=2).reshape(-1), varying, rtol=1e-4)
    mean = np.einsum("gmk,gk->gm", rows, found.mean).reshape(-1)
    np.testing.assert_allclose(mean, products.mean(axis=others), rtol=1e-4, atol=1e-4)
    assert np.prod(y.shape[2:]) <= POSITIONS, "of more positions some are left out"


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("activations", ["float32", "int8"])
def test_means_of_results_do_not_shift(name: str, activations: str) -> None:
    """Inputs far from 0, whose product with the weights' errors is the same in all samples."""
    far = [{"x": sample["x"] + 20} for sample in smooth(24)]
    pair = layer(name)
    options: Any = {"activations": activations, "snr": -math.inf, "calibration": "minmax"}
    kept, corrected = (quantize(pair, far, correct_biases=one, **options) for one in (False, True))
    wanted = np.concatenate([numbers(pair, feeds)["y"] for feeds in far]).astype(np.float64)

    def shift(small: Any) -> float:
        found = np.concatenate([numbers(small, feeds)["y"] for feeds in far])
        others = tuple({*range(wanted.ndim)} - {1})
        return float(np.abs((found - wanted).mean(axis=others)).mean())

    assert shift(corrected) < (0.7 if activations == "float32" else 1.0) * shift(kept)  # of int8, most is activations


@pytest.mark.parametrize("name", ["rows", "columns"])
def test_with_sixteen_bits_what_biases_take_off_counts_as_no_error(name: str) -> None:
    far = [{"x": sample["x"] + 20} for sample in smooth(24)]
    pair, judged = layer(name), OutputNoise(layer(name), far)
    nearest, better = (quantize(pair, far, activations="int16", rounding=one) for one in ("nearest", "data"))
    assert judged.of(better) > judged.of(nearest) + 14
