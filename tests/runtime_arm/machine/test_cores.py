"""How many cores are used by default: all, unless slow cores would delay fast ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import List

import pytest

from runtime_arm.machine.cores import useful_cores


def machine(root: Path, monkeypatch: pytest.MonkeyPatch, capacities: List[str]) -> Path:
    for core, capacity in enumerate(capacities):
        folder = root / f"sys/devices/system/cpu/cpu{core}"
        folder.mkdir(parents=True)
        if capacity:
            (folder / "cpu_capacity").write_text(capacity + "\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(len(capacities))), raising=False)
    return root


@pytest.mark.parametrize(
    ("capacities", "expected"),
    [
        (["1024"] * 4, 4),
        (["1024"], 1),
        (["400"] * 4 + ["1024"] * 4, 4),
        (["600"] * 4 + ["1024"] * 4, 8),
        (["300"] * 4 + ["800"] * 3 + ["1024"], 4),
        (["1024", "300"], 1),
        (["1024", "512"], 2),
        (["", "1024"], 2),
        (["many", "1024", "1024"], 3),
        (["0", "1024", "1024"], 3),
        ([""] * 6, 6),
    ],
)
def test_as_many_cores_as_are_fastest_together(
    capacities: List[str], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert useful_cores(machine(tmp_path, monkeypatch, capacities)) == expected


def test_only_the_cores_that_the_process_may_use_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = machine(tmp_path, monkeypatch, ["1024", "300", "300", "300"])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 2, 3})
    assert useful_cores(root) == 3


def test_systems_without_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert useful_cores() == 5
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert useful_cores() == 1
