"""Compiled kernels of a device: a source is compiled once, and its binary is kept on disk for the next process.

A binary is named after its source, its device and its driver, and begins with the hash of its content. One that is
damaged, or that the driver does not take, is compiled again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from runtime_arm.files import write_file
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.kernels import Define, source_of
from runtime_arm.machine.cache import CachePart

_HASH_NBYTES = 32


class Programs:
    """The programs of one device."""

    def __init__(self, device: Device, root: Optional[Path] = None):
        """root: the folder of the cache, if it is not ``cache_root()``."""
        self.compiled = 0  # how many were compiled from source
        self._device = device
        self._cache = CachePart("programs", root)
        self._kept: Dict[str, Any] = {}

    def get(self, name: str, defines: Mapping[str, Define]) -> Any:
        """The program of a file of kernels with these macros."""
        source = source_of(name, defines)
        if source not in self._kept:
            self._kept[source] = self._loaded(source) or self._made(source)
        return self._kept[source]

    def _key(self, source: str) -> str:
        device = self._device
        parts = (source, device.spec.partition(":")[0], device.name, device.driver)
        return hashlib.sha256(chr(0).join(parts).encode()).hexdigest()

    def _loaded(self, source: str) -> Any:
        """The program made of a binary on disk, None if there is none or it is no good."""
        return self._cache.get(
            self._key(source), lambda path: self._device.compile(source, _checked(path.read_bytes()))[0]
        )

    def _made(self, source: str) -> Any:
        program, binary = self._device.compile(source)
        self.compiled += 1
        if binary:
            content = [hashlib.sha256(binary).digest(), binary]
            self._cache.put(self._key(source), lambda path: write_file(path, content))
        return program


def _checked(content: bytes) -> bytes:
    """The binary after the hash in a file. ValueError if it has another hash."""
    digest, binary = content[:_HASH_NBYTES], content[_HASH_NBYTES:]
    if not binary or hashlib.sha256(binary).digest() != digest:
        raise ValueError("the file is damaged")
    return binary
