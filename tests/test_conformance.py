"""scripts/conformance: its counts, and the error for unknown sets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.paths import SCRIPTS

SCRIPT = SCRIPTS / "conformance"


def run(*arguments: str) -> Any:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def test_counts_add_up_and_every_miss_has_a_reason(shared: Path) -> None:
    completed = run("--json", "caffe2_int8")
    document = json.loads(completed.stdout)
    (result,) = document["sets"]
    assert document["schema_version"] == 1
    missed = sum(count["recorded"] - count["reproduced"] for count in result["counts"].values())
    assert set(result["counts"]) == {"ok", "error", "crash"}
    assert len(result["misses"]) == missed
    assert all(miss["reason"] for miss in result["misses"])
    assert completed.returncode == (1 if missed else 0)


def test_unknown_sets_are_named() -> None:
    completed = run("caffe3")
    assert completed.returncode == 2
    assert "unknown set 'caffe3'" in completed.stderr
