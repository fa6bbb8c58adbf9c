"""Emulated ARM machines: QEMU's user mode with an unpacked root directory, prepared once in a cache.

    machine = emulated("arm64", cpu="cortex-a72")
    machine.run(["-c", "import platform; print(platform.machine())"]).stdout     # 'aarch64\\n'

``armnet device prepare`` prepares them ahead of time.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from device_tests.host.emulation.apt import download_packages, host_architecture
from device_tests.host.emulation.cache import EmulationUnavailable, built, locked, progress
from device_tests.host.emulation.images import sysroot_archive, unpack_archive
from device_tests.host.emulation.sysroot import (
    PYTHON_PACKAGES,
    QEMU_PACKAGES,
    build_qemu,
    build_sysroot,
    compile_bytecode,
    prefer_openblas,
    python_version,
    qemu_command,
)
from device_tests.host.emulation.tools import require_tools
from runtime_arm.errors import UsageError
from runtime_arm.machine.cache import cache_root

__all__ = ["CPUS", "EmulationUnavailable", "Machine", "emulated", "machine_with", "with_variables"]

RECIPE = 1  # raise it when what the functions build changes
QEMU_PROGRAMS = {"arm64": "qemu-aarch64", "armhf": "qemu-arm"}

_A64_FEATURES = "fp asimd aes pmull sha1 sha2 crc32 cpuid"
_A32_FEATURES = "half thumb fastmult vfp edsp neon vfpv3 tls vfpv4 idiva idivt vfpd32 lpae"

# QEMU's CPU models by architecture, each with its entries in /proc/cpuinfo: implementer, architecture, variant, part,
# revision, features. The first is the default. Cortex-A53 is a Raspberry Pi 3's, A72 a Pi 4's, A7 a Pi 2's.
CPUS: Dict[str, Dict[str, Sequence[str]]] = {
    "arm64": {
        "cortex-a72": ("0x41", "8", "0x0", "0xd08", "3", _A64_FEATURES),
        "cortex-a53": ("0x41", "8", "0x0", "0xd03", "4", _A64_FEATURES),
        "max": ("0x00", "8", "0x0", "0x051", "0", f"{_A64_FEATURES} atomics fphp asimdhp asimdrdm asimddp sve"),
    },
    "armhf": {"cortex-a7": ("0x41", "7", "0x0", "0xc07", "5", _A32_FEATURES)},
}


@dataclass(frozen=True)
class Machine:
    """An emulated machine. ``root`` is its root directory, ``python`` an executable file that starts its Python.

    variables: the environment variables that its programs see besides those that they are given.
    """

    architecture: str
    cpu: str
    root: Path
    qemu: Path
    python_version: str
    variables: Tuple[Tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.architecture}-{self.cpu}"

    @property
    def python(self) -> Path:
        return self.root / "python"

    def command(self, qemu_options: Sequence[str] = ()) -> List[str]:
        """The command that starts the machine's Python; arguments for Python may follow it. qemu_options: for QEMU.

        Python takes the file ``python`` to be its executable, so that subprocess and multiprocessing work.
        """
        return [
            *qemu_command(self.qemu, QEMU_PROGRAMS[self.architecture]),
            *("-cpu", self.cpu, "-L", str(self.root), "-0", str(self.python)),
            *("-E", f"PYTHONHOME={self.root}/usr", "-E", "PYTHONNOUSERSITE=1"),
            *("-U", "LD_PRELOAD", "-U", "LD_LIBRARY_PATH"),
            *(word for name, value in self.variables for word in ("-E", f"{name}={value}")),
            *qemu_options,
            str(self.root / "usr/bin" / f"python{self.python_version}"),
        ]

    def run(
        self,
        arguments: Sequence[str],
        timeout: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[Path] = None,
        on_line: Optional[Callable[[str], None]] = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs the machine's Python to its end; any exit status is returned. ``env`` is added to ``environment()``.

        After ``timeout`` seconds it is killed with all its children: subprocess.TimeoutExpired. on_line: see
        ``run_group``.
        """
        return run_group([str(self.python), *arguments], timeout, environment(env), cwd, on_line)


def environment(extra: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """The environment of a program on an emulated machine, the same on every host, with ``extra``.

    It has no home, and even root cannot make one: files that one program leaves must not affect the next.
    """
    return {"PATH": "/usr/bin:/bin", "HOME": "/dev/null", "LC_ALL": "C.UTF-8", **(extra or {})}


def run_group(
    command: Sequence[str],
    timeout: Optional[float],
    env: Mapping[str, str],
    cwd: Optional[Path],
    on_line: Optional[Callable[[str], None]] = None,
) -> subprocess.CompletedProcess[str]:
    """subprocess.run with captured text, which after ``timeout`` kills the children of the program, too.

    on_line: called with each line of stderr as soon as it is written, from another thread.
    """
    lines: List[str] = []

    def listen(stream: IO[str]) -> None:
        with stream:
            for line in stream:
                lines.append(line)
                if on_line is not None:
                    on_line(line)

    with subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        listener = threading.Thread(target=listen, args=(process.stderr,), daemon=True)
        listener.start()
        process.stderr = None  # communicate would read it, too
        try:
            stdout, _ = process.communicate(timeout=timeout)
            listener.join(timeout)
            if timeout is not None and listener.is_alive():
                raise subprocess.TimeoutExpired(command, timeout)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, "".join(lines))


def emulated(architecture: str, cpu: Optional[str] = None) -> Machine:
    """The machine of an architecture and CPU model, prepared on first use; EmulationUnavailable if it cannot be."""
    if architecture not in CPUS:
        raise UsageError(f"no emulated architecture {architecture!r}; there are {', '.join(CPUS)}")
    cpu = cpu or next(iter(CPUS[architecture]))
    if cpu not in CPUS[architecture]:
        raise UsageError(f"no emulated CPU {cpu!r} of {architecture}; there are {', '.join(CPUS[architecture])}")
    cache = cache_root()
    with locked(cache):
        qemu, sysroot = _qemu(cache), prepared_sysroot(cache, architecture)
        root = cache / "machine" / f"{architecture}-{cpu}"
        return _furnished(Machine(architecture, cpu, root, qemu, python_version(sysroot)), sysroot)


def machine_with(cpu: str) -> Machine:
    """The machine with a CPU model, as ``emulated`` prepares it."""
    for architecture, cpus in CPUS.items():
        if cpu in cpus:
            return emulated(architecture, cpu)
    raise UsageError(f"no emulated CPU {cpu!r}; there are {', '.join(cpu for cpus in CPUS.values() for cpu in cpus)}")


def prepared_archives(cache: Path, packages: Sequence[str], architecture: str, name: str) -> Path:
    """The packages and their dependencies. They are kept, so that a damaged machine is rebuilt without a network."""
    return built(
        cache / "packages" / name,
        [RECIPE, architecture, list(packages)],
        lambda folder: download_packages(packages, architecture, folder),
    )


def _qemu(cache: Path) -> Path:
    """QEMU: the host's own if root directories come from archives and it is installed, else from packages."""
    own = {program: shutil.which(program) or shutil.which(f"{program}-static") for program in QEMU_PROGRAMS.values()}

    def build(folder: Path) -> None:
        require_tools()
        archives = prepared_archives(cache, QEMU_PACKAGES, host_architecture(), "qemu")
        build_qemu(archives, folder, list(QEMU_PROGRAMS.values()))

    def link(folder: Path) -> None:
        (folder / "usr/bin").mkdir(parents=True)
        for program, path in own.items():
            (folder / "usr/bin" / program).symlink_to(str(path))

    if "ARMNET_SYSROOTS" in os.environ and all(own.values()):
        return built(cache / "qemu", [RECIPE, own], link)
    return built(cache / "qemu", [RECIPE, QEMU_PACKAGES, QEMU_PROGRAMS], build)


def prepared_sysroot(cache: Path, architecture: str) -> Path:
    """The root directory that the machines of an architecture share, prepared on first use. Call under ``locked``."""
    qemu = _qemu(cache)
    archive = sysroot_archive(architecture)

    def build(folder: Path) -> None:
        if archive is None:
            require_tools()
            archives = prepared_archives(cache, PYTHON_PACKAGES, architecture, architecture)
        progress(f"unpacking and compiling Python and NumPy for {architecture}")
        if archive is None:
            build_sysroot(archives, folder)
        else:
            unpack_archive(archive, architecture, folder)
            prefer_openblas(folder)
        python = Machine(architecture, next(iter(CPUS[architecture])), folder, qemu, python_version(folder)).command()
        compile_bytecode(folder, python)
        done = subprocess.run([*python, "-c", "import numpy, pytest"], capture_output=True, text=True)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            raise EmulationUnavailable(f"the emulated {architecture} machine does not work: {reason}")

    recipe: List[object] = [RECIPE, PYTHON_PACKAGES]
    if archive is not None:
        recipe = [RECIPE, str(archive), archive.stat().st_size, archive.stat().st_mtime]
    return built(cache / "sysroot" / architecture, recipe, build)


def with_variables(machine: Machine, name: str, variables: Mapping[str, str]) -> Machine:
    """The machine whose programs, and those that they start, also see these variables; ``name`` is for its folder."""
    cache = cache_root()
    with locked(cache):
        root = machine.root.with_name(f"{machine.root.name}-{name}")
        changed = replace(machine, root=root, variables=tuple(variables.items()))
        return _furnished(changed, prepared_sysroot(cache, machine.architecture))


def _furnished(machine: Machine, sysroot: Path) -> Machine:
    """The machine, with a root directory that adds its CPU and a script that starts Python to the sysroot."""
    root = machine.root
    script = f'#!/bin/sh\nexec {shlex.join(machine.command())} "$@"\n'
    cpuinfo = _cpuinfo(machine.architecture, machine.cpu)

    def build(folder: Path) -> None:
        for entry in sysroot.iterdir():
            if not entry.name.startswith("."):
                (folder / entry.name).symlink_to(os.path.relpath(entry, root))
        (folder / "proc").mkdir()
        (folder / "proc/cpuinfo").write_text(cpuinfo)
        (folder / "python").write_text(script)
        (folder / "python").chmod(0o755)

    built(root, [RECIPE, script, cpuinfo], build)
    return machine


def _cpuinfo(architecture: str, cpu: str) -> str:
    """The text of /proc/cpuinfo for the CPU; some libraries crash without it."""
    implementer, version, variant, part, revision, features = CPUS[architecture][cpu]
    fields = {
        "Features": features,
        "CPU implementer": implementer,
        "CPU architecture": version,
        "CPU variant": variant,
        "CPU part": part,
        "CPU revision": revision,
    }
    described = "".join(f"{key}\t: {value}\n" for key, value in fields.items())
    return "".join(f"processor\t: {number}\n{described}\n" for number in range(os.cpu_count() or 1))
