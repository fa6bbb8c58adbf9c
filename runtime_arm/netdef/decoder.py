"""Reads messages of any schema from protobuf's wire format, without protobuf and without copying large data.

A schema is a table of ``schema.Message``s: netdef.proto's in ``schema.py``, ONNX's in ``exporter/onnx/schema.py``.
Arrays are views of the bytes wherever the machine can use these in place. A protobuf message would hold every weight a
second time, and protobuf's pure-Python parser takes seconds to read them.
"""

from __future__ import annotations

import struct
from typing import Any, Optional, Union

import numpy as np

from runtime_arm.errors import FormatError
from runtime_arm.netdef import schema, wire
from runtime_arm.netdef.schema import Field, Message, Scalar
from runtime_arm.netdef.values import Array, frozen
from runtime_arm.netdef.wire import WireError

DEEPEST = 100  # levels of messages: a sub-net takes three, so nets can be nested 32 deep
MOST_MESSAGES = 1 << 20  # a message takes far more memory than bytes

DTYPE: dict[Scalar, np.dtype[Any]] = {schema.FLOAT: np.dtype("<f4"), schema.DOUBLE: np.dtype("<f8")}
FORMAT = {schema.FLOAT: "<f", schema.DOUBLE: "<d"}


def decode(kind: Message, data: Union[bytes, bytearray, memoryview], source: str = "") -> Any:
    """The value of the message in ``data``. FormatError names ``source``, the field and the byte."""
    decoder = _Decoder(data)
    try:
        return decoder.message(kind, 0, len(decoder.buffer.view), 0)
    except WireError as error:
        where = " ".join(error.path)
        at = "" if error.offset is None else f" (at byte {error.offset} of {len(decoder.buffer.view)})"
        raise FormatError(": ".join(part for part in (source, where, error.problem) if part) + at) from None


class _Decoder:
    def __init__(self, data: Union[bytes, bytearray, memoryview]):
        self.buffer = wire.Buffer(data)
        self.messages = 0

    def message(self, kind: Message, at: int, stop: int, depth: int) -> Any:
        """The value of the message between two offsets."""
        self.messages += 1
        if depth > DEEPEST or self.messages > MOST_MESSAGES:
            limit = f"{DEEPEST} levels deep" if depth > DEEPEST else f"{MOST_MESSAGES} messages"
            raise WireError(f"the message is larger than the limit of {limit}", at)
        found: dict[str, Any] = {}
        field = None
        try:
            for number, wire_type, begin, end in self.buffer.fields(at, stop, kind.runs):
                field = kind.by_number.get(number)
                if field is not None:
                    self._take(found, field, wire_type, begin, end, depth)
                    field = None
            return _build(kind, found)
        except WireError as error:
            _add_to_path(error, kind, found, field or kind.by_number.get(error.number or 0))
            raise

    def _take(self, found: dict[str, Any], field: Field, wire_type: int, at: int, end: int, depth: int) -> None:
        """Put the value of a field into ``found``: the last one counts; those of a repeated field are collected."""
        name, kind = field.name, field.type
        if isinstance(kind, Message):
            if wire_type != wire.BYTES:
                raise WireError(f"wire type {wire_type} where a message is expected", at)
            if name in found and not field.repeated:
                raise WireError("the field occurs twice", at)
            value = self.message(kind, at, end, depth + 1)
        elif field.is_array:
            value = self._numbers(kind, wire_type, at, end)
        else:
            value = self._scalar(kind, wire_type, at, end)
        if field.repeated:
            found.setdefault(name, []).append(value)
        else:
            found[name] = value

    def _scalar(self, kind: Scalar, wire_type: int, at: int, end: int) -> Any:
        if wire_type != kind.wire:
            raise WireError(f"wire type {wire_type} where a {kind.name} is expected", at)
        if kind is schema.STRING:
            try:
                return str(self.buffer.view[at:end], "utf-8")
            except UnicodeDecodeError:
                raise WireError("a string that is not UTF-8", at) from None
        if kind is schema.BYTES:
            return bytes(self.buffer.view[at:end])
        if kind is schema.VIEW:
            return self.buffer.view[at:end]
        if kind in FORMAT:
            return struct.unpack_from(FORMAT[kind], self.buffer.view, at)[0]
        return as_integer(kind, self.buffer.varint(at, end)[0])

    def _numbers(self, kind: Scalar, wire_type: int, at: int, end: int) -> Array:
        """The array of a packed field or of an unpacked run, whose span starts with a tag."""
        if wire_type == wire.BYTES:
            if kind.wire == wire.VARINT:
                return self.buffer.packed_varints(at, end)
            return self.buffer.packed_fixed(at, end, DTYPE[kind])
        if wire_type != kind.wire:
            raise WireError(f"wire type {wire_type} where a {kind.name} is expected", at)
        if kind.wire == wire.VARINT:
            return self.buffer.unpacked_varints(at, end)
        return self.buffer.unpacked_fixed(at, end, DTYPE[kind])


def as_integer(kind: Scalar, value: int) -> Union[int, bool]:
    """A varint as an integer of the type that the schema declares, truncated to its width as protobuf does."""
    if kind is schema.BOOL:
        return value != 0
    if kind is schema.UINT32:
        return value & 0xFFFFFFFF
    bits = 64 if kind is schema.INT64 else 32
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _build(kind: Message, found: dict[str, Any]) -> Any:
    for name, value in found.items():
        if isinstance(value, list):
            found[name] = _joined(value) if name in kind.arrays else tuple(value)
    return kind.build(**found)


def _joined(arrays: list[Array]) -> Array:
    return frozen(arrays[0] if len(arrays) == 1 else np.concatenate(arrays))


def _add_to_path(error: WireError, kind: Message, found: dict[str, Any], field: Optional[Field]) -> None:
    error.number = None
    if field is not None:
        index = f"[{len(found.get(field.name, ()))}]" if field.repeated and not field.is_array else ""
        error.path.insert(0, field.name + index)
    title = kind.title(found)
    if title:
        error.path.insert(0, title)
