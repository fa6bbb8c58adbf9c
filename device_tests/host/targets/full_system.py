"""A whole emulated computer as a target. It boots for every run, so no run leaves files to fetch."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Dict, Optional, Sequence

from device_tests.host.emulation.full_system import full_system
from device_tests.host.targets.target import Completed, Files, OnLine, Target

FOLDER = "/armnet"
MEMORY_MIB = 1024


class FullSystemTarget(Target):
    """Files are copied when it boots. Both outputs of a program arrive together at its end, in ``stdout``."""

    def open(self) -> None:
        self._computer = full_system()
        self._files: Dict[str, Path] = {}

    def close(self) -> None:
        self._files = {}

    def deploy(self, files: Files) -> None:
        self._files.update(files)

    def fetch(self, name: str) -> bytes:
        raise self.error(f"{name} cannot be fetched: this target is switched off after each run")

    def _execute(self, arguments: Sequence[str], timeout: float, on_line: Optional[OnLine]) -> Completed:
        copies = {f"{FOLDER}/{name}": path for name, path in self._files.items()}
        try:
            done = self._computer.run(arguments, timeout, copies=copies, directory=FOLDER, memory_mib=MEMORY_MIB)
        except subprocess.TimeoutExpired:
            raise self.error(f"not finished after {timeout:g} s; switched off") from None
        return Completed(done.returncode, done.stdout, "")
