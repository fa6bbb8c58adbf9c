"""Hints and workers: which are tried, which are kept, and what the tuning records."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from optimize import Report, pick_engines
from optimize.engines import measure_hints
from optimize.engines import pick as engines
from optimize.engines.measure_hints import Open, faster_hints, faster_workers, open_hints, promising_hints
from optimize.engines.sample_inputs import drawn
from optimize.rewriting.shapes import sample_specs
from runtime_arm import Predictor
from runtime_arm.engines.conv import gemm
from runtime_arm.engines.tiled import strips
from runtime_arm.execution.profiling import Timing
from runtime_arm.machine import blas
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import pair_of

SHAPE = (1, 64, 56, 56)
HINTS = ["block=2097152", "panel=0", "panel=32"]


def convolutions() -> Pair:
    """Two 3x3 convolutions of the same shapes, and one with more filters."""
    rng = np.random.default_rng(5)
    weights = {
        name: rng.standard_normal((filters, 64, 3, 3)).astype(np.float32) / 24
        for name, filters in (("v", 64), ("w", 64), ("u", 192))
    }
    return pair_of(
        'net "": x, v, w, u -> y\n Conv(x, v) -> a  kernel=3 pad=1\n Conv(a, w) -> b  kernel=3 pad=1\n '
        "Conv(b, u) -> y  kernel=3 pad=1",
        weights,
        {"x": SHAPE},
    )


def silent(text: str, done: int, total: int) -> None:
    pass


OPENBLAS = blas.OpenBlas("", lambda: 1, lambda count: None, "Haswell", "")


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    monkeypatch.setattr(strips, "usual_block_nbytes", lambda: 1 << 22)


def test_hints_are_open_if_they_change_something() -> None:
    pair = convolutions()
    first, second, third = open_hints(pair, sample_specs(pair.inputs))
    assert [first.place, second.place, third.place] == [0, 1, 2]
    assert first.hints == second.hints == HINTS
    assert "panel=0" in third.hints
    assert first.problem == second.problem != third.problem


def test_equal_operators_share_their_timings_and_noise_is_ignored() -> None:
    operators = [
        Open(place, problem, ["block=65536", "block=262144", "panel=32"])
        for place, problem in enumerate([("a",), ("a",), ("b",), ("c",)])
    ]
    alike = {"": 2.0, "block=65536": 1.9, "block=262144": 1.5, "panel=32": 1.8}
    timings: Dict[int, Dict[str, float]] = {
        0: {**alike, "panel=32": 2.5},
        1: alike,
        2: {"": 2.0, "block=65536": 1.99, "block=262144": 1.95, "panel=32": 3.0},
        3: {"": 2.0, "block=65536": 1.0, "panel=32": 1.0},
    }
    assert promising_hints(operators, timings) == {0: "block=262144", 1: "block=262144", 3: "block=65536,panel=32"}
    assert promising_hints(operators[:1], {0: {"block=65536": 1.0}}) == {}


def believe(monkeypatch: pytest.MonkeyPatch, seconds: Dict[str, float], net: List[float]) -> List[Dict[int, str]]:
    """Fakes the seconds of operators by hint, and those of the two compared nets. Returns the hints that were tried."""
    tried: List[Dict[int, str]] = []

    def time_lists(pair: Any, lists: Any, *rest: Any) -> Any:
        with Predictor(pair, threads=1) as predictor:
            steps = {step.index: step for step in predictor.plan().steps}
        for number in range(max(map(len, lists.values()))):
            tried.append({place: known[number % len(known)] for place, known in lists.items()})
            for place, known in lists.items():
                at = number % len(known)
                yield at, Timing(steps[place], seconds.get(known[at], 2.0), 0.0)

    monkeypatch.setattr(measure_hints, "time_lists", time_lists)
    monkeypatch.setattr(measure_hints, "seconds_of", lambda pairs, *rest: net)
    return tried


@pytest.mark.parametrize(
    ("net", "kept"), [([2.0, 1.9], dict.fromkeys([0, 1, 2], "panel=32")), ([2.0, 1.99], {}), ([2.0, 2.1], {})]
)
def test_hints_are_kept_if_the_whole_net_is_faster(
    net: List[float], kept: Dict[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = convolutions()
    tried = believe(monkeypatch, {"panel=32": 1.0}, net)
    assert faster_hints(pair, drawn(sample_specs(pair.inputs)), 1, silent) == kept
    assert tried[0] == {0: "", 1: "", 2: ""}
    assert {hint for each in tried for hint in each.values()} >= {"", *HINTS}


def test_a_net_without_open_hints_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of('net "": x -> y\n Relu(x) -> y', {}, {"x": SHAPE})
    tried = believe(monkeypatch, {}, [1.0, 0.5])
    assert faster_hints(pair, drawn(sample_specs(pair.inputs)), 1, silent) == {}
    assert tried == []


@pytest.mark.parametrize(
    ("seconds", "threads", "workers"),
    [
        ([1.0, 0.9], 2, "threads"),
        ([1.0, 0.995], 2, "processes"),
        ([1.0, 2.0], 2, "processes"),
        ([1.0, 0.5], 1, "processes"),
    ],
)
def test_the_faster_workers_are_kept(
    seconds: List[float], threads: int, workers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, compared = convolutions(), []

    def seconds_apart(pairs: Any, *rest: Any) -> List[float]:
        compared.extend(each.tuning.measurements[0].workers for each in pairs)
        return seconds

    monkeypatch.setattr(measure_hints, "seconds_apart", seconds_apart)
    monkeypatch.setattr(blas, "loaded", lambda: OPENBLAS)
    assert faster_workers(pair, drawn(sample_specs(pair.inputs)), threads, silent) == workers
    assert compared == (["processes", "threads"] if threads > 1 else [])


def test_another_blas_keeps_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "loaded", lambda: None)
    monkeypatch.setattr(measure_hints, "seconds_apart", lambda *rest: [1.0, 0.1])
    assert faster_workers(convolutions(), {}, 2, silent) == "processes"


def believe_in_the_end(monkeypatch: pytest.MonkeyPatch, seconds: List[float]) -> None:
    for name in ("seconds_of", "seconds_apart"):
        monkeypatch.setattr(engines, name, lambda *rest: seconds)


def test_choices_that_turn_out_to_be_slower_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report()
    monkeypatch.setattr(engines, "time_options", lambda *rest: {0: {}})
    monkeypatch.setattr(engines, "faster_hints", lambda *rest: {0: "panel=32"})
    believe_in_the_end(monkeypatch, [1.0, 1.1])
    result = pick_engines(convolutions(), "measure", threads=1, report=report)
    assert result.tuning is not None
    assert result.tuning.measurements[0].engines == {}
    assert report.notes == ["threads=1: nothing that was measured is faster than the runtime's own choice, 1000.00 ms"]


@pytest.mark.parametrize(("workers", "split"), [("processes", True), ("threads", False)])
def test_choices_are_recorded_in_the_tuning_and_not_in_the_net(
    workers: str, split: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, report = convolutions(), Report()
    monkeypatch.setattr(engines, "time_options", lambda *rest: {})
    monkeypatch.setattr(engines, "faster_hints", lambda *rest: {0: "block=65536,panel=32"})
    monkeypatch.setattr(engines, "faster_workers", lambda *rest: workers)
    believe_in_the_end(monkeypatch, [2.0, 1.0])
    result = pick_engines(pair, "measure", threads=2, report=report)
    assert result.predict_net == pair.predict_net
    assert result.tuning is not None
    (measurement,) = result.tuning.measurements
    assert (measurement.engines, measurement.workers) == ({0: "block=65536,panel=32"}, workers)
    assert "1 sizes of blocks or panels" in report.notes[0]
    assert ("threads of BLAS" in report.notes[0]) is not split
    assert report.engines[0].tuned == {2: "block=65536,panel=32"}
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    with Predictor(result, threads=2) as tuned, Predictor(pair, threads=2) as plain:
        assert tuned.plan().is_split is split
        assert_close(tuned.run([x])["y"], plain.run([x])["y"], terms=64 * 3 * 3, amplification=2)  # both round
        assert len(tuned.executor.worker_processes()) <= int(split)
