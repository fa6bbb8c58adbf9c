"""What fuzzers have in common: exceptions that escape, crashes and hangs are findings, kept once a cause."""

from __future__ import annotations

import os
import signal
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from scripts.fuzzing.cases import FINDING, Finding, Limits, results_of, run_cases

LIMITS = Limits(1.0, 8 << 30)


def options(folder: Path, count: int = 3, resume: bool = False) -> Namespace:
    return Namespace(count=count, start=0, resume=resume, seconds=1.0, memory=8.0, findings=folder)


def keep(number: int, folder: Path) -> str:
    (folder / "model").write_text(str(number))
    return f"model {number}"


def test_crashes_and_hangs_are_findings_and_the_other_cases_still_run() -> None:
    def misbehave(number: int) -> str:
        if number == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        while number == 1:
            pass
        return "ran"

    results = [result[:3] for result in results_of(misbehave, range(3), LIMITS)]
    assert results == [(0, FINDING, "crashes_9"), (1, FINDING, "hangs"), (2, "ran", "")]


def test_memory_that_no_machine_has_is_no_finding() -> None:
    def ask(number: int) -> str:
        raise MemoryError

    assert [result.kind for result in results_of(ask, [7], LIMITS)] == ["MemoryError"]


@pytest.mark.parametrize(
    ("error", "cause", "text"),
    [
        (ValueError("array is too big"), "ValueError_test_fuzzing_cases_refuse", "array is too big"),
        (Finding("wrong_Relu", "y is 1"), "wrong_Relu", "y is 1"),
    ],
)
def test_the_first_finding_of_a_cause_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception, cause: str, text: str
) -> None:
    def refuse(number: int) -> str:
        if number:
            raise error
        return "ran"

    assert run_cases(refuse, keep, options(tmp_path), " of one model") == 1
    out = capsys.readouterr().out.splitlines()
    assert out[:2] == ["3 cases of one model, from 0 on", "2 finding, 1 ran"]
    (place,) = tmp_path.glob("*/")
    assert place.name.startswith(cause)
    assert out[2] == f"finding: 2 times {place.name}, see {place / 'finding.txt'}"
    assert (place / "model").read_text() == "1"
    told = (place / "finding.txt").read_text()
    assert told.startswith("case 1, model 1\n\n")
    assert text in told


def test_a_run_is_resumed_behind_the_last_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(number: int) -> str:
        return "late" if number >= 3 else "early"

    for resume in (False, True):
        assert run_cases(run, keep, options(tmp_path, resume=resume), "") == 0
    out: Any = capsys.readouterr().out.splitlines()
    assert out == ["3 cases, from 0 on", "3 early", "3 cases, from 3 on", "3 late"]
