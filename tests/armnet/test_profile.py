"""Where the time goes: every operator, their sums, and the trace for a viewer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import Armnet


def test_every_operator_is_told_with_its_share(armnet: Armnet, digits: Path) -> None:
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


def test_the_trace_is_one_that_viewers_read(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    status, out, _ = armnet("profile", digits, "--rounds", 1, "--sort", "time", "--trace", trace)
    assert status == 0
    events = json.loads(trace.read_text())["traceEvents"]
    assert all(event["ph"] == "X" and event["dur"] > 0 for event in events)
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)
    assert any("Conv(" in event["args"]["signature"] for event in events)
    assert "why not another engine" in out.splitlines()[0]
