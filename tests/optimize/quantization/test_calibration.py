"""Calibration: how many runs it takes to see all blobs."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np
import pytest

from optimize.quantization import calibration
from optimize.quantization.calibration import METHODS, Blobs, calibrated
from tests.optimize.nets import pair_of

NBYTES = {"a": 4, "b": 3, "c": 1, "d": 12, "e": 2, "f": 2}


class Recorder:
    """Stands for a Predictor, and remembers what each run was asked for."""

    def __init__(self) -> None:
        self.groups: List[Sequence[str]] = []

    def run(self, sample: Any, keep: Sequence[str]) -> Dict[str, np.ndarray]:
        self.groups.append(keep)
        return {name: np.zeros(NBYTES[name], np.uint8) for name in keep}


def test_blobs_are_fetched_together_as_soon_as_their_sizes_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "GROUP_NBYTES", 10)
    predictor: Any = Recorder()
    blobs = Blobs(predictor, list(NBYTES))
    assert [name for name, _ in blobs.of({})] == list(NBYTES)
    assert predictor.groups == [["a"], ["b", "c"], ["d", "e", "f"]]  # as many as are as large as the last ones
    predictor.groups.clear()
    assert [name for name, _ in blobs.of({})] == list(NBYTES)
    assert predictor.groups == [["a", "b", "c"], ["d"], ["e", "f"]]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("low", [0.99995, 0.9])
def test_numbers_may_be_close_to_each_other(low: float, method: str) -> None:
    """Between the first ones there are fewer numbers than bins, and the others are far from zero."""
    pair, values = pair_of('net "n": x -> y\n Relu(x) -> y', shapes={"x": (4,)}), np.array([low, 1, 1, 1], np.float32)
    found = calibrated(pair, ["y"], [{"x": values}], [method])[method].ranges["y"]
    assert 0 <= found.low <= 1
    assert found.high == pytest.approx(1, abs=1e-3)
