"""Makes keys and signatures, by the package cryptography. Verifying is ``runtime_arm.pair.signatures``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Tuple

from runtime_arm.errors import UsageError
from runtime_arm.files import AnyPath, one_line_errors, write_file
from runtime_arm.imports import needed_for
from runtime_arm.pair.signatures.keys import PublicKey

_PURPOSE = "signing"
_MOST_BYTES = 1 << 16  # of a file with a secret key


def new_keys(name: AnyPath) -> Tuple[Path, Path, PublicKey]:
    """Write a new secret key to NAME.key, PKCS 8 in PEM that only its owner can read, and the public one to NAME.pub.

    Returns the two paths and the public key. UsageError if one of the files exists.
    """
    with needed_for(_PURPOSE):
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    place = Path(name)
    secret, public = place.with_name(f"{place.name}.key"), place.with_name(f"{place.name}.pub")
    for path in (secret, public):
        if path.exists():
            raise UsageError(f"{path}: exists already, and keys are not replaced; choose another name")
    made = Ed25519PrivateKey.generate()
    content = made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with one_line_errors(secret):
        descriptor = os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    key = PublicKey(_raw(made), place.name)
    write_file(public, [key.to_text().encode()])
    return secret, public, key


class SigningKey:
    """A secret key, read from a file. UsageError, naming the file, if it holds none."""

    def __init__(self, path: AnyPath):
        with needed_for(_PURPOSE):
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        with one_line_errors(path), open(path, "rb") as file:
            content = file.read(_MOST_BYTES)
        try:
            self._key: Any = serialization.load_pem_private_key(content, None)
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}: is no secret key that armnet keys new made: {error}") from None
        if not isinstance(self._key, Ed25519PrivateKey):
            raise UsageError(f"{path}: is a key of another kind than Ed25519")
        self.public = PublicKey(_raw(self._key), Path(path).stem)

    def sign(self, message: bytes) -> bytes:
        """The signature, 64 bytes."""
        return bytes(self._key.sign(message))


def _raw(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return bytes(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
