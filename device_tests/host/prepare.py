"""Prepares emulated machines and the instruction counter in a cache outside the repository; a second time is
instant.
"""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path
from typing import Iterator, List, Sequence, Tuple

from device_tests.host.counting.regions import counting_plugin
from device_tests.host.emulation.full_system import full_system
from device_tests.host.emulation.images import sysroot_archive
from device_tests.host.emulation.machine import CPUS, emulated
from device_tests.host.emulation.sources import chosen_sources
from runtime_arm.errors import UsageError

DEFAULT_PARTS = (*CPUS, "counting")
PARTS = (*DEFAULT_PARTS, "full-system")
KEPT = ("counting", "keyring", "machine", "qemu", "qemu-header", "sysroot")  # folders of the cache that CI keeps
_RECIPES = ("counting", "emulation")  # folders beside this file


def prepared(parts: Sequence[str]) -> Iterator[Tuple[str, Path]]:
    """Prepares parts, all default ones if none is named; yields the name and the main file of each.

    UsageError for an unknown part; EmulationUnavailable, with what is missing, if one cannot be prepared.
    """
    unknown = [name for name in parts if name not in PARTS]
    if unknown:
        raise UsageError(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    for part in parts or DEFAULT_PARTS:
        for cpu in CPUS.get(part, ()):
            machine = emulated(part, cpu)
            yield machine.name, machine.python
        if part == "counting":
            yield part, counting_plugin()
        if part == "full-system":
            yield part, full_system().kernel


def key() -> str:
    """A hash that changes whenever what is prepared may change: the recipes, the package sources, this machine."""
    own = Path(__file__).resolve()
    files: List[Path] = [own]
    files += [path for name in _RECIPES for path in sorted((own.parent / name).iterdir()) if path.is_file()]
    digest = hashlib.sha256(f"{platform.machine()} {platform.python_version()}".encode())
    for archive in (sysroot_archive(name) for name in CPUS):
        digest.update(f"\n{archive and archive.stat().st_size}".encode())
    for path in [*files, *chosen_sources()]:
        content = path.read_bytes()
        digest.update(f"\n{path.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
