"""Compiled kernels of a device: a source is compiled once, and its binary is kept on disk for the next process.

A binary is named after its source, its device and its driver, and begins with the hash of its content. One that is
damaged, or that the driver does not take, is compiled again.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from runtime_arm.errors import DeviceError, ResourceError
from runtime_arm.files import write_file
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.kernels import Define, source_of

MOST_KEPT = 512  # binaries on disk; the oldest go first
LARGEST = 1 << 26  # bytes of a binary
_HASH_NBYTES = 32


def cache_folder() -> Path:
    """``$ARMNET_CACHE/programs``, else below ``$XDG_CACHE_HOME/armnet`` or ``~/.cache/armnet``. It need not exist."""
    chosen = os.environ.get("ARMNET_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "armnet"
    return base / "programs"


class Programs:
    """The programs of one device."""

    def __init__(self, device: Device, folder: Optional[Path] = None):
        self.compiled = 0  # how many were compiled from source
        self._device = device
        self._folder = folder if folder is not None else cache_folder()
        self._kept: Dict[str, Any] = {}

    def get(self, name: str, defines: Mapping[str, Define]) -> Any:
        """The program of a file of kernels with these macros."""
        source = source_of(name, defines)
        if source not in self._kept:
            self._kept[source] = self._loaded(source) or self._made(source)
        return self._kept[source]

    def _path(self, source: str) -> Path:
        device = self._device
        parts = (source, device.spec.partition(":")[0], device.name, device.driver)
        return self._folder / f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()}.bin"

    def _loaded(self, source: str) -> Any:
        """The program made of a binary on disk, None if there is none or it is no good."""
        with suppress(OSError, DeviceError):
            path = self._path(source)
            if path.stat().st_size <= LARGEST:
                content = path.read_bytes()
                digest, binary = content[:_HASH_NBYTES], content[_HASH_NBYTES:]
                if binary and hashlib.sha256(binary).digest() == digest:
                    return self._device.compile(source, binary)[0]
        return None

    def _made(self, source: str) -> Any:
        program, binary = self._device.compile(source)
        self.compiled += 1
        if binary:
            with suppress(OSError, ResourceError):  # a device without a place to write compiles each time
                self._folder.mkdir(parents=True, exist_ok=True)
                self._make_room()
                write_file(self._path(source), [hashlib.sha256(binary).digest(), binary])
        return program

    def _make_room(self) -> None:
        kept = sorted(self._folder.glob("*.bin"), key=lambda path: path.stat().st_mtime)
        for path in kept[: len(kept) - MOST_KEPT + 1]:
            path.unlink()
