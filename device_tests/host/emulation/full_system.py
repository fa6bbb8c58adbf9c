"""A whole emulated computer: Debian's arm64 kernel on QEMU's ``virt`` board, with the root directory in memory.

    full_system().run(["-c", "import numpy; print(numpy.__version__)"]).stdout

It is as close as emulation gets to a real machine: it has its own kernel, page tables, memory limit and cores. It
boots into Python in about five seconds and is two to six times slower than ``emulated``. Programs see only those files
of the host that are copied in.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional, Sequence

from device_tests.host.emulation.apt import download_kernel, host_architecture
from device_tests.host.emulation.cache import built, locked, progress
from device_tests.host.emulation.initramfs import InitramfsWriter
from device_tests.host.emulation.machine import environment, prepared_archives, prepared_sysroot, run_group
from device_tests.host.emulation.sysroot import build_qemu, qemu_command, unpack_files
from device_tests.host.emulation.tools import require_tools
from runtime_arm.errors import ArmnetError
from runtime_arm.machine.cache import cache_root

RECIPE = 1  # raise it when what the functions build changes
QEMU_PACKAGES = ("qemu-system-arm",)
QEMU_PROGRAM = "qemu-system-aarch64"
END_MARK = "armnet: the program ended with exit status"
INIT = Path(__file__).with_name("full_system_init.py")


class SystemDiedError(ArmnetError):
    """The emulated computer stopped before its program ended, as happens when memory runs out."""


@dataclass(frozen=True)
class FullSystem:
    """An emulated computer, which is off until ``run`` boots it."""

    kernel: Path
    sysroot: Path
    qemu: Path

    def run(
        self,
        arguments: Sequence[str],
        timeout: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
        copies: Optional[Mapping[str, Path]] = None,
        directory: str = "/",
        cpu: str = "cortex-a72",
        cpus: int = 2,
        memory_mib: int = 1024,
    ) -> subprocess.CompletedProcess[str]:
        """Boots, runs Python with these arguments and switches off. Both outputs of Python are in ``stdout``.

        copies: files and folders of the host, by their absolute paths on the computer. memory_mib: 600 or more, of
        which the root directory takes 160. After ``timeout`` seconds it is killed: subprocess.TimeoutExpired.
        """
        task = {
            "arguments": list(arguments),
            "environment": environment(env),
            "directory": directory,
            "end_mark": END_MARK,
        }
        with tempfile.TemporaryDirectory(prefix="armnet-boot-") as scratch:
            initramfs = Path(scratch, "initramfs")
            self._write_initramfs(initramfs, json.dumps(task), copies or {})
            command = [
                *qemu_command(self.qemu, QEMU_PROGRAM),
                *("-M", "virt", "-cpu", cpu, "-smp", str(cpus), "-m", str(memory_mib)),
                *("-nographic", "-no-reboot", "-nic", "none"),
                *("-kernel", str(self.kernel), "-initrd", str(initramfs)),
                *("-append", "console=ttyAMA0 quiet loglevel=0 panic=-1"),
            ]
            done = run_group(command, timeout, environment(), None)
        return _result(list(arguments), done)

    def _write_initramfs(self, path: Path, task: str, copies: Mapping[str, Path]) -> None:
        with path.open("wb") as file, InitramfsWriter(file) as archive:
            archive.add_tree("", self.sysroot)
            for name, source in copies.items():
                archive.add_folders_above(name.lstrip("/"))
                archive.add_tree(name.lstrip("/"), source)
            archive.add_program("init", f"#!/usr/bin/python3\n{INIT.read_text()}")
            archive.add_program("task.json", task)


def full_system() -> FullSystem:
    """The arm64 computer, prepared on first use; EmulationUnavailable if it cannot be prepared."""
    cache = cache_root()
    with locked(cache):
        return FullSystem(_kernel(cache) / "vmlinuz", prepared_sysroot(cache, "arm64"), _qemu(cache))


def _qemu(cache: Path) -> Path:
    def build(folder: Path) -> None:
        require_tools()
        archives = prepared_archives(cache, QEMU_PACKAGES, host_architecture(), "qemu-system")
        build_qemu(archives, folder, [QEMU_PROGRAM])

    return built(cache / "qemu-system", [RECIPE, QEMU_PACKAGES], build)


def _kernel(cache: Path) -> Path:
    def build(folder: Path) -> None:
        download_kernel("arm64", folder)
        progress("unpacking the kernel")
        (archive,) = folder.glob("*.deb")
        unpack_files(archive, "./boot/vmlinuz-*", folder)
        (kernel,) = folder.glob("boot/vmlinuz-*")
        kernel.rename(folder / "vmlinuz")
        archive.unlink()

    return built(cache / "kernel", [RECIPE], build)


def _result(arguments: Sequence[str], done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """The program's output and exit status, taken from the console's text."""
    console = done.stdout.replace("\r\n", "\n")
    output, mark, status = console.rpartition(f"\n{END_MARK} ")
    if not mark:
        lines = f"{done.stderr}\n{console}".split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "too little memory to boot")
        raise SystemDiedError(f"the emulated system stopped before {' '.join(arguments)} ended: {last}")
    return subprocess.CompletedProcess(arguments, int(status.split()[0]), output, "")
