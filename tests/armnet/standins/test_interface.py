"""The interfaces of onnxruntime and LiteRT, check by check, with the real packages and with the stand-ins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

from tests.support.paths import ROOT

SCRIPT = Path(__file__).parent / "scripts/onnx_interface.py"


def outcome(models: Path, folder: Path, stand_in: bool) -> Dict[str, Any]:
    command = ["-m", "armnet", "exec", str(SCRIPT)] if stand_in else [str(SCRIPT)]
    done = subprocess.run(
        [sys.executable, *command, str(models)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: Dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_checks_hold_with_the_stand_in(interface_models: Path, tmp_path: Path) -> None:
    found = outcome(interface_models, tmp_path, stand_in=True)
    assert found["failed"] == {}
    assert len(found["checks"]) >= 24
    assert list(tmp_path.iterdir()) == []


def test_the_checks_hold_with_onnxruntime(interface_models: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed to compare with")
    assert outcome(interface_models, tmp_path, stand_in=False)["failed"] == {}


def test_the_documentation_lists_every_check() -> None:
    text = (ROOT / "docs/standins.md").read_text(encoding="utf-8")
    names = [line.split()[1].split("(")[0] for line in SCRIPT.read_text().splitlines() if line.startswith("def check_")]
    assert [name for name in names if f"`{name}`" not in text] == []
