"""A bundle: one file that holds the runtime, a pair and a sample, and runs with ``python3 app.pyz``.

A zip archive that Python executes (PEP 441). Nothing in it is compressed, and the pair's files start at multiples of
64 bytes, so that weights are used where they lie in the mapped file:

    __main__.py        looks for Python 3.9 and NumPy, then calls runtime_arm.app.main
    MANIFEST.json      SHA-256 of every other part, the sample's tolerance
    runtime_arm/       the runtime
    pair/              init_net.pb, predict_net.pb, model.json, sample.npz (in_NAME, out_NAME)

``exporter.bundle.pack`` writes it.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Union

import numpy as np

from runtime_arm.errors import PairError
from runtime_arm.files import map_file
from runtime_arm.netdef import Array
from runtime_arm.pair.metadata import FILES, MODEL
from runtime_arm.pair.pair import Pair

MANIFEST, SAMPLE, PAIR_FOLDER = "MANIFEST.json", "pair/sample.npz", "pair"
SCHEMA = 1
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")  # signature, ..., length of name, length of extra field (APPNOTE 4.3.7)

# what zipfile and NumPy raise for archives that are damaged
_UNREADABLE = (OSError, ValueError, EOFError, NotImplementedError, MemoryError, struct.error, zipfile.BadZipFile)


class Bundle(NamedTuple):
    """What a bundle holds: the pair, one set of inputs with the outputs it should give, and how far these may be
    off."""

    pair: Pair
    sample_inputs: Dict[str, Array]
    sample_outputs: Dict[str, Array]
    tolerance: float


def open_bundle(path: Union[str, Path]) -> Bundle:
    """The content of a bundle, every part checked against its hash. PairError, naming the part, for what was
    changed."""
    data = map_file(path)
    parts = _parts(data, Path(path))
    manifest = _manifest(parts, str(path))
    for name, part in parts.items():
        if name != MANIFEST and hashlib.sha256(part).hexdigest() != manifest["parts"].get(name):
            raise PairError(f"{path}: part {name!r} is not the one that was packed (its SHA-256 differs)")
    missing = sorted(set(manifest["parts"]) - set(parts))
    if missing:
        raise PairError(f"{path}: part {missing[0]!r} is missing")
    pair = Pair.from_buffers(
        {name: _part(parts, f"{PAIR_FOLDER}/{name}", str(path)) for name in (*FILES, MODEL)}, str(path)
    )
    sample = _sample(_part(parts, SAMPLE, str(path)), str(path))
    return Bundle(pair, _with_prefix(sample, "in_"), _with_prefix(sample, "out_"), float(manifest["tolerance"]))


def _parts(data: memoryview, path: Path) -> Dict[str, memoryview]:
    """Views of the stored parts by name."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries: List[zipfile.ZipInfo] = archive.infolist()
    except _UNREADABLE as error:
        raise PairError(f"{path}: is no bundle: {error}") from error
    parts: Dict[str, memoryview] = {}
    for entry in entries:
        header_end = entry.header_offset + _LOCAL_HEADER.size
        inside = entry.header_offset >= 0 and header_end <= len(data)
        if entry.compress_type != zipfile.ZIP_STORED or not inside or entry.filename in parts:
            raise PairError(f"{path}: part {entry.filename!r} is not stored as a bundle stores it")
        *_, name_length, extra_length = _LOCAL_HEADER.unpack(data[entry.header_offset : header_end])
        start = header_end + name_length + extra_length
        if start + entry.file_size > len(data):
            raise PairError(f"{path}: part {entry.filename!r} is cut off")
        parts[entry.filename] = data[start : start + entry.file_size]
    return parts


def _part(parts: Mapping[str, memoryview], name: str, source: str) -> memoryview:
    if name not in parts:
        raise PairError(f"{source}: part {name!r} is missing")
    return parts[name]


def _manifest(parts: Mapping[str, memoryview], source: str) -> Any:
    try:
        manifest = json.loads(bytes(_part(parts, MANIFEST, source)))
    except (ValueError, RecursionError) as error:
        raise PairError(f"{source}: {MANIFEST} is not JSON: {error}") from None
    fits = (
        isinstance(manifest, dict)
        and manifest.get("schema") == SCHEMA
        and isinstance(manifest.get("parts"), dict)
        and isinstance(manifest.get("tolerance"), (int, float))
    )
    if not fits:
        raise PairError(f"{source}: {MANIFEST} is not of schema {SCHEMA}")
    return manifest


def _sample(data: memoryview, source: str) -> Dict[str, Array]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except _UNREADABLE as error:
        raise PairError(f"{source}: part {SAMPLE!r} cannot be read: {error}") from error


def _with_prefix(sample: Mapping[str, Array], prefix: str) -> Dict[str, Array]:
    return {key[len(prefix) :]: value for key, value in sample.items() if key.startswith(prefix)}
