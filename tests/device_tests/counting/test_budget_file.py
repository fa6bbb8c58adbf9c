"""Budget files: what they say, and that processes that write one do not lose each other's numbers."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from device_tests.host.counting.budget_file import Measured, compared, update
from runtime_arm.errors import FormatError, UsageError

FOUND = Measured("pi", {"weights": 1000, "arena": 500})


def test_memory_may_grow_by_two_per_cent(tmp_path: Path) -> None:
    path = tmp_path / "new" / "model.json"
    update(path, FOUND)
    assert compared(path, FOUND._replace(memory={"weights": 1000, "arena": 529}), "-u").excesses == []
    (line,) = compared(path, FOUND._replace(memory={"weights": 1000, "arena": 532}), "-u").excesses
    assert line == "the memory: 1,500 bytes allowed, 1,532 needed (weights 1,000 -> 1,000, arena 500 -> 532)"


def test_a_machine_without_a_budget_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    for _ in range(2):
        with pytest.raises(UsageError, match=r"model\.json: no budget for pi; -u writes one"):
            compared(path, FOUND, "-u")
        update(path, FOUND._replace(machine="other"))


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 2, "machines": {}}', '{"schema": 1}'])
def test_a_file_that_is_none_is_refused_and_kept(text: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    for attempt in (lambda: compared(path, FOUND, "-u"), lambda: update(path, FOUND)):
        with pytest.raises(FormatError, match=r"model\.json: is no budget file"):
            attempt()
    assert path.read_text() == text


def test_a_damaged_entry_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"schema": 1, "machines": {"pi": {"memory": 3}}}))
    with pytest.raises(FormatError, match="the budget for pi is damaged"):
        compared(path, FOUND, "-u")


def _written(task: tuple[Path, int]) -> None:
    path, number = task
    update(path, FOUND._replace(machine=f"machine {number}"))


def test_processes_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(_written, [(path, number) for number in range(12)], chunksize=1)
    assert len(json.loads(path.read_text())["machines"]) == 12
