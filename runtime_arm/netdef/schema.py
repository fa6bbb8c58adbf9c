"""netdef.proto as tables: for each field number, the attribute of the value class and the type on the wire.

The reader skips fields that are not listed here. ``netdef.proto`` explains what the fields mean.
"""

from __future__ import annotations

from typing import Any, Callable, Union

from runtime_arm.netdef import values, wire
from runtime_arm.netdef.tensors import array_of_fields
from runtime_arm.records import NamedTuple


class Scalar(NamedTuple):
    """A scalar type of protobuf and its wire type."""

    name: str
    wire: int


STRING, BYTES = Scalar("string", wire.BYTES), Scalar("bytes", wire.BYTES)
VIEW = Scalar("bytes view", wire.BYTES)  # bytes that are not copied
INT32, INT64, UINT32, BOOL, ENUM = (Scalar(name, wire.VARINT) for name in ("int32", "int64", "uint32", "bool", "enum"))
FLOAT, DOUBLE = Scalar("float", wire.FIXED32), Scalar("double", wire.FIXED64)
NUMBERS = (INT32, INT64, UINT32, BOOL, ENUM, FLOAT, DOUBLE)


class Field(NamedTuple):
    """A field; ``name`` is the same in netdef.proto and in the value class."""

    number: int
    name: str
    type: Union[Scalar, Message]
    repeated: bool = False
    default: Any = None  # the value that means absent

    @property
    def is_array(self) -> bool:
        """Whether the field is a repeated number, whose value is one array."""
        return self.repeated and self.type in NUMBERS


def _untitled(found: dict[str, Any]) -> str:
    return ""


class Message:
    """A message type. ``build`` makes its value from the fields that are present; ``title`` names it in errors."""

    def __init__(self, name: str, build: Callable[..., Any], title: Callable[[dict[str, Any]], str] = _untitled):
        self.name = name
        self.build = build
        self.title = title
        self.fields: tuple[Field, ...] = ()
        self.by_number: dict[int, Field] = {}
        self.runs: frozenset[int] = frozenset()
        self.arrays: frozenset[str] = frozenset()

    def define(self, *fields: Field) -> None:
        """Set the fields of the message; not in the constructor, because messages contain each other."""
        self.fields = fields
        self.by_number = {field.number: field for field in fields}
        self.arrays = frozenset(field.name for field in fields if field.is_array)
        self.runs = frozenset(
            field.number << 3 | field.type.wire for field in fields if field.is_array and isinstance(field.type, Scalar)
        )


def _type_of(found: dict[str, Any]) -> str:
    return values.shown(found.get("type", ""))


def _name_of(found: dict[str, Any]) -> str:
    return repr(found["name"][:40]) if found.get("name") else ""


TENSOR = Message("TensorProto", array_of_fields)
ARGUMENT = Message("Argument", values.Argument, _name_of)
DEVICE_OPTION = Message("DeviceOption", values.DeviceOption)
OPERATOR = Message("OperatorDef", values.OperatorDef, _type_of)
NET = Message("NetDef", values.NetDef)

TENSOR.define(
    Field(1, "dims", INT64, repeated=True),
    Field(2, "data_type", ENUM),
    Field(3, "float_data", FLOAT, repeated=True),
    Field(4, "int32_data", INT32, repeated=True),
    Field(5, "byte_data", VIEW),
    Field(6, "string_data", BYTES, repeated=True),
    Field(7, "name", STRING, default=""),
    Field(9, "double_data", DOUBLE, repeated=True),
    Field(10, "int64_data", INT64, repeated=True),
    Field(13, "raw_data", VIEW),
    Field(15, "data_format", ENUM),
)
ARGUMENT.define(
    Field(1, "name", STRING, default=""),
    Field(2, "f", FLOAT),
    Field(3, "i", INT64),
    Field(4, "s", BYTES),
    Field(5, "floats", FLOAT, repeated=True),
    Field(6, "ints", INT64, repeated=True),
    Field(7, "strings", BYTES, repeated=True),
    Field(8, "n", NET),
    Field(9, "nets", NET, repeated=True),
    Field(10, "t", TENSOR),
    Field(11, "tensors", TENSOR, repeated=True),
)
DEVICE_OPTION.define(
    Field(1, "device_type", INT32, default=0),
    Field(2, "device_id", INT32),
    Field(3, "random_seed", UINT32),
    Field(4, "node_name", STRING, default=""),
    Field(5, "numa_node_id", INT32),
    Field(6, "extra_info", STRING, repeated=True),
)
OPERATOR.define(
    Field(1, "input", STRING, repeated=True),
    Field(2, "output", STRING, repeated=True),
    Field(3, "name", STRING, default=""),
    Field(4, "type", STRING, default=""),
    Field(5, "arg", ARGUMENT, repeated=True),
    Field(6, "device_option", DEVICE_OPTION),
    Field(7, "engine", STRING, default=""),
    Field(8, "control_input", STRING, repeated=True),
    Field(9, "is_gradient_op", BOOL, default=False),
    Field(10, "debug_info", STRING, default=""),
    Field(11, "domain", STRING, default=""),
    Field(12, "op_version", INT64),
)
NET.define(
    Field(1, "name", STRING, default=""),
    Field(2, "op", OPERATOR, repeated=True),
    Field(3, "type", STRING, default=""),
    Field(4, "num_workers", INT32),
    Field(5, "device_option", DEVICE_OPTION),
    Field(6, "arg", ARGUMENT, repeated=True),
    Field(7, "external_input", STRING, repeated=True),
    Field(8, "external_output", STRING, repeated=True),
)
