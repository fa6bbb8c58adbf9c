"""Verifies Ed25519 signatures in pure Python. Source: RFC 8032, sections 5.1.3, 5.1.4 and 5.1.7.

Points of the curve -x^2 + y^2 = 1 + d x^2 y^2 over the integers modulo P = 2^255 - 19 are represented as (X, Y, Z, T)
with x = X / Z, y = Y / Z and x y = T / Z. A verification takes some 4 ms on a desktop, half as long as importing the
package cryptography. Nothing in it is secret, so it need not take the same time for every input. Signatures are made by
the package cryptography.
"""

from __future__ import annotations

import hashlib
from typing import List, Optional, Tuple

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493  # of the base point
_D = -121665 * pow(121666, P - 2, P) % P
_ROOT = pow(2, (P - 1) // 4, P)  # of -1
_WINDOW = 4  # bits of a scalar per window

Point = Tuple[int, int, int, int]
_NEUTRAL: Point = (0, 1, 1, 0)


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the signature (64 bytes) of the message was made with the secret of the public key (32 bytes).

    S must be below the group's order, and the encodings of points the canonical ones, so that no second signature can
    be derived from a first.
    """
    if len(public_key) != 32 or len(signature) != 64:
        return False
    key, r = _decoded(public_key), signature[:32]
    s = int.from_bytes(signature[32:], "little")
    if key is None or s >= ORDER:
        return False
    h = int.from_bytes(hashlib.sha512(r + public_key + message).digest(), "little") % ORDER
    x, y, z, t = key
    return _encoded(_two_products(s, _BASE, h, (P - x, y, z, P - t))) == r


def _added(a: Point, b: Point) -> Point:
    """RFC 8032, 5.1.4: the formulas hold for all points, including equal ones and the neutral one."""
    u, v = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    t, z = 2 * a[3] * b[3] * _D % P, 2 * a[2] * b[2] % P
    e, f, g, h = v - u, z - t, z + t, v + u
    return e * f % P, g * h % P, f * g % P, e * h % P


def _doubled(a: Point) -> Point:
    x, y, z = a[0] * a[0] % P, a[1] * a[1] % P, 2 * a[2] * a[2] % P
    h = x + y
    e, g = h - (a[0] + a[1]) ** 2 % P, x - y
    f = z + g
    return e * f % P, g * h % P, f * g % P, e * h % P


def _multiples(point: Point) -> List[Point]:
    """0 to 15 times the point."""
    found = [_NEUTRAL]
    for _ in range((1 << _WINDOW) - 1):
        found.append(_added(found[-1], point))
    return found


def _two_products(m: int, a: Point, n: int, b: Point) -> Point:
    """m a + n b, both at once, window by window from the highest (Straus)."""
    of_a, of_b, total = _multiples(a), _multiples(b), _NEUTRAL
    mask = (1 << _WINDOW) - 1
    for shift in range(256 - _WINDOW, -1, -_WINDOW):
        for _ in range(_WINDOW):
            total = _doubled(total)
        for digits, multiples in ((m >> shift & mask, of_a), (n >> shift & mask, of_b)):
            if digits:
                total = _added(total, multiples[digits])
    return total


def _decoded(encoded: bytes) -> Optional[Point]:
    """The point with this encoding: its y, and in the highest bit the sign of x.

    None if there is none, or if the encoding is not the canonical one.
    """
    number = int.from_bytes(encoded, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * _ROOT % P
    if x * x % P != square or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


def _encoded(point: Point) -> bytes:
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _base() -> Point:
    found = _decoded((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))
    assert found is not None
    return found


_BASE = _base()
