"""tuning.json: used for the net, machine, shapes and threads for which it was measured, and ignored otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

from runtime_arm import Predictor
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.pair.tuned import PROCESSES, THREADS, TUNING
from runtime_arm.pair.tuning import Measurement, Tuning, fingerprint, net_hash

NET = NetDef.from_text('net "tuned": x, w -> y\n Conv(x, w) -> y  kernel=1')
SHAPE = (1, 4, 6, 6)


def pair_with(tuning: Any = None) -> Pair:
    w = np.arange(16, dtype=np.float32).reshape(4, 4, 1, 1)
    info = TensorInfo("x", (None, 4, None, None), "float32")
    return Pair(NetDef("init", (fill("w", w),)), NET, (info,), tuning=tuning).check()


def tuning_of(engine: str = "IM2COL", **changes: Any) -> Tuning:
    measurement = Measurement({"x": SHAPE}, 1, {0: engine}, {0: {"IM2COL": 1e-3, "POINTWISE": 2e-3}})
    return Tuning(net_hash(NET), fingerprint(), (measurement,))._replace(**changes)


def engine_of(pair: Pair, shape: Any = SHAPE, threads: int = 1) -> Dict[str, Any]:
    """The engine that runs, and the notes."""
    with Predictor(pair, threads=threads) as predictor:
        (step,) = predictor.plan({"x": shape}).steps
        y = predictor.run({"x": np.ones(shape, np.float32)})["y"]
        assert y[0, :, 0, 0].tolist() == [6, 22, 38, 54]
        return {"engine": step.engine, "notes": list(predictor.notes)}


def test_without_a_tuning_the_runtime_chooses() -> None:
    assert engine_of(pair_with()) == {"engine": "POINTWISE", "notes": []}


def test_a_tuning_is_used_for_what_it_was_measured_for() -> None:
    assert engine_of(pair_with(tuning_of())) == {"engine": "IM2COL", "notes": []}


def test_a_tuning_is_saved_beside_the_pair_and_outside_its_hashes(tmp_path: Path) -> None:
    pair_with(tuning_of()).save(tmp_path / "pair")
    pair_with().save(tmp_path / "plain")
    assert (tmp_path / "pair/model.json").read_bytes() == (tmp_path / "plain/model.json").read_bytes()
    loaded = Pair.load(tmp_path / "pair")
    assert loaded.tuning == tuning_of()
    assert loaded == pair_with()
    assert engine_of(loaded) == {"engine": "IM2COL", "notes": []}
    assert not (tmp_path / "plain" / TUNING).exists()


def other_machine(**changes: Any) -> Dict[str, Any]:
    return {**fingerprint(), **changes}


@pytest.mark.parametrize(
    ("pair", "run", "reason"),
    [
        (pair_with(tuning_of(net="0" * 64)), {}, "it was measured for another net"),
        (
            pair_with(tuning_of(machine=other_machine(cpu="4 x Cortex-A72"))),
            {},
            "it was measured on another machine (cpu was 4 x Cortex-A72, is ",
        ),
        (pair_with(tuning_of(machine=other_machine(numpy="1.19.0"))), {}, "(numpy was 1.19.0, is "),
        (pair_with(tuning_of(machine=other_machine(blas="none"))), {}, "(blas was none, is "),
        (pair_with(tuning_of()), {"shape": (2, *SHAPE[1:])}, "nothing was measured for x [2, 4, 6, 6] with threads=1"),
        (pair_with(tuning_of()), {"threads": 2}, "nothing was measured for x [1, 4, 6, 6] with threads=2"),
    ],
)
def test_a_tuning_for_anything_else_is_ignored_with_a_note(pair: Pair, run: Dict[str, Any], reason: str) -> None:
    found = engine_of(pair, **run)
    assert found["engine"] == "POINTWISE"
    (note,) = found["notes"]
    assert note.startswith(f"{TUNING} is ignored: ")
    assert reason in note
    assert note.endswith("; armnet optimize --engines measure renews it")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"schema": 3}',
        '{"schema": 2}',
        '{"schema": 1}',
        "\xff",
        "[" * 100_000,
        json.dumps({"schema": 2, "predict_net": "", "machine": 3, "measurements": []}),
        json.dumps({"schema": 2, "predict_net": "", "machine": {}, "measurements": [{"shapes": {"x": ["a"]}}]}),
        json.dumps(
            {
                "schema": 2,
                "predict_net": "",
                "machine": {},
                "measurements": [{"shapes": {}, "threads": 1, "engines": {"zero": "IM2COL"}, "seconds": {}}],
            }
        ),
        *(
            json.dumps(
                {
                    "schema": 2,
                    "predict_net": "",
                    "machine": {},
                    "measurements": [{"shapes": {}, "threads": 1, "engines": {}, "seconds": {}, **wild}],
                }
            )
            for wild in (
                {},
                {"workers": "elves"},
                {"workers": ["threads"]},
                {"workers": "threads", "threads": float("inf")},
                {"workers": "threads", "seconds": {"0": {"IM2COL": "long"}}},
                {"workers": "threads", "shapes": {"x": [float("nan")]}},
            )
        ),
    ],
)
def test_a_damaged_tuning_is_ignored_with_a_note(tmp_path: Path, content: str) -> None:
    pair_with().save(tmp_path / "pair")
    (tmp_path / "pair" / TUNING).write_text(content, "latin-1")
    found = engine_of(Pair.load(tmp_path / "pair"))
    assert found["engine"] == "POINTWISE"
    assert f"{TUNING} is ignored: it is damaged" in found["notes"][0]


def test_engines_and_operators_that_do_not_exist_do_no_harm() -> None:
    assert engine_of(pair_with(tuning_of("WARP")))["engine"] == "POINTWISE"
    wild = tuning_of()._replace(measurements=(Measurement({"x": SHAPE}, 1, {99: "IM2COL", -1: "IM2COL"}, {}),))
    assert engine_of(pair_with(wild))["engine"] == "POINTWISE"


@pytest.mark.parametrize(
    "hints",
    [
        "block=65536",
        "panel=4",
        "panel=0",
        "block=0,panel=-1",
        "block=" + "9" * 400,
        "block=nan,panel=inf",
        "=,==,block",
    ],
)
def test_hints_change_no_result(hints: str) -> None:
    assert engine_of(pair_with(tuning_of(hints))) == {"engine": "POINTWISE", "notes": []}
    assert engine_of(pair_with(tuning_of(f"IM2COL,{hints}"))) == {"engine": "IM2COL", "notes": []}


def test_blas_threads_replace_workers() -> None:
    shape = (1, 4, 1280, 1280)
    for workers, split in ((PROCESSES, True), (THREADS, False)):
        measurement = Measurement({"x": shape}, 2, {}, {}, workers)
        with Predictor(pair_with(tuning_of()._replace(measurements=(measurement,))), threads=2) as predictor:
            assert predictor.plan({"x": shape}).is_split is split
            assert not predictor.notes


def test_a_measurement_replaces_an_older_one() -> None:
    new = Measurement({"x": SHAPE}, 1, {0: "POINTWISE"}, {})
    elsewhere = Measurement({"x": SHAPE}, 2, {}, {})
    tuning = tuning_of().with_measurement(elsewhere).with_measurement(new)
    assert tuning.measurements == (elsewhere, new)
    assert tuning.find({"x": SHAPE, "state": (1,)}, 1) == new
    assert tuning.find({"x": (1, 2)}, 1) is None
