"""Emulated machines for the tests of this folder. Where they are unavailable, a test is skipped with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from device_tests.host.counting.regions import counting_plugin
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.machine import CPUS, Machine, emulated


def _machine(architecture: str, cpu: str) -> Machine:
    try:
        return emulated(architecture, cpu)
    except EmulationUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session", params=[(name, cpu) for name, cpus in CPUS.items() for cpu in cpus], ids="-".join)
def machine(request: pytest.FixtureRequest) -> Machine:
    """Each emulated machine in turn."""
    return _machine(*request.param)


@pytest.fixture(scope="session")
def arm64() -> Machine:
    return _machine("arm64", "cortex-a72")


@pytest.fixture(scope="session")
def armhf() -> Machine:
    return _machine("armhf", "cortex-a7")


@pytest.fixture(scope="session")
def counting() -> Path:
    """The counting plugin, for tests that count instructions."""
    try:
        return counting_plugin()
    except EmulationUnavailable as error:
        pytest.skip(str(error))
