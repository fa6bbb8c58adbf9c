"""What the commands do with --device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest

from tests.support.paths import DEMO, ROOT

NOWHERE = "/nonexistent/libOpenCL.so.1"


def _armnet(arguments: List[str], environment: Dict[str, str]) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, "-m", "armnet", *arguments], env=env, capture_output=True, text=True)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("pairs") / "digits"
    assert _armnet(["export", str(DEMO / "digits.onnx"), "-o", str(folder)], {}).returncode == 0
    return folder


def test_without_a_driver_it_is_one_line(pair: Path) -> None:
    done = _armnet(["bench", str(pair), "--device", "opencl:0"], {"ARMNET_OPENCL": NOWHERE})
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"cannot load the OpenCL library that ARMNET_OPENCL names: {NOWHERE}" in done.stderr


def test_a_device_that_is_not_one_is_one_line(pair: Path) -> None:
    done = _armnet(["profile", str(pair), "--device", "gpu"], {})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "a device is opencl:0, opencl:1, ... or cuda:0" in done.stderr


def test_half_alone_is_refused(pair: Path) -> None:
    done = _armnet(["bench", str(pair), "--half"], {})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "name one with device=" in done.stderr


def test_a_start_without_a_device_imports_nothing_of_it(pair: Path) -> None:
    code = (
        "import sys, numpy, runtime_arm; p = runtime_arm.load(sys.argv[1]); "
        "p.run({i.name: i.example() for i in p.inputs}); "
        "sys.exit(any(name.startswith('runtime_arm.gpu') for name in sys.modules))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run([sys.executable, "-c", code, str(pair)], env=env).returncode == 0
