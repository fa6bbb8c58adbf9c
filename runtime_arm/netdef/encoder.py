"""NetDef -> bytes: writes protobuf's wire format without protobuf and without copying weights, in pieces."""

from __future__ import annotations

import struct
from typing import Any, Iterator, Union

import numpy as np

from runtime_arm.errors import FormatError
from runtime_arm.netdef import schema, wire
from runtime_arm.netdef.decoder import DTYPE, FORMAT, as_integer
from runtime_arm.netdef.schema import Field, Message
from runtime_arm.netdef.tensors import fields_of_array
from runtime_arm.netdef.values import NetDef
from runtime_arm.netdef.wire import UnpackedRun, encode_tag, encode_varint

ALIGNMENT = 64  # bytes: of raw_data of at least LARGE bytes, read in whole cache lines
SMALL_ALIGNMENT = 16  # of smaller raw_data, from ALIGNMENT bytes on; nets of small layers have many
LARGE = 4096
FILLER_HEADER = 2  # bytes, of a field of fewer than 128 characters


Piece = Union[bytes, memoryview, UnpackedRun]


def encode_net(net: NetDef) -> Iterator[Union[bytes, memoryview]]:
    """The net's bytes in pieces.

    Arrays are not copied, except small ones of a net that is narrow. FormatError for values that the format cannot
    hold.
    """
    offset, narrow = 0, net.is_narrow
    for field in schema.NET.fields:
        for item in _items(field, vars(net)):
            pieces = _aligned(field, item, offset, narrow)
            offset += sum(map(len, pieces))
            yield from _written(pieces)


def encode(kind: Message, value: Any) -> bytes:
    """The bytes of one message, whose fields are attributes of ``value``."""
    return b"".join(map(bytes, _written(_message(kind, value, 0, narrow=False))))


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


def _aligned(field: Field, item: Any, offset: int, narrow: bool) -> list[Piece]:
    """The field's pieces, with filler so that the first raw_data that is not tiny is aligned in the file."""
    blanks = 0
    while True:
        pieces = _field(field, item, blanks, narrow)
        gap = _gap(pieces, offset)
        if not gap:
            return pieces
        blanks += gap if blanks or gap <= FILLER_HEADER else gap - FILLER_HEADER


def _gap(pieces: list[Piece], offset: int) -> int:
    """How many bytes of filler align the first raw_data that is not tiny; 0 if there is none."""
    for piece in pieces:
        if isinstance(piece, memoryview) and len(piece) >= ALIGNMENT:
            return -offset % (ALIGNMENT if len(piece) >= LARGE else SMALL_ALIGNMENT)
        offset += len(piece)
    return 0


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


def _field(field: Field, item: Any, blanks: int, narrow: bool) -> list[Piece]:
    kind = field.type
    if isinstance(kind, Message):
        pieces = _message(kind, item, blanks, narrow)
        size = sum(map(len, pieces))
        return [encode_tag(field.number, wire.BYTES) + encode_varint(size), *pieces]
    tag = encode_tag(field.number, kind.wire)
    if field.is_array:
        return [UnpackedRun(tag, np.asarray(item, DTYPE.get(kind, np.dtype(np.int64))))]
    if kind.wire == wire.BYTES:
        content = item.encode() if kind is schema.STRING else item
        return [tag + encode_varint(len(content)), content]
    return [tag + _encode_number(field, item)]


def _message(kind: Message, value: Any, blanks: int, narrow: bool) -> list[Piece]:
    if kind is schema.TENSOR:
        # filler in small tensors would be added to that of a big one after them
        values = fields_of_array(value, blanks if value.nbytes >= ALIGNMENT else 0, narrow)
    else:
        values = vars(value)
    return [
        piece
        for field in kind.fields
        for item in _items(field, values)
        for piece in _field(field, item, blanks, narrow)
    ]


def _encode_number(field: Field, value: Any) -> bytes:
    """A number in its wire type. FormatError if it does not fit the type that the schema declares."""
    kind: Any = field.type
    try:
        if kind in FORMAT:
            return struct.pack(FORMAT[kind], value)
        fits = as_integer(kind, int(value)) == value
    except (OverflowError, struct.error):
        fits = False
    if not fits:
        raise FormatError(f"{field.name} = {value} does not fit {kind.name}")
    return encode_varint(int(value))
