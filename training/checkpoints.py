"""Checkpoints: the state of a training in one .npz file, from which it continues bit for bit."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.files import AnyPath, one_line_errors, write_file
from runtime_arm.netdef import Array, NetDef

META = "checkpoint.json"
VERSION = 1
LONGEST_META = 1 << 20  # bytes


def save_checkpoint(
    path: AnyPath, net: NetDef, state: Mapping[str, Array], notes: Optional[Mapping[str, Any]] = None
) -> None:
    """Write the state of a train net; the file appears whole or not at all. notes: data for JSON."""
    write_file(path, _written(net, state, notes))


class _Room(io.RawIOBase):
    """Bytes that were written and not taken yet, so the file is never in memory as a whole."""

    def __init__(self) -> None:
        self._content = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._content += content
        return len(content)

    def taken(self) -> bytes:
        content, self._content = bytes(self._content), bytearray()
        return content


def _written(net: NetDef, state: Mapping[str, Array], notes: Optional[Mapping[str, Any]]) -> Iterator[bytes]:
    room = _Room()
    with zipfile.ZipFile(room, "w") as archive:
        meta = {"version": VERSION, "net": digest_of(net), "blobs": list(state), "notes": notes or {}}
        archive.writestr(META, json.dumps(meta))
        for index, value in enumerate(state.values()):
            with archive.open(f"{index}.npy", "w") as file:
                np.lib.format.write_array(file, np.ascontiguousarray(value), allow_pickle=False)
            yield room.taken()
    yield room.taken()


def load_checkpoint(path: AnyPath, net: NetDef, state: Mapping[str, Array]) -> Tuple[Dict[str, Array], Dict[str, Any]]:
    """The state in a checkpoint of the same train net, and its notes. UsageError if it is none, or another net's."""
    with one_line_errors(path), open(path, "rb") as file:
        try:
            return _read(file, net, state)
        except (zipfile.BadZipFile, KeyError, ValueError, EOFError, RuntimeError, NotImplementedError) as error:
            raise UsageError(f"{Path(path)}: no checkpoint: {error}") from None


def digest_of(net: NetDef) -> str:
    """A digest that distinguishes train nets: of operators, arguments and names."""
    return hashlib.sha256(net.to_bytes()).hexdigest()


def _read(file: Any, net: NetDef, state: Mapping[str, Array]) -> Tuple[Dict[str, Array], Dict[str, Any]]:
    with zipfile.ZipFile(file) as archive:
        if archive.getinfo(META).file_size > LONGEST_META:
            raise ValueError(f"{META} is too long")
        meta = json.loads(archive.read(META))
        if not isinstance(meta, dict) or meta.get("version") != VERSION:
            raise ValueError(f"{META} is not of version {VERSION}")
        if meta.get("blobs") != list(state) or meta.get("net") != digest_of(net):
            raise ValueError("it belongs to another net, or to another loss, solver or choice of parameters")
        found = {n: _array(archive, f"{index}.npy", n, value) for index, (n, value) in enumerate(state.items())}
        notes = meta.get("notes")
        return found, notes if isinstance(notes, dict) else {}


def _array(archive: zipfile.ZipFile, member: str, name: str, expected: Array) -> Array:
    """One array, of the expected shape and dtype: checked before it is read."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"blob {name!r} is in another format")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        if shape != expected.shape or dtype != expected.dtype:
            raise ValueError(f"blob {name!r} is {dtype}{list(shape)}, expected {expected.dtype}{list(expected.shape)}")
        data = file.read(expected.nbytes)
        if len(data) != expected.nbytes:
            raise ValueError(f"blob {name!r} is cut off")
        values: Array = np.frombuffer(data, dtype).reshape(shape).copy()
        return values
