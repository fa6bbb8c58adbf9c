"""Targets on this computer: its own Python, and emulated machines, each in a temporary folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

from device_tests.host.emulation.machine import Machine, emulated, environment, run_group
from device_tests.host.emulation.opencl import pocl, with_pocl
from device_tests.host.targets.target import Completed, Files, OnLine, Target

Runner = Callable[[List[str], float, Path, Optional[OnLine]], "subprocess.CompletedProcess[str]"]


class FolderTarget(Target):
    """A target whose folder is on this computer.

    runner: ``runner(arguments, timeout, folder, on_line)`` runs its Python in the folder.
    """

    def __init__(self, name: str, runner: Runner):
        super().__init__(name)
        self._runner = runner
        self._folder: Optional[Path] = None

    def open(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="armnet-device-"))

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def deploy(self, files: Files) -> None:
        try:
            for name, source in files.items():
                copy = self.folder / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy)
        except OSError as error:
            raise self.error(f"cannot copy there: {error}") from None

    def fetch(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise self.error(f"{name}: {error.strerror}") from None

    def _execute(self, arguments: Sequence[str], timeout: float, on_line: Optional[OnLine]) -> Completed:
        try:
            done = self._runner(list(arguments), timeout, self.folder, on_line)
        except subprocess.TimeoutExpired:
            raise self.error(f"not finished after {timeout:g} s; stopped") from None
        return Completed(done.returncode, done.stdout, done.stderr)

    @property
    def folder(self) -> Path:
        """The folder, while the target is open."""
        assert self._folder is not None, f"{self.name} is not open"
        return self._folder


def _temporary(folder: Path) -> Dict[str, str]:
    """Puts temporary files and what bundles keep into the target's folder, so that they are removed with it."""
    return {"TMPDIR": str(folder), "ARMNET_CACHE": str(folder / ".cache")}


def local(with_driver: bool = False) -> FolderTarget:
    """This machine and this Python. with_driver: with PoCL as its driver of OpenCL."""
    driver = pocl().environment() if with_driver else {}
    return FolderTarget(
        "local",
        lambda arguments, timeout, folder, on_line: run_group(
            [sys.executable, *arguments], timeout, environment({**_temporary(folder), **driver}), folder, on_line
        ),
    )


def emulated_target(name: str, architecture: str, cpu: Optional[str] = None, with_driver: bool = False) -> FolderTarget:
    """An emulated machine, prepared on first use; EmulationUnavailable if it cannot be prepared.

    with_driver: with PoCL as its driver of OpenCL.
    """
    machine = emulated(architecture, cpu)
    return machine_target(name, with_pocl(machine) if with_driver else machine)


def machine_target(name: str, machine: Machine) -> FolderTarget:
    """An emulated machine that is prepared already."""
    return FolderTarget(
        name,
        lambda arguments, timeout, folder, on_line: machine.run(
            arguments, timeout, _temporary(folder), folder, on_line
        ),
    )
