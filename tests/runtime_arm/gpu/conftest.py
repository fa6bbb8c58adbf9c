"""The device of the tests: PoCL, OpenCL on the processor, unpacked and not installed.

``ARMNET_TEST_DEVICE=cuda:0`` or ``opencl:0`` runs the same tests on a device of this machine.
"""

from __future__ import annotations

import os
from typing import Tuple

import pytest

from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.opencl import pocl
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.devices import open_device
from runtime_arm.gpu.programs import Programs


@pytest.fixture(scope="session")
def opened() -> Tuple[Device, Programs]:
    chosen = os.environ.get("ARMNET_TEST_DEVICE")
    if chosen:
        return open_device(chosen)
    before = dict(os.environ)
    try:
        pocl().load()
        device = open_device("opencl:0")
    except EmulationUnavailable as error:
        pytest.skip(f"no PoCL here: {error}")
    finally:
        os.environ.clear()
        os.environ.update(before)
    assert "Portable Computing Language" in device[0].driver
    return device


@pytest.fixture
def device(opened: Tuple[Device, Programs]) -> Device:
    return opened[0]
