"""Reads FlexBuffers, FlatBuffers' format without a schema: maps of numbers and of vectors of numbers, the
options of custom operators.

Every offset is checked. Source of the format: FlatBuffers' "internals" page.
"""

from __future__ import annotations

import struct
from typing import Dict, Iterator, List, Optional, Tuple, Union

from runtime_arm.errors import ExportError

Number = Union[int, float, bool]
_INT, _UINT, _FLOAT, _INDIRECT_INT, _INDIRECT_UINT, _INDIRECT_FLOAT, _MAP, _BOOL = 1, 2, 3, 6, 7, 8, 9, 26
_FORMATS = {_INT: "bhiq", _UINT: "BHIQ", _FLOAT: "?efd", _BOOL: "BHIQ"}
_VECTOR, _TYPED = 10, {11: _INT, 12: _UINT, 13: _FLOAT, 36: _BOOL}
_FIXED = {16 + 3 * (count - 2) + kind - _INT: (kind, count) for count in (2, 3, 4) for kind in (_INT, _UINT, _FLOAT)}
_DIRECT = {_INDIRECT_INT: _INT, _INDIRECT_UINT: _UINT, _INDIRECT_FLOAT: _FLOAT}


def read_map(data: bytes) -> Dict[str, Number]:
    """The numbers of a map by key; values of other types are left out. ExportError for anything but a map."""
    return {name: value for name, place in _entries(data) if (value := _value(data, *place)) is not None}


def read_vectors(data: bytes) -> Dict[str, List[Number]]:
    """The vectors of numbers of a map by key. ExportError for anything but a map."""
    return {name: values for name, place in _entries(data) if (values := _vector(data, *place)) is not None}


def _entries(data: bytes) -> Iterator[Tuple[str, Tuple[int, int, int]]]:
    """Each key of a map, and where its value lies: the place, the bytes that it takes, and its packed type."""
    if len(data) < 3:
        raise ExportError("its options are no map")
    width, kind = data[-1], data[-2]
    if kind >> 2 != _MAP or width not in (1, 2, 4, 8):
        raise ExportError("its options are no map")
    at = _follow(data, len(data) - 2 - width, width)
    width = 1 << (kind & 3)
    keys = _follow(data, at - 3 * width, width)
    key_width, count = _uint(data, at - 2 * width, width), _uint(data, at - width, width)
    if key_width not in (1, 2, 4, 8) or count > len(data):
        raise ExportError("its options are a broken map")
    for index in range(count):
        name = _key(data, _follow(data, keys + index * key_width, key_width))
        yield name, (at + index * width, width, _bytes(data, at + count * width + index, 1)[0])


def _vector(data: bytes, at: int, width: int, packed: int) -> Optional[List[Number]]:
    """The numbers of a vector; None for another type of value. A vector's length lies before it, or in its type."""
    kind, element = packed >> 2, 1 << (packed & 3)
    if kind != _VECTOR and kind not in _TYPED and kind not in _FIXED:
        return None
    at = _follow(data, at, width)
    if kind in _FIXED:
        inner, count = _FIXED[kind]
    else:
        inner, count = _TYPED.get(kind, 0), _uint(data, at - element, element)
    if count > len(data):
        raise ExportError("its options are a broken vector")
    types = [inner << 2 | (packed & 3)] * count if inner else list(_bytes(data, at + count * element, count))
    values = [_value(data, at + index * element, element, type) for index, type in enumerate(types)]
    return [value for value in values if value is not None]


def _value(data: bytes, at: int, width: int, packed: int) -> Optional[Number]:
    kind = packed >> 2
    if kind in _DIRECT:
        at, width, kind = _follow(data, at, width), 1 << (packed & 3), _DIRECT[kind]
    if kind not in _FORMATS or (kind == _FLOAT and width == 1):
        return None
    (value,) = struct.unpack("<" + _FORMATS[kind][width.bit_length() - 1], _bytes(data, at, width))
    return bool(value) if kind == _BOOL else value


def _follow(data: bytes, at: int, width: int) -> int:
    """The place that an offset points to; offsets count backwards."""
    return at - _uint(data, at, width)


def _uint(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(_bytes(data, at, width), "little")


def _bytes(data: bytes, at: int, count: int) -> bytes:
    if at < 0 or at + count > len(data):
        raise ExportError("its options point outside themselves")
    return data[at : at + count]


def _key(data: bytes, at: int) -> str:
    end = data.find(b"\0", max(at, 0))
    if at < 0 or end < 0:
        raise ExportError("its options point outside themselves")
    return data[at:end].decode("utf-8", "replace")
