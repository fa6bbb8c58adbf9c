"""The archive of a bundle: a zip file of uncompressed parts, each checked against its hash in MANIFEST.json.

See ``runtime_arm.pair.bundle`` for what the parts are.
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import struct
import zipfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from runtime_arm.errors import PairError
from runtime_arm.files import AnyPath, map_file
from runtime_arm.pair.metadata import FILES, MODEL
from runtime_arm.records import NamedTuple

MANIFEST, SAMPLE, PAIR_FOLDER = "MANIFEST.json", "pair/sample.npz", "pair"
SCHEMA = 1
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")  # signature, ..., length of name, length of extra field (APPNOTE 4.3.7)

# What zipfile and NumPy raise for damaged archives.
UNREADABLE = (OSError, ValueError, EOFError, NotImplementedError, MemoryError, struct.error, zipfile.BadZipFile)


class Archive(NamedTuple):
    """The parts of a bundle by name, as views of the mapped file, and what errors call the file."""

    parts: Mapping[str, memoryview]
    tolerance: float
    source: str

    def part(self, name: str) -> memoryview:
        """One part. PairError if there is none of that name."""
        if name not in self.parts:
            raise PairError(f"{self.source}: part {name!r} is missing")
        return self.parts[name]

    def pair_files(self) -> Dict[str, memoryview]:
        """The three files of the pair by name."""
        return {name: self.part(f"{PAIR_FOLDER}/{name}") for name in (*FILES, MODEL)}


def open_archive(path: AnyPath, content: Optional[memoryview] = None) -> Archive:
    """The content of a bundle. PairError, naming the part, if one is missing or its hash differs.

    content: of the file, where it has been mapped and looked at already.
    """
    parts = _stored_parts(map_file(path) if content is None else content, Path(path))
    manifest = _manifest(Archive(parts, 0.0, str(path)))
    archive = Archive(parts, float(manifest["tolerance"]), str(path))
    for name, part in parts.items():
        if name != MANIFEST and hashlib.sha256(part).hexdigest() != manifest["parts"].get(name):
            raise PairError(f"{path}: part {name!r} is not the one that was packed (its SHA-256 differs)")
    for name in sorted(manifest["parts"]):
        archive.part(name)
    return archive


def _stored_parts(data: memoryview, path: Path) -> Dict[str, memoryview]:
    try:
        with zipfile.ZipFile(_as_file(data)) as archive:
            entries: List[zipfile.ZipInfo] = archive.infolist()
    except UNREADABLE as error:
        raise PairError(f"{path}: not a bundle: {error}") from error
    parts: Dict[str, memoryview] = {}
    for entry in entries:
        header_end = entry.header_offset + _LOCAL_HEADER.size
        inside = entry.header_offset >= 0 and header_end <= len(data)
        if entry.compress_type != zipfile.ZIP_STORED or not inside or entry.filename in parts:
            raise PairError(f"{path}: part {entry.filename!r} is not stored as in a bundle")
        *_, name_length, extra_length = _LOCAL_HEADER.unpack(data[entry.header_offset : header_end])
        start = header_end + name_length + extra_length
        if start + entry.file_size > len(data):
            raise PairError(f"{path}: part {entry.filename!r} is cut off")
        parts[entry.filename] = data[start : start + entry.file_size]
    return parts


def _as_file(data: memoryview) -> Any:
    """The content as a file: the map itself, which reads like one."""
    return data.obj if isinstance(data.obj, mmap.mmap) else io.BytesIO(data)


def _manifest(archive: Archive) -> Any:
    try:
        manifest = json.loads(bytes(archive.part(MANIFEST)))
    except (ValueError, RecursionError) as error:
        raise PairError(f"{archive.source}: {MANIFEST} is not JSON: {error}") from None
    fits = (
        isinstance(manifest, dict)
        and manifest.get("schema") == SCHEMA
        and isinstance(manifest.get("parts"), dict)
        and isinstance(manifest.get("tolerance"), (int, float))
    )
    if not fits:
        raise PairError(f"{archive.source}: {MANIFEST} is not of schema {SCHEMA}")
    return manifest
