"""Tries the devices of one kind; run by ``devices.py`` in a child process, which a failing driver may end.

It prints one line of JSON: {"devices": [...]} or {"error": "..."}.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Dict

import numpy as np

from runtime_arm.errors import ArmnetError, NoDriver
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.devices import connect
from runtime_arm.gpu.programs import Programs

COUNT = 256


def count_of(kind: str) -> int:
    """How many devices of a kind there are."""
    if kind == "cuda":
        from runtime_arm.gpu.cuda.device import device_count

        return device_count()
    from runtime_arm.gpu.opencl.device import places
    from runtime_arm.gpu.opencl.library import Library

    return len(places(Library()))


def try_out(device: Device) -> str:
    """Why the device cannot be used, or an empty string: it copies, compiles, runs and copies back."""
    try:
        x = np.arange(COUNT, dtype=np.float32)
        y = np.full(COUNT, np.nan, np.float32)
        here, there = device.allocate(x.nbytes), device.allocate(x.nbytes)
        device.upload(here, x)
        program = Programs(device).get("elementwise", {"HALF": 0, "ACTIVATE1(x, p)": "((x) * 2.0f)"})
        device.prepare(program, "unary", (COUNT, 1, 1), (64, 1, 1), [here, there, COUNT, 0, 1, 1]).enqueue()
        device.download(there, y)
    except ArmnetError as error:
        return str(error)
    return "" if np.array_equal(y, x * 2) else "it computes 2 x wrongly"


def describe(kind: str, number: int) -> Dict[str, Any]:
    """The fields of a Found."""
    try:
        device = connect(kind, number)
    except ArmnetError as error:
        nothing = {"name": "unknown", "driver": "unknown", "is_cpu": False, "unified": False}
        limits = {"units": 0, "group": 0, "local_nbytes": 0, "memory_nbytes": 0}
        return {"spec": f"{kind}:{number}", **nothing, **limits, "problem": str(error)}
    return {
        "spec": device.spec,
        "name": device.name,
        "driver": device.driver,
        "is_cpu": device.is_cpu,
        "unified": device.unified,
        "units": device.units,
        "group": device.limits.group,
        "local_nbytes": device.limits.local_nbytes,
        "memory_nbytes": device.limits.memory_nbytes,
        "problem": try_out(device),
    }


def main(kind: str) -> None:
    try:
        answer: Dict[str, Any] = {"devices": [describe(kind, number) for number in range(count_of(kind))]}
    except ArmnetError as error:
        answer = {"error": str(error), "installed": not isinstance(error, NoDriver)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
