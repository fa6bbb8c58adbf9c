"""Public keys: a line of text each, ``armnet-ed25519 BASE64 NAME``, in a file or in a folder of .pub files."""

from __future__ import annotations

import base64
import binascii
import hashlib
from pathlib import Path
from typing import List, NamedTuple

from runtime_arm.errors import UsageError
from runtime_arm.files import AnyPath, one_line_errors

KIND = "armnet-ed25519"
_MOST_BYTES = 1 << 20  # of a file with keys


class PublicKey(NamedTuple):
    """raw: the 32 bytes of an Ed25519 key. name: what its owner calls it."""

    raw: bytes
    name: str

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits of its SHA-256, by which people compare keys."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def to_text(self) -> str:
        """The line of a file of public keys."""
        return f"{KIND} {base64.b64encode(self.raw).decode()} {self.name}\n"


def read_public_keys(path: AnyPath) -> List[PublicKey]:
    """The keys in a file, or in the .pub files of a folder. UsageError, naming file and line, if a line is no key."""
    place = Path(path)
    with one_line_errors(place):
        files = sorted(place.glob("*.pub")) if place.is_dir() else [place]
    keys = [key for file in files for key in _read(file)]
    if not keys:
        raise UsageError(f"{place}: holds no public key; armnet keys new NAME makes one, in NAME.pub")
    return keys


def _read(file: Path) -> List[PublicKey]:
    with one_line_errors(file), open(file, "rb") as stream:
        content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{file}: is too large for a file of public keys")
    if b"PRIVATE KEY" in content:
        raise UsageError(f"{file}: is a private key, which only signs; give the .pub file beside it")
    lines = content.decode("utf-8", "replace").splitlines()
    return [_key(line, f"{file}: line {number}") for number, line in enumerate(lines, 1) if _counts(line)]


def _counts(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _key(line: str, place: str) -> PublicKey:
    kind, _, rest = line.strip().partition(" ")
    encoded, _, name = rest.strip().partition(" ")
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if kind != KIND or len(raw) != 32:
        raise UsageError(f"{place}: is no public key; expected {KIND} BASE64 NAME")
    return PublicKey(raw, "".join(char for char in name if char.isprintable()) or "without a name")
