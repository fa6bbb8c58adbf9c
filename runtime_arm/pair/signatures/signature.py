"""The signature of a bundle: its place in the file, what it covers, and who made it.

It is the comment at the end of the archive (APPNOTE 4.3.16), as text: ``armnet-signature-1 `` and 128 hexadecimal
digits. It covers every byte of the file before the comment, with the length of the comment as 0: the file as it was
before it was signed. The signed message is ``armnet-bundle-1``, a zero byte and the SHA-512 of these bytes.
"""

from __future__ import annotations

import hashlib
import struct
import time
from typing import Iterator, NamedTuple, Sequence

from runtime_arm.errors import PairError
from runtime_arm.files import AnyPath
from runtime_arm.pair.signatures import ed25519
from runtime_arm.pair.signatures.keys import PublicKey

_PREFIX = b"armnet-signature-1 "
_CONTEXT = b"armnet-bundle-1\0"
_COMMENT_NBYTES = len(_PREFIX) + 128
_END_NBYTES = 22  # of the end of central directory record, whose last two bytes are the comment's length
_END_MARK = b"PK\5\6"
_NO_COMMENT = bytes(2)
_CHUNK = 1 << 20


class Verified(NamedTuple):
    """key: the one with which the bundle was signed. seconds: the time that the verification took."""

    key: PublicKey
    seconds: float

    def text(self) -> str:
        """A line for people."""
        who = f"signed by {self.key.name} ({self.key.fingerprint})"
        return f"{who}, not changed since; verified in {1e3 * self.seconds:.0f} ms"


def message_of(data: memoryview) -> bytes:
    """The message to sign, for a bundle's content without a signature."""
    digest = hashlib.sha512()
    for chunk in _before_comment(data):
        digest.update(chunk)
    digest.update(_NO_COMMENT)
    return _CONTEXT + digest.digest()


def signed(data: memoryview, signature: bytes) -> Iterator[memoryview]:
    """The content of a bundle without a signature, with this one."""
    yield from _before_comment(data)
    comment = _PREFIX + signature.hex().encode()
    yield memoryview(struct.pack("<H", len(comment)) + comment)


def is_signed(data: memoryview) -> bool:
    """Whether a bundle's content ends with a signature, valid or not."""
    return bytes(data[-_COMMENT_NBYTES:]).startswith(_PREFIX)


def require_signature(data: memoryview, keys: Sequence[PublicKey], path: AnyPath) -> Verified:
    """The trusted key with which the content of a bundle was signed.

    PairError, naming the file, if it has no signature, was signed with another key, or a byte of it has changed.
    """
    start = time.perf_counter()
    if not is_signed(data):
        raise PairError(f"{path}: has no signature; armnet pack --sign KEY makes one")
    end = len(data) - _COMMENT_NBYTES
    record, text = bytes(data[max(0, end - _END_NBYTES) : end]), bytes(data[end + len(_PREFIX) :])
    try:
        signature = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        signature = b""
    states_length = record.startswith(_END_MARK) and record[-2:] == struct.pack("<H", _COMMENT_NBYTES)
    if not states_length or signature.hex().encode() != text:
        raise PairError(f"{path}: its signature is damaged")
    message = message_of(data[:end])
    for key in keys:
        if ed25519.verify(key.raw, message, signature):
            return Verified(key, time.perf_counter() - start)
    trusted = ", ".join(f"{key.name} ({key.fingerprint})" for key in keys)
    raise PairError(f"{path}: was changed after it was signed, or signed by somebody else than {trusted}")


def _before_comment(data: memoryview) -> Iterator[memoryview]:
    end = len(data) - len(_NO_COMMENT)
    for start in range(0, end, _CHUNK):
        yield data[start : min(start + _CHUNK, end)]
