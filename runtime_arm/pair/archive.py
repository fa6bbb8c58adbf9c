"""The archive of a bundle: a zip file of parts, each checked against its hash in MANIFEST.json.

See ``runtime_arm.pair.bundle`` for what the parts are, ``runtime_arm.pair.zipped`` for a pair alone in a zip file.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, Mapping, Optional

from runtime_arm.errors import PairError
from runtime_arm.files import AnyPath, is_zip, map_file
from runtime_arm.machine.memory import require_memory
from runtime_arm.pair.members import STORED, Member, members_of
from runtime_arm.pair.metadata import FILES, MODEL
from runtime_arm.records import NamedTuple

MANIFEST, SAMPLE, PAIR_FOLDER = "MANIFEST.json", "pair/sample.npz", "pair"
SCHEMA = 1


class Archive(NamedTuple):
    """The parts of a bundle by name, as views of the mapped file unless they are deflated, what errors call the file,
    and whether parts are deflated."""

    parts: Mapping[str, memoryview]
    tolerance: float
    source: str
    deflated: bool

    def part(self, name: str) -> memoryview:
        """One part. PairError if there is none of that name."""
        if name not in self.parts:
            raise PairError(f"{self.source}: part {name!r} is missing")
        return self.parts[name]

    def pair_files(self) -> Dict[str, memoryview]:
        """The three files of the pair by name."""
        return {name: self.part(f"{PAIR_FOLDER}/{name}") for name in (*FILES, MODEL)}


def is_bundle(path: AnyPath) -> bool:
    """Whether a path is that of a bundle, if it is that of a file of armnet's."""
    return os.path.isfile(path) and not is_zip(path)


def files_in(path: AnyPath) -> Dict[str, memoryview]:
    """The files of the pair in a bundle, or in a zip file, by their names in a folder. PairError for another file."""
    data, source = map_file(path), str(path)
    members = members_of(data, source)
    if MANIFEST in members:
        return _verified(members, source).pair_files()
    from runtime_arm.pair.zipped import pair_files

    return pair_files(members, source)


def open_archive(path: AnyPath, content: Optional[memoryview] = None) -> Archive:
    """The content of a bundle. PairError, naming the part, if one is missing or its hash differs.

    content: of the file, where it has been mapped and looked at already.
    """
    return _verified(members_of(map_file(path) if content is None else content, str(path)), str(path))


def _verified(members: Mapping[str, Member], source: str) -> Archive:
    deflated = any(member.method != STORED for member in members.values())
    require_memory(sum(member.nbytes for member in members.values() if member.method != STORED), source)
    parts = {name: _part(member) for name, member in members.items()}
    manifest = _manifest(Archive(parts, 0.0, source, deflated))
    archive = Archive(parts, float(manifest["tolerance"]), source, deflated)
    for name, part in parts.items():
        if name != MANIFEST and hashlib.sha256(part).hexdigest() != manifest["parts"].get(name):
            raise PairError(f"{source}: part {name!r} is not the one that was packed (its SHA-256 differs)")
    for name in sorted(manifest["parts"]):
        archive.part(name)
    return archive


def _part(member: Member) -> memoryview:
    if member.method != STORED:
        return member.content()
    if len(member.packed) != member.nbytes:
        raise PairError(f"{member.place}: its sizes differ, though it is not compressed")
    return member.packed


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
