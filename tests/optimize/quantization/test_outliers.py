"""Samples that are unlike the others: found, left out, and said."""

from __future__ import annotations

import math
from typing import Any, Dict, List

import numpy as np
import pytest

from optimize import quantize
from optimize.quantization import QuantizationReport
from optimize.quantization.outliers import outlier_rows, outlier_samples
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import pair_of
from tests.optimize.quantization.test_quantize import NET, SHAPES, samples, weights


@pytest.fixture
def pair() -> Pair:
    return pair_of(NET, weights(), SHAPES)


def with_odd(ordinary: int, odd: int) -> List[Dict[str, Array]]:
    return [*samples(ordinary), *({"x": sample["x"] * np.float32(300)} for sample in samples(odd, seed=3))]


@pytest.mark.parametrize(
    ("ordinary", "odd", "places"),
    [(10, 2, [10, 11]), (5, 1, [5]), (12, 0, []), (9, 3, []), (4, 1, [])],  # one in six may be unlike
)
def test_a_few_samples_of_much_larger_numbers_are_unlike_the_others(
    pair: Pair, ordinary: int, odd: int, places: List[int]
) -> None:
    assert outlier_samples(pair, with_odd(ordinary, odd)) == places


@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_what_is_no_number_is_unlike_everything(pair: Pair, factor: float) -> None:
    odd = {"x": samples(1)[0]["x"] * np.float32(factor)}
    assert outlier_samples(pair, [*samples(10), odd]) == [10]


def test_samples_that_are_large_in_few_blobs_are_like_the_others() -> None:
    """What a detector says of the only picture with a face is what matters most."""
    magnitudes = np.ones((12, 24))
    magnitudes[3, :5] = magnitudes[7, :6] = 100
    magnitudes[:, 20:] = 0
    magnitudes[0, 20:] = 1  # more than nothing says nothing
    assert outlier_rows(magnitudes) == [7]


def test_they_choose_no_ranges_and_the_report_names_them(pair: Pair) -> None:
    report, explicit = QuantizationReport(), QuantizationReport()
    options: Any = {"activations": "int8", "equalize": False, "rounding": "nearest", "snr": -math.inf}
    small = quantize(pair, with_odd(10, 2), report=report, **options)
    without = quantize(pair, samples(10), **options)
    assert small.predict_net.to_bytes() == without.predict_net.to_bytes()
    assert report.notes[0].startswith("2 of 12 samples are left out (number 11, 12)")
    assert "ranges come from only 10 sample(s), so other data" in report.notes[1]
    wide = quantize(pair, with_odd(10, 2), report=explicit, calibration="minmax", **options)
    assert wide.predict_net.to_bytes() != without.predict_net.to_bytes()
    assert not any("left out" in note for note in explicit.notes)


def test_the_report_names_them_when_layers_stay_float(pair: Pair) -> None:
    report = QuantizationReport()
    quantize(pair, with_odd(10, 2), activations="int8", snr=60, report=report)
    assert [note for note in report.notes if "left out" in note]
    assert [note for note in report.notes if "layers stay float; otherwise" in note]


def test_a_single_sample_is_enough_and_the_report_says_that_it_is_little(pair: Pair) -> None:
    report = QuantizationReport()
    quantize(pair, samples(1), activations="int8", report=report)
    assert report.notes[0].startswith("the ranges come from only 1 sample(s)")
