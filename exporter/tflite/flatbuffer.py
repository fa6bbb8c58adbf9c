"""Reads untrusted FlatBuffers: every offset, vtable and length is checked before it is used.

    root = open_flatbuffer(data, b"TFL3", "Model")
    for tensor in root.tables("subgraphs", "SubGraph")[0].tables("tensors", "Tensor"):
        print(tensor.text("name"), tensor.integers("shape"))

``schema.py`` says which fields a table has. Tables may share parts, so a small file could expand to a huge model: the
total amount read is limited to a multiple of the file's size. Source of the format: FlatBuffers' "internals" page.
"""

from __future__ import annotations

import struct
from typing import Any, List, Optional, Union

import numpy as np

from exporter.tflite.schema import fields_of
from runtime_arm.errors import FormatError
from runtime_arm.netdef import Array

_SHARED = 16  # how often each byte may be read on average; real files seldom share parts
_TABLE = 64  # bytes that a table counts in addition to its own: as an object it takes more memory than in the file


class FlatBuffer:
    """The bytes of a file, with bounds checks."""

    def __init__(self, data: memoryview):
        self.data = data
        self.array: Array = np.frombuffer(data, np.uint8)
        self._left = _SHARED * len(data)

    def view(self, at: int, nbytes: int) -> memoryview:
        """The bytes at an offset; FormatError if they are not all inside the file."""
        if at < 0 or nbytes < 0 or at + nbytes > len(self.data):
            raise FormatError(f"{nbytes} bytes at {at} lie outside the file of {len(self.data)} bytes")
        return self.data[at : at + nbytes]

    def number(self, at: int, kind: str) -> int:
        """One integer by its ``struct`` format."""
        return int(struct.unpack(kind, self.view(at, struct.calcsize(kind)))[0])

    def spend(self, nbytes: int) -> None:
        """Count bytes that were read. FormatError if they exceed the limit."""
        self._left -= nbytes
        if self._left < 0:
            raise FormatError("its tables share parts so often that it expands beyond the limit")

    def follow(self, at: int) -> int:
        """The place that the offset at ``at`` points to."""
        offset = self.number(at, "<I")
        if offset == 0:
            raise FormatError(f"the offset at {at} is zero")
        return at + offset


class Table:
    """One table. Fields are named as in the schema; a name that the schema lacks is a KeyError, the caller's bug."""

    def __init__(self, buffer: FlatBuffer, at: int, kind: str):
        self._buffer, self._at, self.kind = buffer, at, kind
        self._vtable = at - buffer.number(at, "<i")
        vtable_size = buffer.number(self._vtable, "<H")
        self._size = buffer.number(self._vtable + 2, "<H")
        if vtable_size < 4 or vtable_size % 2 or self._size < 4:
            raise FormatError(f"the {kind} at {at} has a broken vtable")
        slots = buffer.view(self._vtable + 4, vtable_size - 4)
        self._slots = struct.unpack(f"<{len(slots) // 2}H", slots)
        buffer.view(at, self._size)
        buffer.spend(self._size + vtable_size + _TABLE)

    def knows(self, name: str) -> bool:
        """Whether the schema has such a field."""
        return name in fields_of(self.kind)

    def number(self, name: str) -> Union[int, float, bool]:
        """A number; the schema's default if it is absent."""
        field = fields_of(self.kind)[name]
        assert field.dtype is not None, name
        at = self._place(field.slot, np.dtype(field.dtype).itemsize)
        if at is None:
            return field.default  # type: ignore[no-any-return]
        return np.frombuffer(self._buffer.data, field.dtype, 1, at)[0].item()  # type: ignore[no-any-return]

    def integer(self, name: str) -> int:
        """An integer."""
        return int(self.number(name))

    def text(self, name: str) -> str:
        """A string; empty if it is absent."""
        return bytes(self.bytes(name)).decode("utf-8", "replace")

    def bytes(self, name: str) -> memoryview:
        """A vector of bytes; empty if it is absent."""
        at = self._pointed(name)
        return memoryview(b"") if at is None else self._buffer.view(at + 4, self._buffer.number(at, "<I"))

    def vector(self, name: str, dtype: str) -> Array:
        """A vector of numbers as a view of the file, with a little-endian dtype; empty if it is absent."""
        at = self._pointed(name)
        return np.empty(0, dtype) if at is None else self._vector(at, np.dtype(dtype).newbyteorder("<"))

    def integers(self, name: str, dtype: str = "i4") -> List[int]:
        """A short vector of integers."""
        values = self.vector(name, dtype)
        self._buffer.spend(values.nbytes)
        return values.tolist()  # type: ignore[no-any-return]

    def table(self, name: str, kind: str) -> Optional[Table]:
        """The table that a field points to."""
        at = self._pointed(name)
        return None if at is None else Table(self._buffer, at, kind)

    def tables(self, name: str, kind: str) -> List[Table]:
        """A vector of tables."""
        at = self._pointed(name)
        if at is None:
            return []
        offsets = self._vector(at, np.dtype("<u4"))
        self._buffer.spend(offsets.nbytes)
        places = range(at + 4, at + 4 + offsets.nbytes, 4)
        return [Table(self._buffer, self._buffer.follow(place), kind) for place in places]

    def texts(self, name: str) -> List[str]:
        """A vector of strings."""
        at = self._pointed(name)
        if at is None:
            return []
        offsets = self._vector(at, np.dtype("<u4"))
        self._buffer.spend(offsets.nbytes)
        places = [self._buffer.follow(place) for place in range(at + 4, at + 4 + offsets.nbytes, 4)]
        strings = [bytes(self._buffer.view(place + 4, self._buffer.number(place, "<I"))) for place in places]
        self._buffer.spend(sum(map(len, strings)))
        return [string.decode("utf-8", "replace") for string in strings]

    def _vector(self, at: int, dtype: np.dtype[Any]) -> Array:
        count = self._buffer.number(at, "<I")
        return np.frombuffer(self._buffer.view(at + 4, count * dtype.itemsize), dtype)

    def _pointed(self, name: str) -> Optional[int]:
        field = fields_of(self.kind)[name]
        assert field.dtype is None, name
        at = self._place(field.slot, 4)
        return None if at is None else self._buffer.follow(at)

    def _place(self, slot: int, nbytes: int) -> Optional[int]:
        """The field's place; None if it is absent."""
        offset = self._slots[slot] if slot < len(self._slots) else 0
        if offset == 0:
            return None
        if offset < 4 or offset + nbytes > self._size:
            raise FormatError(f"a field of the {self.kind} at {self._at} lies outside it")
        return self._at + offset


def open_flatbuffer(data: memoryview, identifier: bytes, kind: str) -> Table:
    """The root table. FormatError if the file has another identifier."""
    buffer = FlatBuffer(data)
    if len(data) < 8 or bytes(data[4:8]) != identifier:
        found = bytes(data[4:8]) if len(data) >= 8 else bytes(data)
        raise FormatError(f"the identifier at its start must be {identifier!r}, it is {found!r}")
    return Table(buffer, buffer.follow(0), kind)
