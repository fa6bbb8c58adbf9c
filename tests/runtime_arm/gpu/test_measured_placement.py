"""``armnet optimize --engines measure --device``: each island runs where it was measured to be faster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import pytest

from armnet.__main__ import main
from device_tests.suite.tolerance import assert_network_close
from optimize import Report, optimize
from optimize.engines import measure_device
from optimize.engines.measure_algorithms import time_algorithms
from optimize.rewriting.report import quiet
from runtime_arm import Predictor
from runtime_arm.errors import UsageError
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.island import Island
from runtime_arm.gpu.programs import Programs
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.engine_preferences import Preference
from tests.docs.json_schemas import assert_fits
from tests.runtime_arm.gpu.nets import SHAPE, X, net

BEFORE, BEHIND = "the island before Cos", "the island behind Cos"


@pytest.fixture(autouse=True)
def _device(opened: Tuple[Device, Programs], monkeypatch: pytest.MonkeyPatch) -> None:
    """The name opencl:0 means the device of the tests, whose own name may be another."""
    monkeypatch.setattr("runtime_arm.gpu.devices._open", {"opencl:0": opened})


def _which(island: Island) -> str:
    return BEFORE if any("x" in step.op.input for step in island.steps) else BEHIND


def _clock(monkeypatch: pytest.MonkeyPatch, faster: Sequence[str], in_the_net: bool = True) -> None:
    """A clock by which these islands are faster on the device, and the whole net, too."""

    def of_island(island: Island) -> Dict[str, float]:
        return {"device": 1.0 if _which(island) in faster else 3.0, "processor": 2.0}

    def of_nets(pairs: Sequence[Pair], *rest: Any) -> List[float]:
        return [1.0, 0.5 if in_the_net else 2.0][: len(pairs)]

    monkeypatch.setattr(measure_device, "_seconds_of", of_island)
    monkeypatch.setattr(measure_device, "seconds_of", of_nets)


def _measured(report: Any = None) -> Pair:
    return optimize(net(), "measure", device="opencl:0", threads=1, shapes={"x": SHAPE}, report=report)


def _on_device(predictor: Predictor) -> List[str]:
    assert predictor.placement is not None
    return [_which(island) for island in predictor.placement.islands]


@pytest.mark.parametrize("faster", [[BEFORE], [BEHIND], [BEFORE, BEHIND]])
def test_what_pays_runs_on_the_device_and_the_rest_does_not(
    opened: Tuple[Device, Programs], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, faster: List[str]
) -> None:
    _clock(monkeypatch, faster)
    report = Report()
    _measured(report).save(tmp_path / "pair")
    pair = Pair.load(tmp_path / "pair")
    content = json.loads((tmp_path / "pair/tuning.json").read_text())
    assert_fits(content, "tuning")
    (measurement,) = content["measurements"]
    assert [one["device"] < one["processor"] for one in measurement["device"]["islands"]].count(True) == len(faster)
    with Predictor(pair, threads=1) as plain, Predictor(pair, threads=1, device="opencl:0") as predictor:
        for name, expected in plain.run({"x": X}).items():
            assert_network_close(predictor.run({"x": X})[name], expected, what=name)
        assert plain.placement is None
        assert _on_device(predictor) == faster
        assert predictor.placement is not None
        told = set(predictor.placement.reasons.values())
        assert ("the processor is faster, as measured" in told) == (len(faster) == 1)
    notes = [note for note in report.notes if "islands run there" in note]
    assert notes == [
        f"threads=1, opencl:0 ({measurement['device']['name']}): {len(faster)} of 2 islands run there, "
        "500.00 ms with it, 1000.00 ms without"
    ]
    assert ("opencl:0 is the processor itself: its times are not those of a GPU" in report.notes) == opened[0].is_cpu


@pytest.mark.parametrize("faster", [[], [BEFORE, BEHIND]])
def test_what_does_not_pay_in_the_whole_net_stays_on_the_processor(
    opened: Tuple[Device, Programs], monkeypatch: pytest.MonkeyPatch, faster: List[str]
) -> None:
    _clock(monkeypatch, faster, in_the_net=False)
    with Predictor(_measured(), threads=1, device="opencl:0") as predictor:
        predictor.run({"x": X})
        assert _on_device(predictor) == []
        (note,) = predictor.notes
    assert note == f"nothing runs on {opened[0].spec}: the processor is faster, according to tuning.json"


def test_what_was_measured_on_another_device_is_ignored(
    opened: Tuple[Device, Programs], monkeypatch: pytest.MonkeyPatch
) -> None:
    _clock(monkeypatch, [BEFORE])
    pair = _measured()
    assert pair.tuning is not None
    (one,) = pair.tuning.measurements
    assert one.device is not None
    elsewhere = pair.tuning.with_measurement(one._replace(device=one.device._replace(driver="Mesa 22")))
    with Predictor(pair.replace(tuning=elsewhere), threads=1, device="opencl:0") as predictor:
        predictor.run({"x": X})
        assert _on_device(predictor) == [BEFORE, BEHIND]
        assert "are ignored: they are of " in predictor.notes[0]
        assert f"--engines measure --device {opened[0].spec} renews them" in predictor.notes[0]


def test_islands_are_timed_by_the_clock_on_both_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net().save(tmp_path / "pair")
    words = ["--engines", "measure", "--device", "opencl:0", "--threads", "1", "--shape", "x=1,6,8,8", "--json"]
    assert main(["optimize", str(tmp_path / "pair"), "-o", str(tmp_path / "fast"), *words]) == 0
    content = json.loads((tmp_path / "fast/tuning.json").read_text())
    (measurement,) = content["measurements"]
    islands = measurement["device"]["islands"]
    assert len(islands) == 2
    assert all(one[side] > 0 for one in islands for side in ("device", "processor"))
    assert any("islands run there" in note for note in json.loads(capsys.readouterr().out)["notes"])


def _kernels(predictor: Predictor) -> Set[str]:
    """The names of the kernels that run on the device."""
    assert predictor.placement is not None
    return {name for island in predictor.placement.islands for _, name, _ in island.seconds()}


def _algorithms(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
    """A clock by which the first convolution takes these seconds on the device."""
    timings = {0: {Preference("DEVICE", algorithm): taken for algorithm, taken in seconds.items()}}
    monkeypatch.setattr(measure_device, "time_algorithms", lambda *_: timings)


def test_a_convolution_goes_the_fastest_way_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    _clock(monkeypatch, [BEFORE, BEHIND])
    _algorithms(monkeypatch, direct=2.0, winograd=1.0, im2col=3.0)
    report = Report()
    pair = _measured(report)
    assert pair.tuning is not None
    (measurement,) = pair.tuning.measurements
    assert measurement.engines[0].split(",")[-1] == "DEVICE:winograd"
    assert {name: taken for name, taken in measurement.seconds[0].items() if name.startswith("DEVICE")} == {
        "DEVICE:direct": 2.0,
        "DEVICE:winograd": 1.0,
        "DEVICE:im2col": 3.0,
    }
    (note,) = [note for note in report.notes if "an algorithm faster" in note]
    assert note == "threads=1, opencl:0: 1 of 1 convolutions have an algorithm faster than the default"
    with Predictor(pair, threads=1) as plain, Predictor(pair, threads=1, device="opencl:0") as predictor:
        for name, expected in plain.run({"x": X}).items():
            assert_network_close(predictor.run({"x": X})[name], expected, what=name)
        assert "transform_input" in _kernels(predictor)


@pytest.mark.parametrize("accuracy", [None, 1e-12])
def test_the_default_way_stays_where_another_is_no_faster_or_not_accurate(
    monkeypatch: pytest.MonkeyPatch, accuracy: Optional[float]
) -> None:
    _clock(monkeypatch, [BEFORE, BEHIND])
    _algorithms(monkeypatch, direct=2.0, winograd=1.0 if accuracy else 1.95)
    pair = optimize(net(), "measure", device="opencl:0", threads=1, shapes={"x": SHAPE}, accuracy=accuracy)
    assert pair.tuning is not None
    assert "DEVICE" not in str(pair.tuning.measurements[0].engines)


def test_the_processor_ignores_ways_of_a_device() -> None:
    pair = optimize(net(), shapes={"x": SHAPE})
    asked = optimize(net(), "DEVICE:winograd", shapes={"x": SHAPE})
    with Predictor(pair, threads=1) as one, Predictor(asked, threads=1) as other:
        engines = [[step.engine for step in each.plan({"x": SHAPE}).steps] for each in (one, other)]
    assert engines[0] == engines[1]


def test_every_way_is_timed_by_the_devices_clock() -> None:
    timings = time_algorithms(_measured(), "opencl:0", {"x": X}, 1, quiet)
    algorithms = [{preference.variant for preference in known} - {"cudnn"} for _, known in sorted(timings.items())]
    assert algorithms == [{"direct", "winograd", "im2col"}, {"direct", "im2col"}, {"direct", "winograd", "im2col"}]
    assert all(taken > 0 for known in timings.values() for taken in known.values())


@pytest.mark.parametrize(("algorithm", "kernel"), [("winograd", "transform_input"), ("im2col", "im2col")])
def test_a_list_of_engines_names_the_algorithm_of_a_device(algorithm: str, kernel: str) -> None:
    pair = optimize(net(), f"DEVICE:{algorithm}", shapes={"x": SHAPE})
    with Predictor(pair, threads=1) as plain, Predictor(pair, threads=1, device="opencl:0") as predictor:
        for name, expected in plain.run({"x": X}).items():
            assert_network_close(predictor.run({"x": X})[name], expected, what=name)
        assert kernel in _kernels(predictor)
    with pytest.raises(
        UsageError, match="engine DEVICE has no variant 'magic'; there are cudnn, direct, im2col, winog"
    ):
        optimize(net(), "DEVICE:magic", shapes={"x": SHAPE})


def test_a_profile_has_the_devices_own_times(
    opened: Tuple[Device, Programs], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net().save(tmp_path / "pair")
    words = ["--device", "opencl:0", "--threads", "1", "--shape", "x=1,6,8,8", "--rounds", "1", "--json"]
    assert main(["profile", str(tmp_path / "pair"), *words]) == 0
    captured = capsys.readouterr()
    rows = [row for row in json.loads(captured.out)["operators"] if row["engine"] == opened[0].spec]
    assert [row["type"] for row in rows].count("Conv") == 3
    assert all(row["ms"] > 0 for row in rows if row["type"] == "Conv")
    assert ("opencl:0 is the processor itself: its times are not those of a GPU" in captured.err) == opened[0].is_cpu


def test_a_device_is_for_engines_that_are_measured() -> None:
    with pytest.raises(UsageError, match="a device can only be given if engines are measured"):
        optimize(net(), device="opencl:0")
