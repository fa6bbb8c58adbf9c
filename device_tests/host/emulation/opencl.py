"""OpenCL without a GPU: PoCL runs kernels on the processor, Oclgrind interprets them and finds races and bad accesses.

Both are Debian packages, unpacked into the cache and not installed:

    subprocess.run(command, env={**os.environ, **pocl().environment()})     # a process that finds PoCL and nothing else
    pocl().load()                                                           # the same for this process
    with_pocl(emulated("armhf")).run(["-m", "device_tests.suite"])          # an emulated machine that finds PoCL
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Dict, NamedTuple, Optional, Sequence

from device_tests.host.emulation.apt import host_architecture
from device_tests.host.emulation.cache import EmulationUnavailable, built, locked
from device_tests.host.emulation.machine import QEMU_PROGRAMS, Machine, prepared_archives, with_variables
from device_tests.host.emulation.sysroot import qemu_command, unpack
from device_tests.host.emulation.tools import require_tools
from runtime_arm.machine.cache import cache_root

RECIPE = 1  # raise it when what the functions build changes
POCL_PACKAGES = ("pocl-opencl-icd", "ocl-icd-libopencl1", "binutils")
OCLGRIND_PACKAGES = ("oclgrind", "ocl-icd-libopencl1")

# The C library and what belongs to it: a process must not load those of another system beside its own.
_SYSTEM = re.compile(
    r"(ld-linux|lib(c|m|dl|rt|pthread|util|resolv|nsl|anl|nss_\w+|thread_db|mvec|memusage|pcprofile|BrokenLocale)[.-]"
    r"|libc_malloc)"
)


class OpenCL(NamedTuple):
    """An unpacked implementation of OpenCL.

    libraries: the folder with all its libraries. icd: the file that names its driver. programs: the folder with its
    linker. compiled: the folder for what it compiles.
    """

    libraries: Path
    icd: Path
    programs: Path
    compiled: Path

    def environment(self) -> Dict[str, str]:
        """The variables with which a new process finds this implementation and no other."""
        return {
            "ARMNET_OPENCL": str(self.libraries / "libOpenCL.so.1"),
            "OCL_ICD_VENDORS": str(self.icd),
            "LD_LIBRARY_PATH": str(self.libraries),
            "PATH": f"{self.programs}{os.pathsep}{os.environ.get('PATH', '/usr/bin:/bin')}",
            "POCL_CACHE_DIR": str(self.compiled),
        }

    def load(self) -> None:
        """Let this process, and those that it starts, find it. EmulationUnavailable if it does not fit this system.

        Changes ``os.environ``.
        """
        os.environ.update(self.environment())
        driver = Path(self.icd.read_text().strip())
        listed = subprocess.run(["ldd", str(driver)], capture_output=True, text=True, check=False)
        needed = re.findall(rf"=> ({re.escape(str(self.libraries))}\S+)", listed.stdout)
        try:
            for library in _in_order(needed):
                ctypes.CDLL(library)
        except OSError as error:
            raise EmulationUnavailable(f"PoCL cannot be loaded here: {error}") from error


def pocl(machine: Optional[Machine] = None) -> OpenCL:
    """PoCL for this machine or an emulated one, prepared on first use; EmulationUnavailable if it cannot be."""
    return _prepared("pocl", POCL_PACKAGES, "usr/lib/*/libpocl.so.?", machine)


def oclgrind() -> OpenCL:
    """Oclgrind for this machine, prepared on first use; EmulationUnavailable if it cannot be."""
    return _prepared("oclgrind", OCLGRIND_PACKAGES, "usr/lib/oclgrind/liboclgrind-rt-icd.so")


def with_pocl(machine: Machine) -> Machine:
    """The emulated machine with PoCL as its driver, prepared on first use; EmulationUnavailable if it cannot be."""
    driver = pocl(machine)
    return with_variables(machine, "pocl", {**driver.environment(), "PATH": f"{driver.programs}:/usr/bin:/bin"})


def _prepared(name: str, packages: Sequence[str], driver: str, machine: Optional[Machine] = None) -> OpenCL:
    cache = cache_root()
    with locked(cache):
        require_tools(purpose=f"OpenCL by {name}")
        architecture = machine.architecture if machine is not None else host_architecture()
        archives = prepared_archives(cache, packages, architecture, f"{name}-{architecture}")
        root = built(cache / name / architecture, [RECIPE, packages], lambda folder: unpack(archives, folder))
        lodging = cache / f"{name}-use" / architecture
        libraries, programs, compiled = (lodging / part for part in ("libraries", "programs", "compiled"))
        for folder in (libraries, programs, compiled):
            folder.mkdir(parents=True, exist_ok=True)
        for library in [*root.glob("usr/lib/*/*.so*"), *root.glob("usr/lib/oclgrind/*.so*")]:
            if not _SYSTEM.match(library.name) and not (libraries / library.name).exists():
                (libraries / library.name).symlink_to(library)
        (found,) = sorted(root.glob(driver))
        icd = lodging / f"{name}.icd"
        icd.write_text(f"{found}\n")
        if (root / "usr/bin/ld").exists():
            linker = programs / "ld"
            linker.write_text(_linker(root, libraries, machine))
            linker.chmod(0o755)
    return OpenCL(libraries, icd, programs, compiled)


def _linker(root: Path, libraries: Path, machine: Optional[Machine]) -> str:
    """A script that PoCL starts to link kernels: it runs the unpacked linker, emulated if the machine is."""
    command = ["env", f"LD_LIBRARY_PATH={libraries}"]
    if machine is not None:
        emulator = qemu_command(machine.qemu, QEMU_PROGRAMS[machine.architecture])
        command = [*emulator, "-L", str(root), "-E", f"LD_LIBRARY_PATH={libraries}"]
    where = [f"-L{folder}" for folder in [*root.glob("usr/lib/gcc/*/*"), *root.glob("usr/lib/*-linux-gnu*")]]
    return f'#!/bin/sh\nexec {shlex.join([*command, str(root / "usr/bin/ld")])} "$@" {shlex.join(where)}\n'


def _in_order(libraries: Sequence[str]) -> Sequence[str]:
    """The libraries, each after those that it needs."""
    remaining, order = list(libraries), []
    while remaining:
        for library in remaining:
            try:
                ctypes.CDLL(library)
            except OSError:
                continue
            order.append(library)
        if not any(library in order for library in remaining):
            return [*order, *remaining]
        remaining = [library for library in remaining if library not in order]
    return order
