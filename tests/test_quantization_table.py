"""scripts/quantization_table: the figures of the digits, and that it goes on where it was stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import SCRIPTS


def run(csv: Path, *arguments: str) -> Any:
    command = [sys.executable, str(SCRIPTS / "quantization_table"), "demo/digits", "--csv", str(csv), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_figures_of_the_digits(tmp_path: Path, shared: Path) -> None:
    for package in ("onnxruntime", "onnx"):
        pytest.importorskip(package, reason=f"{package} is not installed to compare with")
    csv = tmp_path / "found.csv"
    done = run(csv, "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["networks"]
    assert row["full same"] == row["int8 same"] == 1
    assert row["full dB"] > row["onnxruntime dB"] > 30
    assert row["int8"] > 3.88
    assert row["int8 zip"] > 4 > row["int8 zips"] > row["int8 folder"] > 3.7
    csv.write_text(csv.read_text().replace("digits,digits", "digits,kept"))
    assert "kept" in run(csv).stdout, "what is in the file is not measured again"
