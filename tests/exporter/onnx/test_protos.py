"""ONNX's messages as armnet reads them are those that the package onnx reads."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from exporter.onnx import schema
from exporter.onnx.reader import open_onnx
from exporter.onnx.translator import NEWEST_OPSET
from runtime_arm.errors import FormatError
from runtime_arm.netdef.decoder import decode
from runtime_arm.netdef.encoder import encode
from runtime_arm.netdef.schema import ENUM
from runtime_arm.netdef.schema import Message as Schema
from tests.support.paths import DEMO

KINDS = [kind for kind in vars(schema).values() if isinstance(kind, Schema)]


def same(kind: Schema, mine: Any, theirs: Message, path: str = "") -> None:
    """Asserts that the fields that armnet knows have the same content."""
    for field in kind.fields:
        where = f"{path}.{field.name}"
        value, wanted = getattr(mine, field.name), getattr(theirs, field.name)
        if isinstance(field.type, Schema):
            if field.repeated:
                assert len(value) == len(wanted), where
                for index, pair in enumerate(zip(value, wanted)):
                    same(field.type, *pair, f"{where}[{index}]")
            elif theirs.HasField(field.name):
                same(field.type, value, wanted, where)
        elif field.is_array:
            np.testing.assert_array_equal(value, np.array(wanted, value.dtype), where)
        elif field.repeated:
            assert list(value) == list(wanted), where
        elif theirs.HasField(field.name):
            assert value == wanted or (value != value and wanted != wanted), where
        else:  # protobuf drops numbers that its enumerations do not have
            assert value == field.default or field.type is ENUM, where


def test_the_schema_is_onnxs() -> None:
    """Numbers, names, labels and types of all fields are those of onnx.proto."""
    names = {"Tensor": "TypeProto.Tensor", "Sequence": "TypeProto.Sequence", "Map": "TypeProto.Map"}
    for kind in KINDS:
        parts = names.get(kind.name, "TensorShapeProto.Dimension" if kind.name == "Dimension" else kind.name).split(".")
        descriptor = onnx.ModelProto.DESCRIPTOR.file.message_types_by_name[parts[0]]
        for part in parts[1:]:
            descriptor = descriptor.nested_types_by_name[part]
        for field in kind.fields:
            theirs = descriptor.fields_by_number[field.number]
            assert theirs.name == field.name
            assert theirs.is_repeated == field.repeated
            wire = {"bytes view": "bytes"}.get(field.type.name, field.type.name).upper()
            is_message = isinstance(field.type, Schema)
            unsigned = {"uint64_data": "UINT64"}.get(field.name, wire)
            assert theirs.type == getattr(theirs, f"TYPE_{'MESSAGE' if is_message else unsigned}"), theirs.full_name


def test_numbers_of_types_are_onnxs() -> None:
    assert dict(onnx.TensorProto.DataType.items()) == {name: at for at, name in enumerate(schema.DATA_TYPES)}
    assert dict(onnx.AttributeProto.AttributeType.items()) == {n: at for at, n in enumerate(schema.ATTRIBUTE_TYPES)}
    assert onnx.defs.onnx_opset_version() <= NEWEST_OPSET


def test_the_demo_is_read_as_onnx_reads_it() -> None:
    same(schema.MODEL, open_onnx(DEMO / "digits.onnx").model, onnx.load(str(DEMO / "digits.onnx")))


def test_real_models_are_read_as_onnx_reads_them(shared: Path) -> None:
    paths = sorted((shared / "models/onnx").rglob("*.onnx"))
    assert paths
    for path in paths:
        same(schema.MODEL, open_onnx(path).model, onnx.load(str(path)))


def test_the_cases_of_onnx_are_read_as_onnx_reads_them() -> None:
    from tests.support.onnx_nodes import node_tests

    for case in node_tests():
        data = case.model.SerializeToString()
        mine = decode(schema.MODEL, data)
        same(schema.MODEL, mine, case.model)
        again = onnx.ModelProto.FromString(encode(schema.MODEL, mine))
        same(schema.MODEL, mine, again)


MODEL = (DEMO / "digits.onnx").read_bytes()


@given(st.integers(0, 3000), st.binary(max_size=4), st.integers(0, 3))
def test_changed_bytes_are_read_as_onnx_reads_them_or_refused(at: int, put: bytes, dropped: int) -> None:
    data = MODEL[:at] + put + MODEL[at + dropped :]
    try:
        mine = decode(schema.MODEL, data)
    except FormatError:
        return
    with contextlib.suppress(DecodeError):
        same(schema.MODEL, mine, onnx.ModelProto.FromString(data))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_fields_have_the_names_of_the_values(kind: Schema) -> None:
    assert [field.name for field in kind.fields if field.name not in vars(kind.build())] == []
