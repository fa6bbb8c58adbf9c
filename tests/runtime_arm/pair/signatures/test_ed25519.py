"""Ed25519 against the vectors of RFC 8032, section 7.1, against the package cryptography, and against forgeries."""

from __future__ import annotations

import os

import pytest

from runtime_arm.pair.signatures import ed25519

# public key, message, signature
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe2465"
        "5141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb0"
        "0d291612bb0c00",
    ),
]


@pytest.mark.parametrize(("key", "message", "signature"), VECTORS)
def test_the_vectors_of_the_standard(key: str, message: str, signature: str) -> None:
    raw, content, whole = bytes.fromhex(key), bytes.fromhex(message), bytes.fromhex(signature)
    assert ed25519.verify(raw, content, whole)
    assert not ed25519.verify(raw, content + b"x", whole)
    for place in range(64):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        assert not ed25519.verify(raw, content, bytes(changed)), place


def test_nobody_makes_a_second_signature_of_a_first() -> None:
    """S + L solves the same equation, and is refused, as RFC 8032 5.1.7 demands."""
    key, message, signature = (bytes.fromhex(text) for text in VECTORS[0])
    other = int.from_bytes(signature[32:], "little") + ed25519.ORDER
    assert not ed25519.verify(key, message, signature[:32] + other.to_bytes(32, "little"))


@pytest.mark.parametrize(
    ("key", "signature"),
    [
        (b"", bytes(64)),
        (bytes(31), bytes(64)),
        (bytes(32), bytes(63)),
        (b"\xff" * 32, bytes(64)),
        (b"\2" + bytes(31), bytes(64)),
    ],
    ids=["no key", "short key", "short signature", "y beyond the field", "no point of the curve"],
)
def test_what_is_no_key_verifies_nothing(key: bytes, signature: bytes) -> None:
    assert not ed25519.verify(key, b"", signature)


def test_it_agrees_with_cryptography() -> None:
    keys = pytest.importorskip(
        "cryptography.hazmat.primitives.asymmetric.ed25519", reason="the package cryptography is not installed"
    )
    for size in range(12):
        secret, message = keys.Ed25519PrivateKey.generate(), os.urandom(size)
        raw = secret.public_key().public_bytes_raw()
        assert ed25519.verify(raw, message, secret.sign(message))
        assert not ed25519.verify(raw, message, keys.Ed25519PrivateKey.generate().sign(message))
