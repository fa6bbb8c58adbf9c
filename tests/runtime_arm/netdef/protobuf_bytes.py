"""Protobuf's wire format written by hand, independent of the code under test."""

from __future__ import annotations

import struct
from typing import Iterable


def varint(value: int) -> bytes:
    """A varint; negative values take ten bytes."""
    value %= 1 << 64
    low, value = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(value) if value else bytes([low])


def integer(number: int, value: int) -> bytes:
    """A varint field."""
    return varint(number << 3) + varint(value)


def single(number: int, value: float) -> bytes:
    """A float field."""
    return varint(number << 3 | 5) + struct.pack("<f", value)


def double(number: int, value: float) -> bytes:
    """A double field."""
    return varint(number << 3 | 1) + struct.pack("<d", value)


def content(number: int, *parts: bytes) -> bytes:
    """A field of bytes, of a string, or of a message."""
    joined = b"".join(parts)
    return varint(number << 3 | 2) + varint(len(joined)) + joined


def packed(number: int, values: Iterable[int]) -> bytes:
    """A packed field of varints."""
    return content(number, *map(varint, values))


def net(*operator_fields: bytes) -> bytes:
    """A net of one operator."""
    return content(2, *operator_fields)


def argument(*fields: bytes) -> bytes:
    """A net of one operator "Op" with one argument "x"."""
    return net(content(4, b"Op"), content(5, content(1, b"x"), *fields))


def tensor(*fields: bytes) -> bytes:
    """A net of one operator "Op" whose argument "x" is a TensorProto."""
    return argument(content(10, *fields))
