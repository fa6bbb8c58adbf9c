"""The Pythons of this machine, and NumPy for each, without an environment for each."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Optional

from device_tests.host.emulation.cache import EmulationUnavailable, built, locked
from runtime_arm.machine.cache import cache_root

PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")  # those that armnet promises to run on


def find_python(version: str) -> Optional[str]:
    """The path of a Python that starts, None if there is none: on the path, or one of pyenv's."""
    managed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for candidate in filter(None, [shutil.which(f"python{version}"), *map(str, managed)]):
        probe = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(probe, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return candidate
    return None


def numpy_for(version: str) -> Path:
    """A folder with the newest NumPy for a Python and no other package; it is downloaded once and kept in the cache.

    EmulationUnavailable, with pip's reason, if it cannot be had.
    """

    def build(folder: Path) -> None:
        words = ["install", "--quiet", "--disable-pip-version-check", "--target", str(folder), "--no-deps"]
        wanted = ["--python-version", version, "--only-binary=:all:", "numpy"]
        done = subprocess.run([sys.executable, "-m", "pip", *words, *wanted], capture_output=True, text=True)
        if done.returncode:
            raise EmulationUnavailable(f"NumPy for Python {version}: {done.stderr.strip().splitlines()[-1]}")

    with locked(cache_root()):
        return built(cache_root() / "numpy" / version, ["numpy", version], build)
