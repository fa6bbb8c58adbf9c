"""Oclgrind, a second implementation of OpenCL, finds neither races nor bad accesses in the kernels.

It interprets kernels in a child process; what it finds it writes to a log.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Tuple

import pytest

from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.opencl import oclgrind
from tests.support.paths import ROOT

PLANTED = """
import sys, numpy as np
from runtime_arm.gpu.devices import connect
device = connect("opencl", 0)
assert "Oclgrind" in device.driver, device.driver
y = device.allocate(64)
device.upload(y, np.zeros(16, np.float32))
program, _ = device.compile("__kernel void planted(__global float *y) { const int i = get_global_id(0); %s }")
device.prepare(program, "planted", (16, 1, 1), (8, 1, 1), [y]).enqueue()
device.finish()
"""
HERE = "tests/runtime_arm/gpu"
TESTS = (f"{HERE}/test_kernels.py", f"{HERE}/test_placement.py::test_the_device_runs_what_it_can_in_islands")


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    try:
        found = oclgrind().environment()
    except EmulationUnavailable as error:
        pytest.skip(f"no Oclgrind here: {error}")
    checks = {"OCLGRIND_DATA_RACES": "1", "OCLGRIND_CHECK_API": "1"}
    return {**os.environ, **found, **checks, "PYTHONPATH": str(ROOT), "ARMNET_TEST_DEVICE": "opencl:0"}


def _checked(environment: dict[str, str], folder: Path, *arguments: str) -> Tuple[str, str]:
    """What a child process prints, and what Oclgrind finds in it."""
    log = folder / "log"
    child = {**environment, "OCLGRIND_LOG": str(log), "ARMNET_CACHE": str(folder)}
    done = subprocess.run([sys.executable, *arguments], env=child, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, log.read_text()


def test_no_kernel_races_or_leaves_its_buffers(environment: dict[str, str], tmp_path: Path) -> None:
    """The whole suite of kernels and a net in islands compute the same on this implementation."""
    printed, found = _checked(environment, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS)
    assert "passed" in printed
    assert "skipped" not in printed
    assert found == ""


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        ("y[i] = i;", ""),
        ("y[0] = i;", "Write-write data race"),
        ("y[i] = y[(i + 1) % 16];", "Read-write data race"),
        ("y[i + 1] = i;", "Invalid write of size 4"),
        ("y[i] = y[i - 1];", "Invalid read of size 4"),
    ],
)
def test_oclgrind_finds_what_is_planted(environment: dict[str, str], tmp_path: Path, kernel: str, found: str) -> None:
    _, log = _checked(environment, tmp_path, "-c", PLANTED % kernel)
    assert (found in log) if found else log == ""
