"""Compares the codec and the schema tables with protobuf itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from runtime_arm.netdef import NetDef, schema
from runtime_arm.netdef.messages import message_class
from tests.runtime_arm.netdef.strategies import nets
from tests.support.paths import ROOT

PROTO = "runtime_arm/netdef/netdef.proto"
MESSAGES = [schema.TENSOR, schema.ARGUMENT, schema.DEVICE_OPTION, schema.OPERATOR, schema.NET]


def assert_same(message: Any, value: Any, kind: schema.Message) -> None:
    """Compare a protobuf message with the codec's value, field by field."""
    for field in kind.fields:
        expected, found = getattr(value, field.name), getattr(message, field.name)
        if isinstance(field.type, schema.Message):
            present = list(found) if field.repeated else [found] * message.HasField(field.name)
            wanted = list(expected) if field.repeated else [expected] * (expected is not None)
            assert len(present) == len(wanted)
            for one, other in zip(present, wanted):
                if field.type is schema.TENSOR:
                    assert_same_tensor(one, other)
                else:
                    assert_same(one, other, field.type)
        elif field.repeated:
            assert list(found) == list(expected)
        elif expected is None:
            assert not message.HasField(field.name)
        else:
            assert found == expected


def assert_same_tensor(message: Any, array: Any) -> None:
    """Compare a TensorProto that the codec wrote with its array."""
    assert tuple(message.dims) == array.shape
    if array.dtype == object:
        assert list(message.string_data) == array.ravel().tolist()
    else:
        assert message.raw_data == array.astype(array.dtype.newbyteorder("<")).tobytes()


@given(nets)
@settings(max_examples=150)
def test_protobuf_reads_what_the_codec_writes_and_writes_it_the_same(net: NetDef) -> None:
    data = net.to_bytes()
    message = message_class("NetDef").FromString(data)
    assert_same(message, net, schema.NET)
    assert message.SerializeToString() == data


@pytest.mark.parametrize(
    "name",
    [
        "models/caffe2/squeezenet_v1.1_reconstructed/squeeze_init_net.pb",
        "models/caffe2/squeezenet_v1.1_reconstructed/squeezeNetPredict.pb",
        "models/caffe2/superres_from_onnx/init_net.pb",
        "models/caffe2/superres_from_onnx/predict_net.pb",
        "models/caffe2/predict_only_mobilenet_v2_quant/model.pb",
        "goldens/memonger/c2_resnet50.predict_net.pb",
    ],
)
def test_the_codec_reads_real_files_as_protobuf_does(shared: Path, name: str) -> None:
    data = (shared / name).read_bytes()
    net = NetDef.from_bytes(data, name)
    assert_same(message_class("NetDef").FromString(data), net, schema.NET)
    assert NetDef.from_bytes(net.to_bytes()) == net


def test_every_data_type_that_protobuf_writes_is_read() -> None:
    fields = {
        "FLOAT": "float_data",
        "INT32": "int32_data",
        "UINT8": "int32_data",
        "INT8": "int32_data",
        "UINT16": "int32_data",
        "INT16": "int32_data",
        "BOOL": "int32_data",
        "INT64": "int64_data",
        "DOUBLE": "double_data",
    }
    for name, field in fields.items():
        message = message_class("NetDef")()
        tensor = message.op.add().arg.add().t
        tensor.data_type = tensor.DataType.Value(name)
        tensor.dims.extend([2, 1])
        getattr(tensor, field).extend([1, 0])
        value = NetDef.from_bytes(message.SerializeToString()).op[0].arg[0].t
        assert value is not None
        assert value.tolist() == [[1], [0]]


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.name)
def test_the_tables_agree_with_the_proto_file(kind: schema.Message) -> None:
    descriptor = message_class(kind.name).DESCRIPTOR
    for field in kind.fields:
        declared = descriptor.fields_by_name[field.name]
        assert declared.number == field.number
        assert is_repeated(declared) == field.repeated
        if isinstance(field.type, schema.Message):
            assert declared.message_type.name == field.type.name
        else:
            name = "bytes" if field.type is schema.VIEW else field.type.name
            assert declared.type == getattr(declared, f"TYPE_{name.upper()}")


def is_repeated(declared: Any) -> bool:
    """Whether a field of a descriptor is repeated, in old and new versions of protobuf."""
    if hasattr(declared, "is_repeated"):
        return bool(declared.is_repeated)
    return bool(declared.label == declared.LABEL_REPEATED)


def test_the_tables_leave_out_only_fields_that_readers_skip() -> None:
    left_out = {
        f"{kind.name}.{name}"
        for kind in MESSAGES
        for name in set(message_class(kind.name).DESCRIPTOR.fields_by_name) - {field.name for field in kind.fields}
    }
    assert left_out == {"TensorProto.device_detail", "Argument.qtensors", "NetDef.partition_info"}


PURE = """
from google.protobuf.internal import api_implementation
assert api_implementation.Type() == "python", api_implementation.Type()
from runtime_arm.netdef import NetDef
from runtime_arm.netdef.messages import message_class
net = NetDef.from_text('net "n": x -> y\\nConv(x) -> y  kernel=3  pads=[1, -1]  f=0.5  t=<float32 2: 1.0 2.0>  s="a"')
message = message_class("NetDef").FromString(net.to_bytes())
assert message.op[0].arg[1].ints == [1, -1]
assert NetDef.from_bytes(message.SerializeToString()) == net
"""


def test_pure_python_protobuf_agrees() -> None:
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python", "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", PURE], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_nets_are_read_without_importing_protobuf() -> None:
    code = (
        "import sys; from runtime_arm.netdef import NetDef; NetDef.from_bytes(NetDef('n').to_bytes()).check(); "
        "NetDef.from_text(NetDef('n').to_text()); "
        "assert not [m for m in sys.modules if m.startswith('google.protobuf')]"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_the_schema_does_not_collide_with_other_schemas_of_the_same_messages() -> None:
    first = message_class("NetDef")
    assert first.DESCRIPTOR.full_name == "armnet.netdef.NetDef"
    assert first.DESCRIPTOR.file.name == PROTO
    from google.protobuf import descriptor_pool

    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("armnet.netdef.NetDef")


def test_big_endian_arrays_are_written_little_endian() -> None:
    from runtime_arm.netdef import OperatorDef

    data = NetDef(op=(OperatorDef.of("Fill", [], ["w"], t=np.array([1, 256], ">i4")),)).to_bytes()
    assert message_class("NetDef").FromString(data).op[0].arg[0].t.raw_data == b"\1\0\0\0\0\1\0\0"
