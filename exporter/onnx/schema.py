"""onnx.proto as tables: for each field number, the attribute of the value class and the type on the wire.

The reader skips fields that are not listed here: documentation, annotations, and fields that only training needs.
"""

from __future__ import annotations

from typing import Any, Dict

from exporter.onnx import protos
from runtime_arm.netdef.schema import BYTES, DOUBLE, ENUM, FLOAT, INT32, INT64, STRING, VIEW, Field, Message
from runtime_arm.netdef.values import shown


def _name_of(found: Dict[str, Any]) -> str:
    name = found.get("name") or found.get("op_type")
    return shown(name) if name else ""


ENTRY = Message("StringStringEntryProto", protos.Entry)
TENSOR = Message("TensorProto", protos.TensorProto, _name_of)
SPARSE_TENSOR = Message("SparseTensorProto", protos.SparseTensorProto)
DIMENSION = Message("Dimension", protos.Dimension)
SHAPE = Message("TensorShapeProto", protos.TensorShapeProto)
TENSOR_TYPE = Message("Tensor", protos.TensorType)
ELEMENT_TYPE = Message("Sequence", protos.ElementType)
MAP_TYPE = Message("Map", protos.MapType)
TYPE = Message("TypeProto", protos.TypeProto)
VALUE_INFO = Message("ValueInfoProto", protos.ValueInfoProto, _name_of)
ATTRIBUTE = Message("AttributeProto", protos.AttributeProto, _name_of)
NODE = Message("NodeProto", protos.NodeProto, _name_of)
GRAPH = Message("GraphProto", protos.GraphProto)
OPSET = Message("OperatorSetIdProto", protos.Opset)
FUNCTION = Message("FunctionProto", protos.FunctionProto, _name_of)
MODEL = Message("ModelProto", protos.ModelProto)

ENTRY.define(Field(1, "key", STRING, default=""), Field(2, "value", STRING, default=""))
TENSOR.define(
    Field(1, "dims", INT64, repeated=True),
    Field(2, "data_type", INT32, default=0),
    Field(4, "float_data", FLOAT, repeated=True),
    Field(5, "int32_data", INT32, repeated=True),
    Field(6, "string_data", BYTES, repeated=True),
    Field(7, "int64_data", INT64, repeated=True),
    Field(8, "name", STRING, default=""),
    Field(9, "raw_data", VIEW),
    Field(10, "double_data", DOUBLE, repeated=True),
    Field(11, "uint64_data", INT64, repeated=True),
    Field(13, "external_data", ENTRY, repeated=True),
    Field(14, "data_location", ENUM, default=0),
)
SPARSE_TENSOR.define(Field(1, "values", TENSOR), Field(2, "indices", TENSOR), Field(3, "dims", INT64, repeated=True))
DIMENSION.define(
    Field(1, "dim_value", INT64), Field(2, "dim_param", STRING, default=""), Field(3, "denotation", STRING, default="")
)
SHAPE.define(Field(1, "dim", DIMENSION, repeated=True))
TENSOR_TYPE.define(Field(1, "elem_type", INT32, default=0), Field(2, "shape", SHAPE))
ELEMENT_TYPE.define(Field(1, "elem_type", TYPE))
MAP_TYPE.define(Field(1, "key_type", INT32, default=0), Field(2, "value_type", TYPE))
TYPE.define(
    Field(1, "tensor_type", TENSOR_TYPE),
    Field(4, "sequence_type", ELEMENT_TYPE),
    Field(5, "map_type", MAP_TYPE),
    Field(8, "sparse_tensor_type", TENSOR_TYPE),
    Field(9, "optional_type", ELEMENT_TYPE),
)
VALUE_INFO.define(Field(1, "name", STRING, default=""), Field(2, "type", TYPE))
ATTRIBUTE.define(
    Field(1, "name", STRING, default=""),
    Field(2, "f", FLOAT),
    Field(3, "i", INT64),
    Field(4, "s", BYTES),
    Field(5, "t", TENSOR),
    Field(6, "g", GRAPH),
    Field(7, "floats", FLOAT, repeated=True),
    Field(8, "ints", INT64, repeated=True),
    Field(9, "strings", BYTES, repeated=True),
    Field(10, "tensors", TENSOR, repeated=True),
    Field(11, "graphs", GRAPH, repeated=True),
    Field(20, "type", ENUM, default=0),
    Field(21, "ref_attr_name", STRING, default=""),
    Field(22, "sparse_tensor", SPARSE_TENSOR),
)
NODE.define(
    Field(1, "input", STRING, repeated=True),
    Field(2, "output", STRING, repeated=True),
    Field(3, "name", STRING, default=""),
    Field(4, "op_type", STRING, default=""),
    Field(5, "attribute", ATTRIBUTE, repeated=True),
    Field(7, "domain", STRING, default=""),
    Field(8, "overload", STRING, default=""),
)
GRAPH.define(
    Field(1, "node", NODE, repeated=True),
    Field(2, "name", STRING, default=""),
    Field(5, "initializer", TENSOR, repeated=True),
    Field(10, "doc_string", STRING, default=""),
    Field(11, "input", VALUE_INFO, repeated=True),
    Field(12, "output", VALUE_INFO, repeated=True),
    Field(15, "sparse_initializer", SPARSE_TENSOR, repeated=True),
)
OPSET.define(Field(1, "domain", STRING, default=""), Field(2, "version", INT64, default=0))
FUNCTION.define(
    Field(1, "name", STRING, default=""),
    Field(4, "input", STRING, repeated=True),
    Field(5, "output", STRING, repeated=True),
    Field(6, "attribute", STRING, repeated=True),
    Field(7, "node", NODE, repeated=True),
    Field(9, "opset_import", OPSET, repeated=True),
    Field(10, "domain", STRING, default=""),
    Field(11, "attribute_proto", ATTRIBUTE, repeated=True),
    Field(13, "overload", STRING, default=""),
)
MODEL.define(
    Field(1, "ir_version", INT64, default=0),
    Field(2, "producer_name", STRING, default=""),
    Field(3, "producer_version", STRING, default=""),
    Field(4, "domain", STRING, default=""),
    Field(5, "model_version", INT64, default=0),
    Field(6, "doc_string", STRING, default=""),
    Field(7, "graph", GRAPH),
    Field(8, "opset_import", OPSET, repeated=True),
    Field(14, "metadata_props", ENTRY, repeated=True),
    Field(25, "functions", FUNCTION, repeated=True),
)

# TensorProto.DataType
DATA_TYPES = [
    "UNDEFINED",
    "FLOAT",
    "UINT8",
    "INT8",
    "UINT16",
    "INT16",
    "INT32",
    "INT64",
    "STRING",
    "BOOL",
    "FLOAT16",
    "DOUBLE",
    "UINT32",
    "UINT64",
    "COMPLEX64",
    "COMPLEX128",
    "BFLOAT16",
    "FLOAT8E4M3FN",
    "FLOAT8E4M3FNUZ",
    "FLOAT8E5M2",
    "FLOAT8E5M2FNUZ",
    "UINT4",
    "INT4",
    "FLOAT4E2M1",
    "FLOAT8E8M0",
    "UINT2",
    "INT2",
    "FLOAT6E2M3",
    "FLOAT6E3M2",
]
EXTERNAL = 1  # TensorProto.DataLocation
# AttributeProto.AttributeType, and the field of each type that operators have
ATTRIBUTE_TYPES = [
    "UNDEFINED",
    "FLOAT",
    "INT",
    "STRING",
    "TENSOR",
    "GRAPH",
    "FLOATS",
    "INTS",
    "STRINGS",
    "TENSORS",
    "GRAPHS",
    "SPARSE_TENSOR",
    "SPARSE_TENSORS",
    "TYPE_PROTO",
    "TYPE_PROTOS",
]
ATTRIBUTE_FIELDS = dict(enumerate(["f", "i", "s", "t", "g", "floats", "ints", "strings", "tensors"], 1))
ATTRIBUTE_FIELDS[ATTRIBUTE_TYPES.index("SPARSE_TENSOR")] = "sparse_tensor"
