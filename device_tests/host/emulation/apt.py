"""Downloads packages of any architecture with the host's apt, in directories of its own.

The host's network settings (proxies, authentication) are used. Its state is neither read nor changed, and root is not
needed. ``sources.py`` says where packages come from.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import List, Optional, Sequence

from device_tests.host.emulation.cache import EmulationUnavailable, built, progress
from device_tests.host.emulation.sources import SYSTEM_KEYS, chosen_sources, host_sources, write_sources
from device_tests.host.emulation.sysroot import unpack_files
from device_tests.host.emulation.tools import require_tools, run_tool
from runtime_arm.machine.cache import cache_root

RECIPE = 1  # raise it when what ``_debian_keys`` builds changes


def host_architecture() -> str:
    """Debian's name for this machine's architecture."""
    return run_tool(["dpkg", "--print-architecture"]).strip()


def download_packages(packages: Sequence[str], architecture: str, folder: Path) -> None:
    """Puts the ``.deb`` files of the packages and of all their dependencies into ``folder``."""
    require_tools()
    progress(f"downloading packages for {architecture}: {' '.join(packages)}")
    apt = _PrivateApt(folder / "apt", architecture, "deb")
    update_error = apt.update()
    apt.get("--yes", "--download-only", "install", *packages, earlier_error=update_error)
    for archive in apt.archives.glob("*.deb"):
        archive.rename(folder / archive.name)
    shutil.rmtree(apt.folder)


def require_packages(packages: Sequence[str], architecture: str, folder: Path) -> None:
    """EmulationUnavailable unless the package sources have the packages and all their dependencies."""
    require_tools()
    apt = _PrivateApt(folder / "apt", architecture, "deb")
    apt.get("--yes", "--simulate", "install", *packages, earlier_error=apt.update())
    shutil.rmtree(apt.folder)


def download_alone(packages: Sequence[str], architecture: str, folder: Path) -> None:
    """Puts the ``.deb`` files of the packages into ``folder``, without their dependencies."""
    require_tools()
    progress(f"downloading {' '.join(packages)}")
    apt = _PrivateApt(folder / "apt", architecture, "deb")
    update_error = apt.update()
    apt.get("download", *packages, earlier_error=update_error, cwd=folder)
    shutil.rmtree(apt.folder)


def download_source(source_package: str, folder: Path) -> None:
    """Puts the archives of a source package into ``folder``."""
    require_tools()
    progress(f"downloading the source of {source_package}")
    apt = _PrivateApt(folder / "apt", host_architecture(), "deb-src")
    update_error = apt.update()
    apt.get("--download-only", "--only-source", "source", source_package, earlier_error=update_error, cwd=folder)
    shutil.rmtree(apt.folder)


def download_kernel(architecture: str, folder: Path) -> None:
    """Puts the ``.deb`` file of Debian's kernel for an architecture into ``folder``, without its dependencies."""
    download_alone([f"linux-image-{architecture}"], architecture, folder)
    (newest,) = folder.glob("*.deb")  # an empty package, which depends on the one with the kernel
    kernel = re.search(r"linux-image-[\w.+-]+", run_tool(["dpkg-deb", "--field", str(newest), "Depends"]))
    if kernel is None:
        raise EmulationUnavailable(f"{newest.name} names no kernel")
    newest.unlink()
    download_alone([kernel.group()], architecture, folder)


def _debian_keys() -> Path:
    """Debian's keys, from a package of the host's own sources, unpacked in the cache."""

    def build(folder: Path) -> None:
        progress("downloading Debian's keys")
        apt = _PrivateApt(folder / "apt", host_architecture(), "deb", host_sources())
        update_error = apt.update()
        apt.get("download", "debian-archive-keyring", earlier_error=update_error, cwd=folder)
        (archive,) = folder.glob("*.deb")
        unpack_files(archive, f".{SYSTEM_KEYS}", folder)
        shutil.rmtree(apt.folder)

    return built(cache_root() / "keyring", [RECIPE], build) / SYSTEM_KEYS.relative_to("/")


class _PrivateApt:
    """apt-get with its own directories in ``folder``. kind: "deb" or "deb-src"; sources: files of package sources."""

    def __init__(self, folder: Path, architecture: str, kind: str, sources: Optional[List[Path]] = None):
        self.folder = folder
        self.architecture = architecture
        self.archives = folder / "cache/archives"
        for needed in (self.archives / "partial", folder / "state/lists/partial", folder / "sources"):
            needed.mkdir(parents=True)
        (folder / "state/status").touch()
        write_sources(chosen_sources() if sources is None else sources, folder / "sources", kind, _debian_keys)
        (folder / "apt.conf").write_text(self._configuration())
        self._environment = {**os.environ, "APT_CONFIG": str(folder / "apt.conf"), "LC_ALL": "C.UTF-8"}

    def _configuration(self) -> str:
        """apt.conf with the host's network settings, but without its hooks, which run when a host is updated."""
        network = run_tool(["apt-config", "dump", "--format", '%f "%v";%n', "Acquire"]).splitlines()
        kept = [line for line in network if not line.startswith(("Acquire::IndexTargets", "Acquire::Languages"))]
        settings = {
            "Dir::Etc::Main": "/dev/null",
            "Dir::Etc::Parts": "/dev/null",
            "Dir::Etc::SourceList": "/dev/null",
            "Dir::Etc::SourceParts": self.folder / "sources",
            "Dir::State": self.folder / "state",
            "Dir::State::status": self.folder / "state/status",
            "Dir::Cache": self.folder / "cache",
            "APT::Architecture": self.architecture,
            "APT::Architectures::": self.architecture,
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::Retries": "2",
            "Debug::NoLocking": "true",
        }
        return "\n".join([*kept, "#clear APT::Architectures;", *(f'{name} "{v}";' for name, v in settings.items())])

    def update(self) -> str:
        """Fetches the indexes; returns apt's first error, or "". A mirror that is being updated may lack some."""
        return _first_error(self._run(["update"], None))

    def get(self, *arguments: str, earlier_error: str, cwd: Optional[Path] = None) -> None:
        """Runs apt-get; EmulationUnavailable, with apt's first error and ``earlier_error``, if it fails."""
        done = self._run(list(arguments), cwd)
        if done.returncode:
            reasons = "; ".join(filter(None, [_first_error(done), earlier_error]))
            raise EmulationUnavailable(
                f"apt cannot download {arguments[-1]} and its dependencies for {self.architecture}: {reasons} "
                "(ARMNET_APT_SOURCES can name other package sources)"
            )

    def _run(self, arguments: List[str], cwd: Optional[Path]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["apt-get", *arguments],
            cwd=cwd,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def _first_error(done: subprocess.CompletedProcess[str]) -> str:
    """apt's first error, or else its first warning, without the prefix; "" if there is neither."""
    lines = (done.stderr or "").splitlines()
    for prefix in ("E: ", "W: "):
        for line in lines:
            if line.startswith(prefix):
                return line[len(prefix) :].strip()
    return ""
