"""Calibration that was killed goes on where it was, to the same pair; other nets, samples and methods start anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence

import numpy as np
import pytest

from optimize import quantize
from optimize.quantization import QuantizationReport, builders, calibration_cache
from optimize.quantization.builders import Floats, Methods
from optimize.quantization.calibration_cache import remove_calibration
from optimize.quantization.table import Choice
from optimize.rewriting.report import quiet
from runtime_arm.errors import ResourceError
from runtime_arm.pair.pair import Pair
from tests.optimize.quantization.test_quantize import pair, samples  # noqa: F401 - a fixture


class Counted(Sequence[Dict[str, np.ndarray]]):
    """Samples that count how often they are read, and kill the run that reads too many."""

    def __init__(self, given: List[Dict[str, np.ndarray]], most: int = 10**6):
        self._given, self._most, self.read = given, most, 0

    def __len__(self) -> int:
        return len(self._given)

    def __getitem__(self, index: Any) -> Any:
        self.read += 1
        if self.read > self._most:
            raise KeyboardInterrupt
        return self._given[index]


@pytest.fixture(autouse=True)
def keep_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration_cache, "SECONDS", 0.0)


@pytest.mark.parametrize(
    ("calibration", "most", "spared"), [("minmax", 24, 5), ("percentile", 50, 24), ("minmax", 60, 30)]
)
def test_a_killed_run_goes_on(pair: Pair, tmp_path: Path, calibration: str, most: int, spared: int) -> None:  # noqa: F811
    options: Any = {"activations": "int8", "calibration": calibration}
    whole = Counted(samples(12))
    wanted = quantize(pair, whole, folder=tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        quantize(pair, Counted(samples(12), most), folder=tmp_path / "kept", **options)
    rest = Counted(samples(12))
    found = quantize(pair, rest, folder=tmp_path / "kept", **options)
    assert found.predict_net.to_bytes() == wanted.predict_net.to_bytes()
    assert found.init_net.to_bytes() == wanted.init_net.to_bytes()
    assert rest.read <= whole.read - spared
    again = Counted(samples(12))
    quantize(pair, again, folder=tmp_path / "kept", **options)
    assert again.read < rest.read
    remove_calibration(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_what_is_kept_belongs_to_a_net_its_samples_and_a_method(pair: Pair, tmp_path: Path) -> None:  # noqa: F811
    for options in ({"calibration": "minmax"}, {"calibration": "mse"}, {"equalize": True}, {"rounding": "nearest"}):
        for seed in (0, 1):
            arguments: Any = {"activations": "int8", **options}
            found = quantize(pair, samples(4, seed), folder=tmp_path, **arguments)
            assert found.init_net.to_bytes() == quantize(pair, samples(4, seed), **arguments).init_net.to_bytes()


def test_what_is_kept_of_most_samples_belongs_to_those(pair: Pair, tmp_path: Path) -> None:  # noqa: F811
    """Ranges are chosen without each quarter of the samples."""
    sizes = np.repeat([1, 5, 9, 1], 3).astype(np.float32)
    varied = [{"x": sample["x"] * size} for sample, size in zip(samples(12), sizes)]
    ranges = []
    for folder in (None, tmp_path):
        found = builders.integer_builder(
            pair, varied, Choice("int8", "int8"), {}, Methods("minmax", False, False, True, True, folder), quiet
        ).trials()
        ranges.append([trial.build(Floats(), QuantizationReport()).predict_net.to_text() for trial in found])
    assert ranges[0] == ranges[1]
    assert len(set(ranges[0])) > 1


def test_files_that_cannot_be_read_count_as_none_and_a_folder_that_cannot_be_written_is_named(
    pair: Pair,  # noqa: F811
    tmp_path: Path,
) -> None:
    wanted = quantize(pair, samples(4), activations="int8", folder=tmp_path / "kept")
    for path in (tmp_path / "kept").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    found = quantize(pair, samples(4), activations="int8", folder=tmp_path / "kept")
    assert found.init_net.to_bytes() == wanted.init_net.to_bytes()
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ResourceError, match="file"):
        quantize(pair, samples(4), activations="int8", folder=tmp_path / "file")
