"""What is demanded of a pair holds on samples that had no say in how it was made."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence

import numpy as np
import pytest

from optimize import quantize
from optimize.quantization import QuantizationReport, judge
from optimize.quantization.builders import Builder, Floats, Trial
from optimize.quantization.judge import FEW, Demand, Judge
from optimize.quantization.outputs import OutputNoise, Sums
from runtime_arm.pair.pair import Pair
from tests.optimize.quantization.test_quantize import pair, samples  # noqa: F401 - a fixture


def of(
    monkeypatch: pytest.MonkeyPatch, parts: Sequence[Sequence[Sums]], demand: Optional[float], count: int = FEW
) -> Judge:
    """The judge of a pair whose one output has these signals and noises in two parts of the samples."""

    class Noise:
        def __init__(self, original: Pair, part: Sequence[Any], most: int):
            self._sums = {"y": list(parts[part[0]])}

        def sums(self, built: Any) -> Any:
            return self._sums

    monkeypatch.setattr(judge, "OutputNoise", Noise)
    nothing: Any = lambda floats, report: None  # noqa: E731
    builder = Builder(nothing, lambda: [Trial(nothing, [1]), Trial(nothing, [0])])  # type: ignore[list-item]
    given: Any = [0] * count
    return Judge(nothing, builder, given, Demand(demand, None))


def test_all_parts_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = of(monkeypatch, [[(1e3, 1.0)] * 4, [(1e3, 1.0)] * 4], 29.9)
    assert judged.ratio(Floats()) == pytest.approx((30.0, 30.0))
    assert judged.good(Floats())


def test_a_ratio_that_varies_from_sample_to_sample_must_be_higher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of samples with ratios of 24 to 36 dB, 27 dB together, others may well have 25: one in twenty sets of eight lies
    so far below."""
    spread = [(1e3, 10 ** (db / 10)) for db in (-6.0, -2.0, 2.0, 6.0)]
    judged = of(monkeypatch, [spread, spread], 27.0)
    found, sure = judged.ratio(Floats())
    assert found == pytest.approx(30 - 10 * math.log10(np.mean([noise for _, noise in spread])))
    drawn = np.random.default_rng(0).choice([noise for _, noise in spread], (4000, 8)).mean(axis=1)
    assert found - sure == pytest.approx(judge.STUDENT * np.std(10 * np.log10(drawn)), rel=0.1)
    assert not judged.good(Floats())
    assert of(monkeypatch, [spread, spread], sure).good(Floats())


def test_crops_of_a_photo_say_no_more_than_the_photo(monkeypatch: pytest.MonkeyPatch) -> None:
    photos = [(1e3, 10 ** (db / 10)) for db in (-6.0, 1.0, -3.0, 0.0, 2.0, -1.0, 3.0, 6.0)]
    crops = [photo for photo in photos for _ in range(4)]
    once = of(monkeypatch, [photos[:4], photos[4:]], 25.0).ratio(Floats())
    assert of(monkeypatch, [crops[:16], crops[16:]], 25.0).ratio(Floats()) == pytest.approx(once)


@pytest.mark.parametrize(("photo", "crop", "crops"), [(0.0, 5.0, 1), (4.0, 4.0, 4)])
def test_what_few_samples_promise_is_seldom_more_than_many_give(
    monkeypatch: pytest.MonkeyPatch, photo: float, crop: float, crops: int
) -> None:
    """Ratios spread from photo to photo and from crop to crop: a few hard samples, of which 28 need not hold one, make
    most of the noise."""
    rng = np.random.default_rng(0)
    many = 10 * math.log10(1e3 / (10 ** (rng.normal(0, math.hypot(photo, crop), 1_000_000) / 10)).mean())
    promises = []
    for _ in range(400):
        spread = np.repeat(rng.normal(0, photo, 28 // crops), crops) + rng.normal(0, crop, 28)
        drawn = [(1e3, 10 ** (db / 10)) for db in spread]
        promises.append(of(monkeypatch, [drawn[:14], drawn[14:]], 25.0).ratio(Floats()))
    assert np.mean([found > many for found, _ in promises]) > 0.5
    assert np.mean([sure > many for _, sure in promises]) < 0.25


def test_outputs_that_are_equal_on_all_samples_but_one_are_no_reason_for_no_end_of_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, sure = of(monkeypatch, [[(1.0, 0.0)] * 4, [(1.0, 0.0)] * 3 + [(1.0, 1e-4)]], 25.0).ratio(Floats())
    assert found - sure <= judge.MOST_MISSING


def test_what_has_to_go_is_what_a_demand_leaves_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the noise, where 3 dB are missing; all of it, where nobody says how much may be there."""
    parts = [[(1e3, 1.0)] * 4, [(1e3, 1.0)] * 4]
    assert of(monkeypatch, parts, 33.01).excess(Floats()) == pytest.approx({"y": 0.5}, abs=1e-3)
    assert of(monkeypatch, parts, 29.0).excess(Floats()) == {"y": 0.0}
    assert of(monkeypatch, parts, None).excess(Floats()) == {"y": 1.0}


def test_few_samples_are_judged_on_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = of(monkeypatch, [[(1e3, 1.0), (1e3, 4.0)], [(1e3, 1e3)]], 25.0, FEW - 1)
    assert judged.ratio(Floats()).sure == judged.ratio(Floats()).found > 25


def test_ranges_that_fit_the_samples_alone_are_not_good_enough(pair: Pair) -> None:  # noqa: F811
    """What one part holds is cut off by the ranges of the others: so it will be with what nobody has seen."""
    growing = [{"x": one["x"] * np.float32(1 if place < 12 else 6)} for place, one in enumerate(samples(16))]
    taken, mixed = QuantizationReport(), QuantizationReport()
    options: Any = {"activations": "int8", "calibration": "minmax", "equalize": False}
    small = quantize(pair, growing, snr=-math.inf, report=taken, **options)
    assert OutputNoise(pair, growing).of(small) > 25
    quantize(pair, growing, report=mixed, **options)
    assert _on_floats(mixed) > _on_floats(taken)
    assert mixed.output_snr is not None
    assert mixed.output_snr > 25


def _on_floats(report: QuantizationReport) -> int:
    rows: List[Any] = report.layers
    return sum(row.choice.activations == "float32" for row in rows)
