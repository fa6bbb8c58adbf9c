"""NetDef <-> bytes: reads and writes protobuf's wire format without protobuf and without copying weights.

A protobuf message would hold every weight a second time, and the pure-Python parser takes seconds to read them. Here
arrays are views of the bytes wherever the machine can use those in place, and the writer yields pieces.
"""

from __future__ import annotations

import struct
from typing import Any, Iterator, Optional, Union

import numpy as np

from runtime_arm.errors import FormatError
from runtime_arm.netdef import schema, wire
from runtime_arm.netdef.schema import Field, Message, Scalar
from runtime_arm.netdef.tensors import array_of_fields, fields_of_array
from runtime_arm.netdef.values import Array, NetDef, frozen, shown
from runtime_arm.netdef.wire import UnpackedRun, WireError, encode_tag, encode_varint

DEEPEST = 100  # levels of messages: a sub-net takes three, so nets can be nested 32 deep
MOST_MESSAGES = 1 << 20  # a message takes far more memory than bytes
ALIGNMENT = 64  # bytes; the writer aligns raw_data of at least that size

_DTYPE: dict[Scalar, np.dtype[Any]] = {schema.FLOAT: np.dtype("<f4"), schema.DOUBLE: np.dtype("<f8")}
_FORMAT = {schema.FLOAT: "<f", schema.DOUBLE: "<d"}
_LABEL = {schema.OPERATOR: "type", schema.ARGUMENT: "name"}

Piece = Union[bytes, memoryview, UnpackedRun]


def decode_net(data: Union[bytes, bytearray, memoryview], source: str = "") -> NetDef:
    """The net in ``data``. FormatError names ``source``, the field and the byte. See ``NetDef.from_bytes``."""
    decoder = _Decoder(data)
    try:
        net: NetDef = decoder.message(schema.NET, 0, len(decoder.buffer.view), 0)
    except WireError as error:
        where = " ".join(error.path)
        at = "" if error.offset is None else f" (at byte {error.offset} of {len(decoder.buffer.view)})"
        raise FormatError(": ".join(part for part in (source, where, error.problem) if part) + at) from None
    return net


class _Decoder:
    def __init__(self, data: Union[bytes, bytearray, memoryview]):
        self.buffer = wire.Buffer(data)
        self.messages = 0

    def message(self, kind: Message, at: int, stop: int, depth: int) -> Any:
        """The value of the message that lies between two offsets."""
        self.messages += 1
        if depth > DEEPEST or self.messages > MOST_MESSAGES:
            limit = f"{DEEPEST} levels deep" if depth > DEEPEST else f"{MOST_MESSAGES} messages"
            raise WireError(f"the net is larger than the limit of {limit}", at)
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
        if kind in _FORMAT:
            return struct.unpack_from(_FORMAT[kind], self.buffer.view, at)[0]
        return _integer(kind, self.buffer.varint(at, end)[0])

    def _numbers(self, kind: Scalar, wire_type: int, at: int, end: int) -> Array:
        """The array of a packed field or of an unpacked run, whose span starts with a tag."""
        if wire_type == wire.BYTES:
            if kind.wire == wire.VARINT:
                return self.buffer.packed_varints(at, end)
            return self.buffer.packed_fixed(at, end, _DTYPE[kind])
        if wire_type != kind.wire:
            raise WireError(f"wire type {wire_type} where a {kind.name} is expected", at)
        if kind.wire == wire.VARINT:
            return self.buffer.unpacked_varints(at, end)
        return self.buffer.unpacked_fixed(at, end, _DTYPE[kind])


def _integer(kind: Scalar, value: int) -> Union[int, bool]:
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
            found[name] = _joined(value) if isinstance(value[0], np.ndarray) and name != "tensors" else tuple(value)
    return array_of_fields(found) if kind.build is None else kind.build(**found)


def _joined(arrays: list[Array]) -> Array:
    return frozen(arrays[0] if len(arrays) == 1 else np.concatenate(arrays))


def _add_to_path(error: WireError, kind: Message, found: dict[str, Any], field: Optional[Field]) -> None:
    error.number = None
    if field is not None:
        index = f"[{len(found.get(field.name, ()))}]" if field.repeated and not field.is_array else ""
        error.path.insert(0, field.name + index)
    label = found.get(_LABEL.get(kind, ""))
    if label:
        error.path.insert(0, repr(label[:40]) if kind is schema.ARGUMENT else shown(label))


def encode_net(net: NetDef) -> Iterator[Union[bytes, memoryview]]:
    """The net's bytes in pieces; arrays are not copied. FormatError for values that the format cannot hold."""
    offset = 0
    for field in schema.NET.fields:
        for item in _items(field, vars(net)):
            pieces = _aligned(field, item, offset)
            offset += sum(map(len, pieces))
            yield from _written(pieces)


def _written(pieces: list[Piece]) -> Iterator[Union[bytes, memoryview]]:
    """The pieces, with consecutive small ones joined and runs encoded."""
    small: list[bytes] = []
    for piece in pieces:
        if isinstance(piece, bytes):
            small.append(piece)
            continue
        yield b"".join(small)
        small.clear()
        if isinstance(piece, UnpackedRun):
            yield from piece.blocks()
        else:
            yield piece
    yield b"".join(small)


def _aligned(field: Field, item: Any, offset: int) -> list[Piece]:
    """The field's pieces, with filler so that the first big raw_data lies at a multiple of ALIGNMENT in the file."""
    blanks = 0
    while True:
        pieces = _field(field, item, blanks)
        gap = -(offset + _position_of_raw(pieces)) % ALIGNMENT
        if not gap or _position_of_raw(pieces) < 0:
            return pieces
        blanks += gap


def _position_of_raw(pieces: list[Piece]) -> int:
    """The offset of the first big raw_data in the pieces, or -1 if there is none."""
    position = 0
    for piece in pieces:
        if isinstance(piece, memoryview) and len(piece) >= ALIGNMENT:
            return position
        position += len(piece)
    return -1


def _items(field: Field, values: dict[str, Any]) -> Any:
    """The items to write for the field: an array is one item, an absent value none."""
    value = values.get(field.name)
    if value is None:
        return ()
    if field.is_array:
        return (value,) if len(value) else ()
    if field.repeated:
        return value
    return () if field.default is not None and value == field.default else (value,)


def _field(field: Field, item: Any, blanks: int) -> list[Piece]:
    kind = field.type
    if isinstance(kind, Message):
        pieces = _message(kind, item, blanks)
        size = sum(map(len, pieces))
        return [encode_tag(field.number, wire.BYTES) + encode_varint(size), *pieces]
    tag = encode_tag(field.number, kind.wire)
    if field.is_array:
        return [UnpackedRun(tag, np.asarray(item, _DTYPE.get(kind, np.dtype(np.int64))))]
    if kind.wire == wire.BYTES:
        content = item.encode() if kind is schema.STRING else item
        return [tag + encode_varint(len(content)), content]
    return [tag + _encode_number(field, item)]


def _message(kind: Message, value: Any, blanks: int) -> list[Piece]:
    if kind is schema.TENSOR:
        # filler in small tensors, too, would move a big one behind them by a multiple of what it should
        values = fields_of_array(value, blanks if value.nbytes >= ALIGNMENT else 0)
    else:
        values = vars(value)
    return [piece for field in kind.fields for item in _items(field, values) for piece in _field(field, item, blanks)]


def _encode_number(field: Field, value: Any) -> bytes:
    """A number in its wire type. FormatError if it does not fit the type that the schema declares."""
    kind: Any = field.type
    try:
        if kind in _FORMAT:
            return struct.pack(_FORMAT[kind], value)
        fits = _integer(kind, int(value)) == value
    except (OverflowError, struct.error):
        fits = False
    if not fits:
        raise FormatError(f"{field.name} = {value} does not fit {kind.name}")
    return encode_varint(int(value))
