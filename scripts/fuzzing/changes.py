"""Random changes of model files: of bytes, of numbers in a text, of fields of a protobuf, of words of a FlatBuffer."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np

from runtime_arm.pair.archive import MANIFEST, PAIR_FOLDER
from runtime_arm.pair.metadata import FILES, MODEL
from scripts.fuzzing.corpus import Model

NUMBERS = (
    "0",
    "-1",
    "1",
    "2147483647",
    "2147483648",
    "-2147483648",
    "9223372036854775807",
    "1e400",
    "nan",
    "4294967296",
)
BYTES = (b"\0", b"\xff", b"\x7f", b"\x80", b"\xff" * 4, b"\xff" * 8, b"\xff\xff\xff\xff\x07", b"\x80" * 9 + b"\x01")
TEXTS = (".prototxt", ".json")
PROTOBUFS = (".onnx", ".pb", ".caffemodel")
SMALL = 20  # numbers that a file believes more readily are below this
VARINT, FIXED64, BYTES_FIELD, FIXED32 = 0, 1, 2, 5  # wire types of protobuf
FIXED = {FIXED64: 8, FIXED32: 4}


def changed(model: Model, rng: np.random.Generator) -> Model:
    """The model with a few changes in one of its files, or in two; mostly hashes are updated to match."""
    files = dict(model.files)
    for name in rng.choice(sorted(files), size=min(len(files), 1 + int(rng.random() < 0.2)), replace=False):
        for _ in range(int(rng.choice([1, 1, 1, 2, 4]))):
            files[str(name)] = _changed_file(str(name), files[str(name)], rng)
    return model._replace(files=sealed(files) if rng.random() < 0.9 else files)


def _changed_file(name: str, content: bytes, rng: np.random.Generator) -> bytes:
    draw = rng.random()
    if name.endswith(TEXTS) and draw < 0.6:
        return with_other_number(content, rng)
    if name.endswith(PROTOBUFS) and draw < 0.7:
        return with_other_field(content, rng)
    if name.endswith(".tflite") and draw < 0.6:
        return with_other_word(content, rng)
    return spoiled(content, rng)


def with_other_number(content: bytes, rng: np.random.Generator) -> bytes:
    """The text with one number replaced."""
    digits = [at for at, byte in enumerate(content) if chr(byte).isdigit()]
    if not digits:
        return content
    start = int(rng.choice(digits))
    stop = start
    while stop < len(content) and chr(content[stop]).isdigit():
        stop += 1
    other = str(rng.choice(NUMBERS)) if rng.random() < 0.5 else str(rng.integers(SMALL))
    return content[:start] + other.encode() + content[stop:]


def with_other_word(content: bytes, rng: np.random.Generator) -> bytes:
    """The bytes with one 32-bit word replaced by a small number or by another of their words: mostly still a
    FlatBuffer.
    """
    count = len(content) // 4
    if not count:
        return content
    at, other = (4 * int(rng.integers(count)) for _ in range(2))
    small = int(rng.integers(-2, SMALL)).to_bytes(4, "little", signed=True)
    return content[:at] + (small if rng.random() < 0.7 else content[other : other + 4]) + content[at + 4 :]


def spoiled(content: bytes, rng: np.random.Generator) -> bytes:
    """The bytes with some of them changed, removed, doubled or added. Most changes are near the head, where the
    structure is.
    """
    size = len(content)
    if not size:
        return bytes(rng.integers(0, 256, 8, np.uint8))
    near = min(size, 4096) if rng.random() < 0.5 else size
    at, way = int(rng.integers(near)), int(rng.integers(8))
    length = int(rng.integers(1, 1 + min(64, size)))
    other = int(rng.integers(size))
    if way == 0:
        return content[:at] + bytes([content[at] ^ (1 << int(rng.integers(8)))]) + content[at + 1 :]
    if way == 1:
        return content[:at] + bytes([int(rng.integers(256))]) + content[at + 1 :]
    if way in (2, 3):
        extreme = BYTES[int(rng.integers(len(BYTES)))]
        return content[:at] + extreme + content[at + (len(extreme) if way == 2 else 0) :]
    if way == 4:
        return content[:at] + content[at + length :]
    if way == 5:
        return content[:at] + content[other : other + length] + content[at:]
    if way == 6:
        return content[:at] + content[other : other + length] + content[at + length :]
    return content[:at] if rng.random() < 0.3 else content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


# Protobuf


class Field(NamedTuple):
    """A field of a message: its number, its wire type and its value as it lies in the file, without a length."""

    number: int
    type: int
    value: bytes

    def to_bytes(self) -> bytes:
        length = _varint(len(self.value)) if self.type == BYTES_FIELD else b""
        return _varint(self.number << 3 | self.type) + length + self.value


def with_other_field(content: bytes, rng: np.random.Generator) -> bytes:
    """The message with one field, at any depth, replaced, removed or doubled; the lengths around it are updated."""
    fields = fields_of(content)
    if not fields:
        return spoiled(content, rng)
    at = int(rng.integers(len(fields)))
    field = fields[at]
    if field.type == BYTES_FIELD and fields_of(field.value) and rng.random() < 0.85:
        fields[at] = field._replace(value=with_other_field(field.value, rng))
        return b"".join(each.to_bytes() for each in fields)
    way = int(rng.integers(6))
    if way == 0:
        del fields[at]
    elif way == 1:
        fields.insert(int(rng.integers(len(fields) + 1)), field)
    elif way == 2:
        fields[at] = field._replace(number=int(rng.integers(1, SMALL)))
    else:
        alike = [each for each in fields if each.type == field.type]
        swapped = alike[int(rng.integers(len(alike)))].value
        fields[at] = field._replace(value=swapped if way == 3 else _other_value(field, rng))
    return b"".join(each.to_bytes() for each in fields)


def _other_value(field: Field, rng: np.random.Generator) -> bytes:
    if field.type == BYTES_FIELD:
        return spoiled(field.value, rng)
    if field.type == VARINT:
        extreme = int(rng.choice([1 << 31, (1 << 31) - 1, 1 << 32, 1 << 60, (1 << 63) - 1, (1 << 64) - 1]))
        return _varint(int(rng.integers(SMALL)) if rng.random() < 0.7 else extreme)
    return bytes(rng.integers(0, 256, FIXED[field.type], np.uint8))


def fields_of(content: bytes) -> List[Field]:
    """The fields of a message; none if these bytes are not one."""
    fields, at = [], 0
    while at < len(content):
        tag, at = _read_varint(content, at)
        number, type = tag >> 3, tag & 7
        if not number or type not in (VARINT, BYTES_FIELD, *FIXED):
            return []
        start = at
        if type == VARINT:
            at = _read_varint(content, at)[1]
        elif type == BYTES_FIELD:
            length, start = _read_varint(content, at)
            at = start + length
        else:
            at += FIXED[type]
        if at > len(content):
            return []
        fields.append(Field(number, type, content[start:at]))
    return fields


def _varint(value: int) -> bytes:
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _read_varint(content: bytes, at: int) -> Any:
    """The number at this place and the place after it; one after the end if the number is cut off."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            break
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return 0, len(content) + 1


# Hashes


def sealed(files: Dict[str, bytes]) -> Dict[str, bytes]:
    """The files, with the hashes of a pair or a bundle updated to their content; other files as they are."""
    files = dict(files)
    for folder in ("", f"{PAIR_FOLDER}/"):
        model = _json(files.get(folder + MODEL))
        if isinstance(model, dict) and isinstance(model.get("sha256"), dict):
            model["sha256"].update({name: _hash(files[folder + name]) for name in FILES if folder + name in files})
            files[folder + MODEL] = json.dumps(model).encode()
    manifest = _json(files.get(MANIFEST))
    if isinstance(manifest, dict):
        manifest["parts"] = {name: _hash(content) for name, content in files.items() if name != MANIFEST}
        files[MANIFEST] = json.dumps(manifest).encode()
    return files


def _json(content: Optional[bytes]) -> Any:
    try:
        return json.loads(content or b"")
    except (ValueError, RecursionError):
        return None


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
