"""The device of a test: its name, whether it can be used, and what it measures."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, List, NamedTuple, NoReturn, Optional, Sequence, Union

import pytest

from armnet.opening import pair_folder
from armnet.pytest_plugin.common import UPDATE, record
from device_tests.host.counting.budget_file import Measured, measured
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.machine import CPUS, Machine, emulated
from device_tests.host.targets.factory import known_targets, target_of
from device_tests.host.targets.folder import machine_target
from device_tests.host.targets.ssh import parse_address
from device_tests.host.targets.target import DeviceError, Target
from runtime_arm.errors import MissingDependency, UsageError
from runtime_arm.files import AnyPath


def files_of(model: Union[AnyPath, Sequence[AnyPath]]) -> List[AnyPath]:
    """The files of a model, or its folder."""
    return [model] if isinstance(model, (str, os.PathLike)) else list(model)


class Readiness(NamedTuple):
    """Whether a device can be used. machine: of an emulated device; missing: what it lacks, or ""."""

    machine: Optional[Machine] = None
    missing: str = ""


def check_name(name: str) -> None:
    """UsageError if no device has this name. Nothing is prepared or reached."""
    kind, _, rest = name.partition(":")
    if kind == "ssh":
        parse_address(name)
        return
    architecture, _, cpu = rest.partition(":")
    is_emulated = kind == "emulated" and cpu in ("", *CPUS.get(architecture, ())) and architecture in CPUS
    if name != "local" and not is_emulated:
        usable = [row[0] for row in known_targets() if not row[0].startswith("full-system")]
        raise UsageError(f"no device {name!r}; there are {', '.join(usable)}")


def readiness(name: str) -> Readiness:
    """Prepares an emulated machine, or reaches a machine over ssh."""
    kind, _, rest = name.partition(":")
    try:
        if kind == "emulated":
            architecture, _, cpu = rest.partition(":")
            return Readiness(emulated(architecture, cpu or None))
        if kind == "ssh":
            with target_of(name):
                return Readiness()
    except (EmulationUnavailable, DeviceError) as error:
        return Readiness(missing=str(error))
    return Readiness()


class Device:
    """A device of a test run, as one test uses it.

    name: as ``armnet device list`` has it. machine: the emulated machine, None for another device.
    """

    def __init__(self, name: str, ready: Readiness, item: pytest.Item):
        self.name = name
        self.machine = ready.machine
        self._missing, self._item = ready.missing, item

    def __repr__(self) -> str:
        return f"Device({self.name!r})"

    @property
    def updates_budgets(self) -> bool:
        """Whether budget files are to be written."""
        return bool(self._item.config.getoption(UPDATE))

    def budget_file(self, model: Union[AnyPath, Sequence[AnyPath]]) -> Path:
        """The budget file of a model, unless the test names another."""
        folder = self._item.config.rootpath / str(self._item.config.getini("armnet_budgets"))
        return folder / f"{Path(files_of(model)[0]).stem}.json"

    def target(self) -> Target:
        """The machine, to be opened, with an empty folder of its own."""
        return target_of(self.name) if self.machine is None else machine_target(self.name, self.machine)

    def measured(self, model: Union[AnyPath, Sequence[AnyPath]], counted: bool = True) -> Measured:
        """The memory of a model here; its instructions, too, if they are to be counted and the machine is emulated."""
        with self.or_skip(), pair_folder(model) as pair, self.target() as target:
            return measured(target, pair, self.machine if counted else None)

    def record(self, name: str, value: Any) -> None:
        """Adds a fact to the test's report."""
        record(self._item, name, value)

    def require_ready(self) -> None:
        """Skips the test if the device cannot be used."""
        if self._missing:
            self.lacks(self._missing)

    def lacks(self, reason: str) -> NoReturn:
        """Skips the test, or fails it under --armnet-strict, for what is missing."""
        text = reason if self.name in reason else f"{self.name}: {reason}"
        if self._item.config.getoption("--armnet-strict"):
            pytest.fail(f"{text} (--armnet-strict)", pytrace=False)
        pytest.skip(text)

    @contextmanager
    def or_skip(self) -> Iterator[None]:
        """Skips the test if the block lacks a package or a tool."""
        try:
            yield
        except (EmulationUnavailable, MissingDependency) as error:
            self.lacks(str(error))
