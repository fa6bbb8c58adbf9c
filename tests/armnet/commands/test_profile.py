"""``armnet profile``: the time of every operator, the totals, and the trace for a viewer."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import pytest

from armnet import timing
from runtime_arm.pair.tuning import Measurement, Tuning, fingerprint, net_hash
from tests.optimize.nets import pair_of
from tests.support.commands import Armnet, refused


def test_every_operator_is_listed_with_its_share(armnet: Armnet, digits: Path) -> None:
    status, out, _ = armnet("profile", digits, "--threads", 1, "--rounds", 2, "--json")
    assert status == 0
    facts = json.loads(out)
    assert facts["threads"] == 1
    rows = facts["operators"]
    assert {row["workers"] for row in rows} == {1}
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert sum(row["ms"] for row in rows) == pytest.approx(facts["ms"])
    assert {row["type"] for row in rows} == {entry["type"] for entry in facts["types"]}
    convolution = next(row for row in rows if row["type"] == "Conv")
    assert convolution["gflops"] > 0
    assert convolution["nbytes"] > 0
    assert convolution["refused"], "it must say why not another engine"


def test_the_trace_has_the_format_that_viewers_read(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    status, out, _ = armnet("profile", digits, "--rounds", 1, "--sort", "time", "--why", "--trace", trace)
    assert status == 0
    events = json.loads(trace.read_text())["traceEvents"]
    assert all(event["ph"] == "X" and event["dur"] > 0 for event in events)
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)
    assert any("Conv(" in event["args"]["signature"] for event in events)
    assert "why not another engine" in out.splitlines()[0]


@pytest.mark.parametrize("busy", [True, False])
def test_a_noisy_machine_is_told(armnet: Armnet, digits: Path, busy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that workers share wait for the slowest of them."""
    monkeypatch.setattr(timing, "busy_seconds", lambda: time.perf_counter() * (os.cpu_count() or 1) * busy)
    _, _, notes = armnet("profile", digits, "--threads", 1, "--rounds", 400, "--json")
    assert ("the machine is noisy" in notes) == busy
    assert "steps on several cores" not in notes


def test_the_hints_that_an_operator_follows_are_listed(armnet: Armnet, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    weights = {name: rng.standard_normal((64, 64, 3, 3)).astype(np.float32) for name in "vw"}
    pair = pair_of(
        'net "": x, v, w -> y\n Conv(x, v) -> a  kernel=3 pad=1\n Conv(a, w) -> b  kernel=3 pad=1\n Relu(b) -> y',
        weights,
        {"x": (1, 64, 56, 56)},
    )
    measured = Measurement({"x": (1, 64, 56, 56)}, 1, {0: "block=2097152", 2: "panel=32"}, {})
    tuning = Tuning(net_hash(pair.predict_net), fingerprint(), (measured,))
    pair.replace(tuning=tuning).save(tmp_path / "pair")
    _, out, _ = armnet("profile", tmp_path / "pair", "--threads", 1, "--rounds", 1, "--json")
    rows = {row["index"]: row["hints"] for row in json.loads(out)["operators"] if row["index"] >= 0}
    assert rows == {0: ["block=2097152"], 1: [], 2: []}
    _, out, _ = armnet("profile", tmp_path / "pair", "--threads", 1, "--rounds", 1)
    assert " block=2097152 " in out


@pytest.mark.parametrize("rounds", [0, -1])
def test_fewer_than_one_round_is_refused(armnet: Armnet, digits: Path, rounds: int) -> None:
    refused(armnet("profile", digits, "--rounds", rounds), f"--rounds must be 1 or more, got {rounds}")


@pytest.mark.parametrize("command", ["profile", "bench", "inspect"])
def test_sizes_beyond_memory_are_refused(armnet: Armnet, digits: Path, command: str) -> None:
    outcome = armnet(command, digits, "--shape", "image=99999999999,1,8,8")
    refused(outcome, "input 'image' of shape (99999999999, 1, 8, 8) needs", "of this machine")


@pytest.mark.parametrize("words", [["profile", "--rounds", 1], ["inspect"]])
def test_operators_without_outputs_are_listed(armnet: Armnet, tmp_path: Path, words: Sequence[Any]) -> None:
    pair_of('net "": x -> y\n EnforceFinite(x) -> \n Relu(x) -> y', shapes={"x": (2, 3)}).save(tmp_path / "pair")
    status, out, _ = armnet(words[0], tmp_path / "pair", *words[1:])
    assert status == 0
    assert "EnforceFinite" in out
    status, out, _ = armnet(words[0], tmp_path / "pair", *words[1:], "--json")
    assert [(row["type"], row["output"], row["shape"]) for row in json.loads(out)["operators"]] == [
        ("EnforceFinite", "", None),
        ("Relu", "y", [2, 3]),
    ]
