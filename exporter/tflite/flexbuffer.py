"""Reads FlexBuffers, FlatBuffers' format without a schema: maps of numbers, the options of custom operators.

Every offset is checked. Source of the format: FlatBuffers' "internals" page.
"""

from __future__ import annotations

import struct
from typing import Dict, Union

from runtime_arm.errors import ExportError

Number = Union[int, float, bool]
_INT, _UINT, _FLOAT, _INDIRECT_INT, _INDIRECT_UINT, _INDIRECT_FLOAT, _MAP, _BOOL = 1, 2, 3, 6, 7, 8, 9, 26
_FORMATS = {_INT: "bhiq", _UINT: "BHIQ", _FLOAT: "?efd", _BOOL: "BHIQ"}
_DIRECT = {_INDIRECT_INT: _INT, _INDIRECT_UINT: _UINT, _INDIRECT_FLOAT: _FLOAT}


def read_map(data: bytes) -> Dict[str, Number]:
    """The numbers of a map by key; values of other types are left out. ExportError for anything but a map."""
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
    entries: Dict[str, Number] = {}
    for index in range(count):
        name = _key(data, _follow(data, keys + index * key_width, key_width))
        packed = _bytes(data, at + count * width + index, 1)[0]
        value = _value(data, at + index * width, width, packed)
        if value is not None:
            entries[name] = value
    return entries


def _value(data: bytes, at: int, width: int, packed: int) -> Union[Number, None]:
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
