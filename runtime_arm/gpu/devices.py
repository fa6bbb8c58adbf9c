"""Opens the device that the user names: "opencl:0" is OpenCL's first, "cuda:0" that of CUDA's driver.

A driver that fails can end the whole process. So a child process tries each kind of device first: it lists them, and
compiles and runs a small kernel on each.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any, Dict, List, Tuple

from runtime_arm.errors import DeviceError, NoDriver, UsageError
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.programs import Programs
from runtime_arm.records import NamedTuple

KINDS = ("opencl", "cuda")
PATIENCE = 120.0  # seconds for a probe; some drivers compile slowly

_probed: Dict[str, List[Found]] = {}
_open: Dict[str, Tuple[Device, Programs]] = {}


class Found(NamedTuple):
    """A device that a probe found. ``problem``: why it cannot be used, or empty."""

    spec: str
    name: str
    driver: str
    is_cpu: bool
    unified: bool
    units: int
    group: int
    local_nbytes: int
    memory_nbytes: int
    problem: str


def parse(spec: str) -> Tuple[str, int]:
    """Kind and number of ``opencl:0``; the number may be left out. UsageError for anything else."""
    kind, _, number = str(spec).partition(":")
    if kind not in KINDS or (number and not number.isdecimal()) or str(spec).endswith(":"):
        raise UsageError(f"a device is opencl:0, opencl:1, ... or cuda:0, ...; got {spec!r}")
    return kind, int(number or 0)


def open_device(spec: str) -> Tuple[Device, Programs]:
    """The device and its programs, the same ones each time. DeviceError if it is not there or does not work."""
    kind, number = parse(spec)
    spec = f"{kind}:{number}"
    if spec not in _open:
        found = probe(kind)
        if number >= len(found):
            there = ", ".join(f"{one.spec} ({one.name})" for one in found) or "none"
            raise DeviceError(f"there is no device {spec}; this machine has {there}")
        if found[number].problem:
            raise DeviceError(
                f"{spec} ({found[number].name}, {found[number].driver}) does not work: {found[number].problem}"
            )
        device = connect(kind, number)
        _open[spec] = device, Programs(device)
    return _open[spec]


def connect(kind: str, number: int) -> Device:
    """Open a device in this process, without a probe."""
    if kind == "cuda":
        from runtime_arm.gpu.cuda.device import CudaDevice

        return CudaDevice(number)
    from runtime_arm.gpu.opencl.device import OpenCLDevice, places
    from runtime_arm.gpu.opencl.library import Library

    library = Library()
    return OpenCLDevice(library, places(library)[number], f"opencl:{number}")


def probe(kind: str) -> List[Found]:
    """The devices of a kind, tried in a child process. DeviceError if there is no library or its driver crashes."""
    if kind not in _probed:
        _probed[kind] = _probe(kind)
    return _probed[kind]


def _probe(kind: str) -> List[Found]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    command = [sys.executable, "-m", "runtime_arm.gpu.probe", kind]
    environment = {**os.environ, "PYTHONPATH": path}
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DeviceError(f"the {kind} driver did not answer within {PATIENCE:.0f} seconds") from error
    except OSError as error:
        raise DeviceError(f"the {kind} driver cannot be tried in a child process: {error}") from error
    try:
        answer: Any = json.loads(done.stdout.decode().splitlines()[-1])
    except (ValueError, IndexError):
        raise DeviceError(f"the {kind} driver ended the process that tried it: {_end_of(done)}") from None
    if "error" in answer:
        raise (DeviceError if answer["installed"] else NoDriver)(str(answer["error"]))
    return [Found(**one) for one in answer["devices"]]


def _end_of(done: subprocess.CompletedProcess[bytes]) -> str:
    """How a process ended, and its last line."""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if done.returncode < 0:
        try:
            how = signal.Signals(-done.returncode).name
        except ValueError:
            how = f"signal {-done.returncode}"
    else:
        how = f"exit status {done.returncode}"
    return ": ".join([how, *lines[-1:]])[:300]
