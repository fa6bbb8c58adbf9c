"""Writes the archive of a bundle. ``runtime_arm.pair.bundle`` describes its content."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping

import numpy as np

from runtime_arm.files import AnyPath, map_file
from runtime_arm.netdef import Array
from runtime_arm.pair.archive import MANIFEST, SCHEMA
from runtime_arm.pair.members import entry_of
from runtime_arm.planning.arena import ALIGNMENT
from runtime_arm.version import VERSION

CHUNK = 1 << 20


def sample_bytes(inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> bytes:
    """The sample of a bundle: an .npz of inputs and the outputs that they give on this machine."""
    arrays = {
        **{f"in_{name}": value for name, value in inputs.items()},
        **{f"out_{name}": value for name, value in outputs.items()},
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:  # np.savez would write the current time
        for name in sorted(arrays):
            array = io.BytesIO()
            np.save(array, arrays[name], allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), array.getvalue())
    return content.getvalue()


def with_manifest(parts: Mapping[str, memoryview], tolerance: float) -> Dict[str, memoryview]:
    """The parts with their manifest. tolerance: of the sample's outputs."""
    manifest: Dict[str, Any] = {
        "schema": SCHEMA,
        "armnet": VERSION,
        "tolerance": tolerance,
        "parts": {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()},
    }
    return {**parts, MANIFEST: memoryview(json.dumps(manifest, indent=1).encode())}


def folder_parts(folder: Path) -> Dict[str, memoryview]:
    """The files below a folder, by their paths in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): map_file(path) for path in files}


def write_archive(path: AnyPath, parts: Mapping[str, memoryview], compress: bool = False) -> None:
    """Write the parts, each at a multiple of ALIGNMENT, or deflated."""
    with open(path, "wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w") as archive:
            for name, part in parts.items():
                entry = entry_of(name)
                if compress:
                    entry.compress_type = zipfile.ZIP_DEFLATED
                else:
                    entry.extra = _padding(file.tell() + 30 + len(name.encode()))
                entry.file_size = len(part)
                with archive.open(entry, "w") as target:
                    for chunk in chunks(part):
                        target.write(chunk)


def _padding(offset: int) -> bytes:
    """An extra field (APPNOTE 4.5) that aligns the part's content to a multiple of ALIGNMENT."""
    filler = -(offset + 4) % ALIGNMENT
    return struct.pack("<HH", 0xD935, filler) + bytes(filler)


def chunks(data: memoryview) -> Iterator[memoryview]:
    """The data, piece by piece."""
    for start in range(0, len(data), CHUNK):
        yield data[start : start + CHUNK]
