"""scripts/memory_table: its figures are consistent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.paths import SCRIPTS

SCRIPT = SCRIPTS / "memory_table"


def run(*arguments: str) -> Any:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def test_figures_are_consistent(shared: Path) -> None:
    completed = run("--json", "squeezenet", "unet")
    assert completed.returncode == 0, completed.stderr
    document = json.loads(completed.stdout)
    assert document["schema_version"] == 1
    assert [row["network"] for row in document["networks"]] == ["squeezenet", "unet"]
    for row in document["networks"]:
        assert row["bound"] <= row["arena"] <= row["live"] <= row["by_name"] <= row["caffe2"] < row["before"]
        assert row["total"] == row["arena"] + row["scratch"]


def test_unknown_networks_are_named() -> None:
    completed = run("alexnet")
    assert completed.returncode == 2
    assert "unknown network 'alexnet'" in completed.stderr
