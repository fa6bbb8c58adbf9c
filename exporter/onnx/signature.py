"""Reads what an ONNX file says about its inputs, its outputs and itself, without its nodes and weights.

The tables below name few of the fields of onnx.proto, so that nearly all of a file is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, NamedTuple, Optional, Tuple, Union

from exporter.onnx.protos import Entry, GraphProto, SparseTensorProto, TensorProto, TypeProto, ValueInfoProto
from exporter.onnx.schema import DATA_TYPES, ENTRY, VALUE_INFO
from runtime_arm.netdef.decoder import decode
from runtime_arm.netdef.schema import INT64, STRING, Field, Message

Dim = Union[int, str, None]

NO_VERSION = (1 << 63) - 1  # what a model without a version is said to have
_OVERRIDABLE_FROM = 4  # the IR version from which on an initializer among the inputs is a default value

# The number of each element type and its name in a type string.
ELEMENT_TYPES: Dict[int, str] = {number: name.lower() for number, name in enumerate(DATA_TYPES) if number}


@dataclass(frozen=True, eq=False)
class _Model:
    """The fields of a ModelProto that are read."""

    ir_version: int = 0
    producer_name: str = ""
    domain: str = ""
    model_version: int = NO_VERSION
    doc_string: str = ""
    graph: Optional[GraphProto] = None
    metadata_props: Tuple[Entry, ...] = ()


_TENSOR = Message("TensorProto", TensorProto)
_SPARSE_TENSOR = Message("SparseTensorProto", SparseTensorProto)
_GRAPH = Message("GraphProto", GraphProto)
_MODEL = Message("ModelProto", _Model)

_TENSOR.define(Field(8, "name", STRING, default=""))
_SPARSE_TENSOR.define(Field(1, "values", _TENSOR))
_GRAPH.define(
    Field(2, "name", STRING, default=""),
    Field(5, "initializer", _TENSOR, repeated=True),
    Field(10, "doc_string", STRING, default=""),
    Field(11, "input", VALUE_INFO, repeated=True),
    Field(12, "output", VALUE_INFO, repeated=True),
    Field(15, "sparse_initializer", _SPARSE_TENSOR, repeated=True),
)
_MODEL.define(
    Field(1, "ir_version", INT64, default=0),
    Field(2, "producer_name", STRING, default=""),
    Field(4, "domain", STRING, default=""),
    Field(5, "model_version", INT64, default=NO_VERSION),
    Field(6, "doc_string", STRING, default=""),
    Field(7, "graph", _GRAPH),
    Field(14, "metadata_props", ENTRY, repeated=True),
)


class ValueInfo(NamedTuple):
    """An input or output: its type as ``tensor(float)``, its dimensions as numbers, names or None, and what the
    dimensions denote. ``dims`` is None where the file declares no shape."""

    name: str
    type: str
    dims: Optional[Tuple[Dim, ...]]
    denotations: Tuple[str, ...] = ()


class Signature(NamedTuple):
    """inputs: what must be fed; overridable: inputs with a value of their own. texts: producer_name, graph_name,
    domain, description, graph_description. properties: the model's own metadata."""

    inputs: Tuple[ValueInfo, ...]
    overridable: Tuple[ValueInfo, ...]
    outputs: Tuple[ValueInfo, ...]
    texts: Dict[str, str]
    version: int
    properties: Dict[str, str]


def read_signature(data: Union[bytes, memoryview], source: str) -> Optional[Signature]:
    """The signature of the model in ``data``; None if it has no graph. FormatError, naming ``source``, if the bytes
    are no ONNX model."""
    if not data:
        return None
    model: _Model = decode(_MODEL, data, f"{source}: no ONNX model")
    graph = model.graph
    if graph is None:
        return None
    filled = {tensor.name for tensor in graph.initializer}
    filled.update(tensor.values.name for tensor in graph.sparse_initializer if tensor.values is not None)
    inputs = [_described(value) for value in graph.input]
    texts = {
        "producer_name": model.producer_name,
        "graph_name": graph.name,
        "domain": model.domain,
        "description": model.doc_string,
        "graph_description": graph.doc_string,
    }
    return Signature(
        tuple(value for value in inputs if value.name not in filled),
        tuple(value for value in inputs if value.name in filled and model.ir_version >= _OVERRIDABLE_FROM),
        tuple(_described(value) for value in graph.output),
        texts,
        model.model_version,
        {entry.key: entry.value for entry in model.metadata_props},
    )


def _described(value: ValueInfoProto) -> ValueInfo:
    tensor = value.type.tensor_type or value.type.sparse_tensor_type
    if tensor is None or tensor.shape is None:
        return ValueInfo(value.name, type_string(value.type), None)
    sizes = [(dim.dim_param or None) if dim.dim_value is None else dim.dim_value for dim in tensor.shape.dim]
    dims = tuple(None if isinstance(size, int) and size < 0 else size for size in sizes)
    return ValueInfo(value.name, type_string(value.type), dims, tuple(dim.denotation for dim in tensor.shape.dim))


def type_string(kind: Optional[TypeProto]) -> str:
    """``tensor(float)``, ``seq(tensor(int64))``, ``map(string,tensor(float))``; "" for no type."""
    if kind is None:
        return ""
    for title, tensor in (("tensor", kind.tensor_type), ("sparse_tensor", kind.sparse_tensor_type)):
        if tensor is not None:
            return f"{title}({_element(tensor.elem_type)})"
    for title, element in (("seq", kind.sequence_type), ("optional", kind.optional_type)):
        if element is not None:
            return f"{title}({type_string(element.elem_type)})"
    if kind.map_type is not None:
        return f"map({_element(kind.map_type.key_type)},{type_string(kind.map_type.value_type)})"
    return ""


def _element(number: int) -> str:
    return ELEMENT_TYPES.get(number, str(number))
