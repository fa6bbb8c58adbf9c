"""Opens ONNX files without copying their weights.

An ONNX file is one protobuf message with all weights inside. Parsing it would copy every weight twice, so big contents
are cut out first: in their place the slim message refers to external data in the file itself (an empty location).
``exporter.onnx.weights`` reads both kinds of external data as views of the file.
"""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, NamedTuple, Optional, Union

import onnx
from google.protobuf.message import DecodeError, EncodeError, Message

from exporter.common.source import FileOrBytes, InMemory, content_of
from runtime_arm.errors import ExportError, FormatError, first_line
from runtime_arm.netdef import wire

CUT_FROM = 1024  # bytes: shorter contents stay in the message
_DEEPEST = 100  # levels of nested messages; protobuf's own limit

# The fields of each message that lead to tensors (onnx.proto).
_INSIDE: Dict[str, Dict[int, str]] = {
    "ModelProto": {7: "GraphProto", 25: "FunctionProto"},
    "GraphProto": {1: "NodeProto", 5: "TensorProto", 15: "SparseTensorProto"},
    "FunctionProto": {7: "NodeProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {5: "TensorProto", 6: "GraphProto", 10: "TensorProto", 11: "GraphProto", 22: "SparseTensorProto"},
    "SparseTensorProto": {1: "TensorProto", 2: "TensorProto"},
}
# The fields whose bytes are plain little-endian values.
RAW_DATA, FLOAT_DATA, DOUBLE_DATA = 9, 4, 10
_CONTENTS = (RAW_DATA, FLOAT_DATA, DOUBLE_DATA)
_EXTERNAL_DATA, _DATA_LOCATION, _EXTERNAL = 13, 14, 1

Source = Union[FileOrBytes, onnx.ModelProto]


class OnnxFile(NamedTuple):
    """A parsed model whose big tensors refer to ``data``."""

    model: onnx.ModelProto
    data: memoryview
    source: str
    folder: Optional[str]


def open_onnx(source: Source) -> OnnxFile:
    """The model in a file, bytes or memory. ResourceError if the file cannot be read, FormatError if it holds none."""
    if isinstance(source, onnx.ModelProto):
        name = source.graph.name or "model"
        try:
            return parse_onnx(source.SerializeToString(), name, None)
        except (ValueError, EncodeError) as error:  # protobuf's limit of 2 GB
            raise ExportError(
                f"{name}: the model in memory cannot be encoded; give its file instead: {first_line(error)}"
            ) from error
    name, data = content_of(source)
    return parse_onnx(data, name, None if isinstance(source, InMemory) else os.path.dirname(os.path.abspath(name)))


def parse_onnx(data: Union[bytes, memoryview], source: str, folder: Optional[str]) -> OnnxFile:
    """The model in ``data``; external weights are in ``folder``. FormatError, naming ``source``, if there is none."""
    if not data:
        raise FormatError(f"{source}: the file is empty")
    buffer = wire.Buffer(data)
    try:
        slim = b"".join(_slim(buffer, "ModelProto", 0, len(data), 0))
        model = onnx.ModelProto.FromString(slim)
    except (wire.WireError, DecodeError) as error:
        raise FormatError(f"{source}: no ONNX model: {first_line(error)}") from error
    if not model.HasField("graph") or not model.opset_import:
        missing = "opset_import" if model.HasField("graph") else "graph"
        raise FormatError(f"{source}: no ONNX model: it has no {missing}")
    _require_text(model, source)
    return OnnxFile(model, buffer.view, source, folder)


def _require_text(message: Message, source: str) -> None:
    """FormatError if a string is not UTF-8. Protobuf does not check this in proto2: it returns bytes."""
    for field, value in message.ListFields():
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        for item in [value] if isinstance(value, (str, bytes, Message)) else value:
            if isinstance(item, Message):
                _require_text(item, source)
            elif isinstance(item, bytes):
                raise FormatError(f"{source}: no ONNX model: {field.full_name} is not UTF-8: {item[:40]!r}")


def _slim(buffer: wire.Buffer, message: str, at: int, stop: int, depth: int) -> Iterator[bytes]:
    """The bytes of a message without the big contents of the tensors in it."""
    if depth > _DEEPEST:
        raise wire.WireError(f"messages are nested more than {_DEEPEST} deep", at)
    inside = _INSIDE[message]
    kept_from = field_at = at
    for number, kind, start, end in buffer.fields(at, stop):
        if kind == wire.BYTES and number in inside and end - start >= CUT_FROM:
            yield bytes(buffer.view[kept_from:field_at])
            child = inside[number]
            parts: List[bytes] = list(
                _slim_tensor(buffer, start, end)
                if child == "TensorProto"
                else _slim(buffer, child, start, end, depth + 1)
            )
            yield wire.encode_tag(number, kind) + wire.encode_varint(sum(map(len, parts)))
            yield from parts
            kept_from = end
        field_at = end
    yield bytes(buffer.view[kept_from:stop])


def _slim_tensor(buffer: wire.Buffer, at: int, stop: int) -> Iterator[bytes]:
    """The tensor with a reference in place of its content. It comes last, so that it overrides the tensor's own."""
    references, field_at = [], at
    for number, kind, start, end in buffer.fields(at, stop):
        if kind == wire.BYTES and number in _CONTENTS and end - start >= CUT_FROM:
            references.append(_reference(number, start, end - start))
        else:
            yield bytes(buffer.view[field_at:end])
        field_at = end
    if len(references) > 1:
        raise wire.WireError("a tensor has its content twice", at)
    yield from references


def _reference(number: int, offset: int, nbytes: int) -> bytes:
    """Fields of a TensorProto that refer to content in this file."""
    entries = {"location": "", "offset": offset, "length": nbytes, "field": number}
    encoded = b"".join(
        _field(_EXTERNAL_DATA, _field(1, key.encode()) + _field(2, str(value).encode()))
        for key, value in entries.items()
    )
    return encoded + wire.encode_tag(_DATA_LOCATION, wire.VARINT) + wire.encode_varint(_EXTERNAL)


def _field(number: int, content: bytes) -> bytes:
    return wire.encode_tag(number, wire.BYTES) + wire.encode_varint(len(content)) + content
