"""Builds the parts of an emulated machine from Debian packages: QEMU, and a root directory with Python and NumPy.

Packages are only unpacked, so neither a chroot nor maintainer scripts nor root are needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List, Sequence

from device_tests.host.emulation.cache import EmulationUnavailable, progress
from device_tests.host.emulation.tools import run_tool

QEMU_PACKAGES = ("qemu-user",)
PYTHON_PACKAGES = (
    "python3",
    "python3-numpy",
    "libopenblas0-pthread",
    "libblas3",
    "liblapack3",
    "libstdc++6",
    "libgomp1",
    "libatomic1",
    "python3-protobuf",
    "python3-pytest",
)

_UNWANTED = ("doc", "man", "locale", "info", "lintian", "bug")
_MAGIC_NUMBER = "import importlib.util; print(importlib.util.MAGIC_NUMBER.hex())"


def unpack(archives: Path, root: Path) -> None:
    """Unpacks every ``.deb`` in ``archives`` into ``root``, with a merged /usr and with relative links only."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    excluded = [f"--exclude=./usr/share/{name}" for name in _UNWANTED]
    options = ["--extract", "--no-same-owner", "--keep-directory-symlink", *excluded, "--directory", str(root)]
    for archive in sorted(archives.glob("*.deb")):
        _extract(archive, options)
    for path in root.rglob("*"):
        if path.is_symlink() and os.path.isabs(os.readlink(path)):
            target = os.path.relpath(f"{root}{os.readlink(path)}", path.parent)
            path.unlink()
            path.symlink_to(target)


def unpack_files(archive: Path, pattern: str, folder: Path) -> None:
    """Unpacks the files of a ``.deb`` whose path matches a pattern ("./boot/vmlinuz-*") into ``folder``."""
    _extract(archive, ["--extract", "--no-same-owner", "--directory", str(folder), "--wildcards", pattern])


def _extract(archive: Path, tar_options: Sequence[str]) -> None:
    """Unpacks a ``.deb``. If that fails, the file is deleted, so that it is downloaded again next time."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE) as contents:
        done = subprocess.run(["tar", *tar_options], stdin=contents.stdout, capture_output=True, text=True, check=False)
    if contents.returncode or done.returncode:
        archive.unlink()
        reason = (done.stderr.strip().splitlines() or ["it is damaged; try again"])[-1]
        raise EmulationUnavailable(f"cannot unpack {archive.name}: {reason}")


def build_qemu(archives: Path, root: Path, keep: Sequence[str]) -> None:
    """Puts QEMU's user-mode emulators named in ``keep`` into ``root``, with the libraries that they need."""
    unpack(archives, root)
    for program in (root / "usr/bin").glob("qemu-*"):
        if program.name not in keep:
            program.unlink()


def qemu_command(root: Path, program: str) -> List[str]:
    """The command that starts an emulator from ``build_qemu``, with its own libraries instead of the host's."""
    emulator = str(root / "usr/bin" / program)
    for loader in root.glob("usr/lib/*/ld-linux*.so.*"):
        return [str(loader), "--library-path", str(loader.parent), emulator]
    return [emulator]


def build_sysroot(archives: Path, root: Path) -> None:
    """Makes a root directory with Python and with NumPy on OpenBLAS, without compiled bytecode."""
    unpack(archives, root)
    shutil.rmtree(root / "var", ignore_errors=True)
    prefer_openblas(root)


def prefer_openblas(root: Path) -> None:
    """Makes OpenBLAS the BLAS of a root directory, which a maintainer script would do otherwise."""
    for library in root.glob("usr/lib/*/openblas-*/lib*.so.*"):
        if not re.search(r"-r\d", library.name):
            link = library.parent.parent / library.name
            link.unlink(missing_ok=True)
            link.symlink_to(f"{library.parent.name}/{library.name}")


def python_version(root: Path) -> str:
    """The version of the Python in a root directory, such as "3.11"."""
    for path in sorted((root / "usr/bin").glob("python3.*")):
        match = re.fullmatch(r"python(3\.\d+)", path.name)
        if match:
            return match.group(1)
    raise EmulationUnavailable(f"the packages hold no Python: {root / 'usr/bin'}")


def compile_bytecode(root: Path, emulated_python: Sequence[str]) -> None:
    """Compiles the modules in a root directory; without that, imports take three times as long.

    The host's Python compiles them if its bytecode is the same; otherwise the emulated one does, slowly.
    """
    version = python_version(root)
    magic = run_tool([*emulated_python, "-c", _MAGIC_NUMBER])
    compiler: Sequence[str] = [*emulated_python, "-m", "compileall"]
    for candidate in filter(None, [sys.executable, shutil.which(f"python{version}")]):
        probe = subprocess.run([candidate, "-c", _MAGIC_NUMBER], capture_output=True, text=True, check=False)
        if probe.stdout == magic:
            compiler = [candidate, "-m", "compileall", "-j", "0"]
            break
    else:
        progress(f"no Python {version} on this machine; the emulated one compiles the bytecode, which takes a minute")
    folders = [str(root / "usr/lib/python3"), str(root / "usr/lib" / f"python{version}")]
    skipped = r"/(tests?|idlelib|lib2to3)/"
    # A file that does not compile would fail only when it is imported.
    subprocess.run([*compiler, "-qq", "-x", skipped, *folders], check=False)
