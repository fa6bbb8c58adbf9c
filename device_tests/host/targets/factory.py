"""Targets: the machines that a suite or a network can be sent to, behind one small interface.

    with target_of("emulated:armhf") as target:            # makes a folder there
        target.deploy({"runtime_arm/__init__.py": path})
        target.run(["-c", "import runtime_arm"]).returncode
    # and here nothing of it is left

``local``                       this machine and this Python
``emulated:arm64[:CPU]``        an emulated machine, prepared if it was not; ``emulated:armhf`` likewise
``ssh://[USER@]HOST[:PORT]``    a machine with an ssh server, Python and NumPy; HOST may be an alias of ssh's
``full-system:arm64``           a whole emulated computer, booted for each run
"""

from __future__ import annotations

import abc
import json
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Type

from runtime_arm.errors import ArmnetError, UsageError

Files = Mapping[str, Path]  # files of this machine by their path in the target's folder

TIMEOUT = 900.0  # seconds that one run may take


class DeviceError(ArmnetError):
    """A target that cannot be reached, refuses, or does not last; the message names it."""


class Completed(NamedTuple):
    """How a run of the target's Python ended."""

    returncode: int
    stdout: str
    stderr: str


class Target(abc.ABC):
    """A machine that runs Python. Entering makes a folder on it, leaving removes it and ends what still runs there.

    name: as the user writes it. Every failure of the machine or the way to it is a DeviceError of one line.
    """

    def __init__(self, name: str):
        self.name = name

    @abc.abstractmethod
    def open(self) -> None:
        """Makes the folder."""

    @abc.abstractmethod
    def close(self) -> None:
        """Removes the folder with all that is in it. Never raises; closing twice does nothing."""

    @abc.abstractmethod
    def deploy(self, files: Files) -> None:
        """Copies files into the folder, whose subfolders are made as needed."""

    @abc.abstractmethod
    def fetch(self, name: str) -> bytes:
        """The content of a file in the folder."""

    @abc.abstractmethod
    def _execute(self, arguments: Sequence[str], timeout: float) -> Completed:
        """Runs the target's Python in the folder, whatever its exit status; negative if a signal ended it."""

    def run(self, arguments: Sequence[str], timeout: float = TIMEOUT) -> Completed:
        """Runs the target's Python in the folder, which is where it finds modules first, to its end."""
        done = self._execute(arguments, timeout)
        if done.returncode < 0 or done.returncode == 137:
            reason = f"was killed there by signal {-done.returncode if done.returncode < 0 else 9}"
            raise self.error(f"Python {reason}, as Linux does where memory runs out")
        return done

    def output(self, arguments: Sequence[str], timeout: float = TIMEOUT) -> str:
        """The stdout of a run that succeeds; DeviceError with its last words otherwise."""
        done = self.run(arguments, timeout)
        if done.returncode:
            raise self.error(last_line(done.stderr or done.stdout) or f"exit status {done.returncode}")
        return done.stdout

    def identity(self) -> Dict[str, Any]:
        """What the machine is, see ``runtime_arm.machine.identity``; the runtime must have been deployed."""
        identity: Dict[str, Any] = json.loads(self.output(["-m", "runtime_arm.machine.identity"]))
        return identity

    def error(self, problem: str) -> DeviceError:
        return DeviceError(f"{self.name}: {problem}")

    def __enter__(self) -> Target:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


def last_line(text: str) -> str:
    """The last line that is not blank, "" if there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def target_of(name: str, python: str = "python3") -> Target:
    """The target of that name. UsageError if no target is called so. ``python``: the program to run over ssh."""
    kind, _, rest = name.partition(":")
    if name == "local":
        from device_tests.host.targets.folder import local

        return local()
    if kind == "emulated":
        from device_tests.host.targets.folder import emulated_target

        return emulated_target(name, *rest.split(":", 1))
    if kind == "ssh":
        from device_tests.host.targets.ssh import SshTarget

        return SshTarget(name, python)
    if name == "full-system:arm64":
        from device_tests.host.targets.full_system import FullSystemTarget

        return FullSystemTarget(name)
    raise UsageError(f"no target {name!r}; there are {', '.join(row[0] for row in known_targets())}")


def known_targets() -> List[List[str]]:
    """Name and description of every kind of target."""
    from device_tests.host.emulation.machine import CPUS

    rows = [["local", "this machine, this Python"]]
    for architecture, cpus in CPUS.items():
        for index, cpu in enumerate(cpus):
            name = f"emulated:{architecture}" + (f":{cpu}" if index else "")
            rows.append([name, f"emulated {cpu}"])
    rows.append(["full-system:arm64", "an emulated computer that boots Debian's kernel (tests only)"])
    rows.append(["ssh://[USER@]HOST[:PORT]", "a machine over ssh: Raspberry Pi, Termux (port 8022), ..."])
    return rows
