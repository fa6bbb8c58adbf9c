"""Drivers that end or hold up their process, memory over many runs, and what a second process compiles."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Tuple

import pytest

from runtime_arm.errors import DeviceError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.gpu import devices
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.opencl.library import _RETURNS_CODE, _RETURNS_HANDLE
from runtime_arm.gpu.programs import Programs
from tests.runtime_arm.gpu.nets import X, net
from tests.support.paths import ROOT

RUN = """
import sys, numpy as np
from runtime_arm import Predictor
from runtime_arm.gpu.devices import open_device
from tests.runtime_arm.gpu.nets import X, net
with Predictor(net(), threads=1, device="opencl:0") as predictor:
    predictor.run({"x": X})
    predictor.run({"x": X})
print(open_device("opencl:0")[1].compiled)
"""


def _library(folder: Path, body: str) -> Path:
    """An OpenCL library of which the first function that is called does this."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is installed")
    names = [*_RETURNS_CODE, *_RETURNS_HANDLE]
    functions = "\n".join(f"int {name}(void) {{ {body} return 0; }}" for name in names)
    (folder / "driver.c").write_text(f"#include <stdlib.h>\n#include <unistd.h>\n{functions}\n")
    path = folder / "libOpenCL.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(path), str(folder / "driver.c")], check=True)
    return path


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("abort();", "the opencl driver ended the process that tried it: SIGABRT"),
        ("_exit(3);", "the opencl driver ended the process that tried it: exit status 3"),
        ("sleep(60);", "the opencl driver did not answer within 1 seconds"),
    ],
)
def test_a_driver_fails_in_a_child_process(tmp_path: Path, monkeypatch: Any, body: str, told: str) -> None:
    monkeypatch.setenv("ARMNET_OPENCL", str(_library(tmp_path, body)))
    monkeypatch.setattr(devices, "_probed", {})
    monkeypatch.setattr(devices, "_open", {})
    monkeypatch.setattr(devices, "PATIENCE", 1.0 if "sleep" in body else devices.PATIENCE)
    with pytest.raises(DeviceError) as caught:
        Predictor(net(), device="opencl:0")
    assert str(caught.value) == told


def test_a_library_that_is_none_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("ARMNET_OPENCL", str(tmp_path / "libOpenCL.so"))
    (tmp_path / "libOpenCL.so").write_bytes(b"not a library")
    monkeypatch.setattr(devices, "_probed", {})
    with pytest.raises(DeviceError, match="cannot load the OpenCL library that ARMNET_OPENCL names"):
        devices.probe("opencl")


def test_a_second_process_compiles_nothing(opened: Tuple[Device, Programs], tmp_path: Path) -> None:
    from device_tests.host.emulation.opencl import pocl

    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ARMNET_CACHE": str(tmp_path)}
    if not os.environ.get("ARMNET_TEST_DEVICE"):
        environment.update(pocl().environment())
    compiled = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", RUN], env=environment, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        compiled.append(int(done.stdout))
    assert compiled[0] > 5
    assert compiled[1] == 0


def _data_nbytes() -> int:
    """Memory of the process's own that it may write to; what is resident of it grows when Linux makes huge pages."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from Linux's /proc")
def test_memory_is_flat_over_a_thousand_runs(opened: Tuple[Device, Programs], monkeypatch: Any) -> None:
    monkeypatch.setattr(devices, "_open", {"opencl:0": opened})
    allocated = []
    allocate = opened[0].allocate
    monkeypatch.setattr(opened[0], "allocate", lambda nbytes: allocated.append(nbytes) or allocate(nbytes))
    with Predictor(net(), threads=1, device="opencl:0") as predictor:
        for _ in range(200):
            predictor.run({"x": X})
        before, buffers = _data_nbytes(), len(allocated)
        for _ in range(1000):
            predictor.run({"x": X})
        grown = _data_nbytes() - before
    assert buffers > 0
    assert len(allocated) == buffers
    assert grown < 1 << 20
