"""ONNX's messages as immutable values, with the names of onnx.proto; what a message leaves out is None or empty.

Numbers in repeated fields are arrays and contents of tensors are views, both of the bytes that were read. Only fields
that translation needs exist here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Optional, Tuple, TypeVar

import numpy as np

from runtime_arm.netdef import Array

_NO_FLOATS, _NO_DOUBLES, _NO_INTS = np.zeros(0, np.float32), np.zeros(0, np.float64), np.zeros(0, np.int64)
for _array in (_NO_FLOATS, _NO_DOUBLES, _NO_INTS):
    _array.flags.writeable = False


def _no_floats() -> Array:
    return _NO_FLOATS


def _no_doubles() -> Array:
    return _NO_DOUBLES


def _no_ints() -> Array:
    return _NO_INTS


Self = TypeVar("Self", bound="_Proto")


class _Proto:
    """A message."""

    def replace(self: Self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return replace(self, **changes)  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class Entry(_Proto):
    """StringStringEntryProto."""

    key: str = ""
    value: str = ""


@dataclass(frozen=True, eq=False)
class TensorProto(_Proto):
    """A tensor. ``dims``, ``int32_data``, ``int64_data`` and ``uint64_data`` are int64; the last wraps around."""

    dims: Array = field(default_factory=_no_ints)
    data_type: int = 0
    float_data: Array = field(default_factory=_no_floats)
    int32_data: Array = field(default_factory=_no_ints)
    string_data: Tuple[bytes, ...] = ()
    int64_data: Array = field(default_factory=_no_ints)
    name: str = ""
    raw_data: Optional[memoryview] = None
    double_data: Array = field(default_factory=_no_doubles)
    uint64_data: Array = field(default_factory=_no_ints)
    external_data: Tuple[Entry, ...] = ()
    data_location: int = 0


@dataclass(frozen=True, eq=False)
class SparseTensorProto(_Proto):
    """A sparse tensor."""

    values: TensorProto = field(default_factory=TensorProto)
    indices: TensorProto = field(default_factory=TensorProto)
    dims: Array = field(default_factory=_no_ints)


@dataclass(frozen=True, eq=False)
class Dimension(_Proto):
    """A size, a name, or neither; ``denotation``: what is counted, such as DATA_BATCH."""

    dim_value: Optional[int] = None
    dim_param: str = ""
    denotation: str = ""


@dataclass(frozen=True, eq=False)
class TensorShapeProto(_Proto):
    """A shape."""

    dim: Tuple[Dimension, ...] = ()


@dataclass(frozen=True, eq=False)
class TensorType(_Proto):
    """TypeProto.Tensor and TypeProto.SparseTensor."""

    elem_type: int = 0
    shape: Optional[TensorShapeProto] = None


@dataclass(frozen=True, eq=False)
class ElementType(_Proto):
    """TypeProto.Sequence and TypeProto.Optional."""

    elem_type: Optional[TypeProto] = None


@dataclass(frozen=True, eq=False)
class MapType(_Proto):
    """TypeProto.Map."""

    key_type: int = 0
    value_type: Optional[TypeProto] = None


@dataclass(frozen=True, eq=False)
class TypeProto(_Proto):
    """A type: at most one of the fields is given."""

    tensor_type: Optional[TensorType] = None
    sequence_type: Optional[ElementType] = None
    map_type: Optional[MapType] = None
    optional_type: Optional[ElementType] = None
    sparse_tensor_type: Optional[TensorType] = None

    @property
    def kind(self) -> str:
        """The name of the field that is given; "" if none is."""
        return next((name for name, value in vars(self).items() if value is not None), "")


@dataclass(frozen=True, eq=False)
class ValueInfoProto(_Proto):
    """A declared value."""

    name: str = ""
    type: TypeProto = field(default_factory=TypeProto)


@dataclass(frozen=True, eq=False)
class AttributeProto(_Proto):
    """An attribute; ``type`` says which of the fields holds its value, or 0 in the oldest files."""

    name: str = ""
    ref_attr_name: str = ""
    type: int = 0
    f: Optional[float] = None
    i: Optional[int] = None
    s: Optional[bytes] = None
    t: Optional[TensorProto] = None
    g: Optional[GraphProto] = None
    sparse_tensor: Optional[SparseTensorProto] = None
    floats: Array = field(default_factory=_no_floats)
    ints: Array = field(default_factory=_no_ints)
    strings: Tuple[bytes, ...] = ()
    tensors: Tuple[TensorProto, ...] = ()
    graphs: Tuple[GraphProto, ...] = ()


@dataclass(frozen=True, eq=False)
class NodeProto(_Proto):
    """A node."""

    input: Tuple[str, ...] = ()
    output: Tuple[str, ...] = ()
    name: str = ""
    op_type: str = ""
    attribute: Tuple[AttributeProto, ...] = ()
    domain: str = ""
    overload: str = ""


@dataclass(frozen=True, eq=False)
class GraphProto(_Proto):
    """A graph."""

    node: Tuple[NodeProto, ...] = ()
    name: str = ""
    initializer: Tuple[TensorProto, ...] = ()
    doc_string: str = ""
    input: Tuple[ValueInfoProto, ...] = ()
    output: Tuple[ValueInfoProto, ...] = ()
    sparse_initializer: Tuple[SparseTensorProto, ...] = ()


@dataclass(frozen=True, eq=False)
class Opset(_Proto):
    """OperatorSetIdProto."""

    domain: str = ""
    version: int = 0


@dataclass(frozen=True, eq=False)
class FunctionProto(_Proto):
    """A function of a model, or one that defines an operator of ONNX's."""

    name: str = ""
    input: Tuple[str, ...] = ()
    output: Tuple[str, ...] = ()
    attribute: Tuple[str, ...] = ()
    node: Tuple[NodeProto, ...] = ()
    opset_import: Tuple[Opset, ...] = ()
    domain: str = ""
    attribute_proto: Tuple[AttributeProto, ...] = ()
    overload: str = ""


@dataclass(frozen=True, eq=False)
class ModelProto(_Proto):
    """A model."""

    ir_version: int = 0
    producer_name: str = ""
    producer_version: str = ""
    domain: str = ""
    model_version: int = 0
    doc_string: str = ""
    graph: Optional[GraphProto] = None
    opset_import: Tuple[Opset, ...] = ()
    metadata_props: Tuple[Entry, ...] = ()
    functions: Tuple[FunctionProto, ...] = ()
