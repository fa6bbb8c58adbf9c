"""One ONNX node as the rules see it: blob names, attributes as Python values, and facts about its inputs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from exporter.common.builder import NetBuilder
from exporter.common.open_shapes import Dims
from exporter.onnx.protos import AttributeProto, GraphProto, NodeProto, ValueInfoProto
from exporter.onnx.schema import ATTRIBUTE_FIELDS, ATTRIBUTE_TYPES
from exporter.onnx.weights import BLOB_DTYPES, Weights, dtype_name
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Argument, Array, NetDef, OperatorDef
from runtime_arm.netdef.dtypes import number_of

# Attributes that hold an ONNX data type number; arguments hold Caffe2's number.
DTYPE_ATTRIBUTES = ("to", "dtype", "output_datatype", "output_dtype", "precision", "stash_type", "softmax_precision")

Operators = List[OperatorDef]
Known = Tuple[Optional["np.dtype[Any]"], Optional[Dims]]
MakeSubnet = Callable[[GraphProto], NetDef]
Inline = Callable[[GraphProto], List[str]]


def known_of(value: ValueInfoProto) -> Known:
    """Data type and dimensions of a declared value; None for what is unknown."""
    if value.type.sequence_type is not None or value.type.optional_type is not None:
        return np.dtype(object), () if value.type.sequence_type is None else (None,)
    tensor = value.type.tensor_type
    if tensor is None:
        return None, None
    dims: Optional[Dims] = None
    if tensor.shape is not None:
        sizes = [dim.dim_value for dim in tensor.shape.dim]
        dims = tuple(None if size is None or size < 0 else size for size in sizes)
    return BLOB_DTYPES.get(tensor.elem_type), dims


@dataclass(frozen=True)
class Node:
    """A node of ``domain`` at opset ``version``. Inputs and outputs that are left out are empty names."""

    type: str
    domain: str
    version: int
    name: str
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    attributes: Mapping[str, Any]
    net: NetBuilder = field(compare=False)
    make_subnet: MakeSubnet = field(compare=False)
    inline_graph: Inline = field(compare=False)
    caffe2_compatible: bool = False  # only Caffe2's operators, even where they treat empty or small blobs differently

    def replace(self, **changes: Any) -> Node:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def without(self, *names: str) -> Dict[str, Any]:
        """The attributes except those named."""
        return {name: value for name, value in self.attributes.items() if name not in names}

    # Attributes

    def _attribute(self, name: str, kind: Any, default: Any, what: str) -> Any:
        value = self.attributes.get(name, default)
        if value is None:
            raise ExportError(f"attribute {name!r} is required")
        if not isinstance(value, kind):
            raise ExportError(f"attribute {name!r} must be {what}, it is {type(value).__name__}")
        return value

    def get_int(self, name: str, default: Optional[int] = None) -> int:
        """The integer attribute; required if there is no default."""
        return int(self._attribute(name, int, default, "an integer"))

    def get_float(self, name: str, default: Optional[float] = None) -> float:
        """The float attribute."""
        return float(self._attribute(name, float, default, "a float"))

    def get_str(self, name: str, default: Optional[str] = None) -> str:
        """The string attribute."""
        return str(self._attribute(name, str, default, "a string"))

    def get_ints(self, name: str, default: Optional[Sequence[int]] = None) -> List[int]:
        """The list of integers."""
        values = self._attribute(name, list, None if default is None else list(default), "a list of integers")
        if any(not isinstance(value, int) for value in values):
            raise ExportError(f"attribute {name!r} must be a list of integers")
        return [int(value) for value in values]

    def get_graph(self, name: str) -> NetDef:
        """The graph attribute, translated."""
        return self.make_subnet(self._attribute(name, GraphProto, None, "a graph"))

    def declared_outputs(self, name: str) -> List[Known]:
        """What the graph attribute declares of its outputs."""
        return [known_of(value) for value in self._attribute(name, GraphProto, None, "a graph").output]

    def inline(self, name: str) -> List[str]:
        """Translate the graph attribute in place of the node; the blobs of its outputs."""
        return self.inline_graph(self._attribute(name, GraphProto, None, "a graph"))

    def get_dtype(self, name: str) -> Optional[np.dtype[Any]]:
        """The data type attribute; None if it is absent."""
        number = self.get_int(name, 0)
        return dtype_of(number, name) if number else None

    # Inputs

    def has(self, index: int) -> bool:
        """Whether the input is given."""
        return index < len(self.inputs) and bool(self.inputs[index])

    def wants(self, index: int) -> bool:
        """Whether the output is named."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def input(self, index: int) -> str:
        """The blob of a required input."""
        if not self.has(index):
            raise ExportError(f"input {index} is required")
        return self.inputs[index]

    def value(self, index: int) -> Optional[Array]:
        """The content of an input if it is given and constant."""
        return self.net.value(self.inputs[index]) if self.has(index) else None

    def constant_ints(self, index: int) -> Optional[List[int]]:
        """The content of a constant integer input, flat; None if it is absent or not constant."""
        value = self.value(index)
        if value is None:
            return None
        if value.dtype.kind not in "iu":
            raise ExportError(f"input {index} ({self.inputs[index]!r}) must be integers, it is {value.dtype.name}")
        return [int(v) for v in value.reshape(-1)]

    def constant_scalar(self, index: int) -> Any:
        """A constant input of one element as a NumPy scalar; None if it is absent, not constant or longer."""
        value = self.value(index)
        return value.reshape(-1)[0] if value is not None and value.size == 1 else None

    def dtype_of_input(self, index: int) -> Optional[np.dtype[Any]]:
        """The input's data type if it is known."""
        return self.net.dtype(self.inputs[index]) if self.has(index) else None

    def holds_integers(self, index: int) -> bool:
        """Whether the input is known to hold no floats; many of Caffe2's operators take only floats."""
        dtype = self.dtype_of_input(index)
        return dtype is not None and dtype.kind != "f"

    def dims(self, index: int) -> Optional[Dims]:
        """The input's shape as far as it is known."""
        return self.net.dims(self.inputs[index]) if self.has(index) else None

    def rank(self, index: int) -> Optional[int]:
        """The number of the input's dimensions if it is known."""
        dims = self.dims(index)
        return None if dims is None else len(dims)

    # Operators

    def to(
        self,
        type: str,
        inputs: Optional[Sequence[str]] = None,
        outputs: Optional[Sequence[str]] = None,
        **arguments: Any,
    ) -> OperatorDef:
        """A Caffe2 operator in place of the node, by default with its inputs and outputs. None omits an argument."""
        inputs, outputs = (self.inputs if inputs is None else inputs), (self.outputs if outputs is None else outputs)
        return self._operator(type, "", inputs, outputs, arguments)

    def as_onnx(self, **changed: Any) -> OperatorDef:
        """The operator of the same name in the node's domain with the node's attributes, some of them changed."""
        arguments = {name: self._argument(name, value) for name, value in {**self.attributes, **changed}.items()}
        return self._operator(self.type, self.domain or "onnx", self.inputs, self.outputs, arguments)

    def _operator(
        self, type: str, domain: str, inputs: Sequence[str], outputs: Sequence[str], arguments: Mapping[str, Any]
    ) -> OperatorDef:
        args = tuple(Argument.of(name, value) for name, value in arguments.items() if value is not None)
        return OperatorDef(type, _trimmed(inputs), _trimmed(outputs), args, name=self.name, domain=domain)

    def _argument(self, name: str, value: Any) -> Any:
        if name in DTYPE_ATTRIBUTES and isinstance(value, int):
            return number_of(dtype_of(value, name)) if value else None
        if isinstance(value, GraphProto):
            return self.make_subnet(value)
        return value

    def constant(self, stem: str, value: Any) -> str:
        """A new constant blob; its name."""
        return self.net.constant(self.fresh(stem), value)

    def define(self, value: Any) -> Operators:
        """Make the first output this constant; no operators."""
        self.net.constant(self.outputs[0], value)
        return []

    def alias(self, output: int, blob: str) -> Operators:
        """Make an output, if it is wanted, another name of a blob; no operators."""
        if self.wants(output):
            self.net.alias(self.outputs[output], blob)
        return []

    def fresh(self, stem: str) -> str:
        """A new blob name made from the node's first output."""
        return self.net.fresh(f"{self.outputs[0] or self.type}_{stem}")


def dtype_of(number: int, what: str) -> np.dtype[Any]:
    """The dtype of blobs of an ONNX data type number. ExportError for types that nets cannot hold."""
    if number not in BLOB_DTYPES:
        raise ExportError(f"{what}: the data type {dtype_name(number)} is not supported")
    return BLOB_DTYPES[number]


def _trimmed(names: Sequence[str]) -> Tuple[str, ...]:
    """Without the empty names at the end."""
    end = len(names)
    while end and not names[end - 1]:
        end -= 1
    return tuple(names[:end])


def attributes_of(proto: NodeProto, weights: Weights) -> Dict[str, Any]:
    """The node's attributes as int, float, str, array, GraphProto, or a list of one of these."""
    types = [ATTRIBUTE_TYPES.index("TYPE_PROTO")] if proto.op_type == "Optional" else []  # of what it may hold
    given = [attribute for attribute in proto.attribute if attribute.type not in types]
    return {attribute.name: _attribute_value(attribute, weights) for attribute in given}


def _attribute_value(attribute: AttributeProto, weights: Weights) -> Any:
    what = f"attribute {attribute.name!r}"
    field = ATTRIBUTE_FIELDS.get(attribute.type or _type_given(attribute))
    if field is None:
        known = 0 <= attribute.type < len(ATTRIBUTE_TYPES)
        kind = ATTRIBUTE_TYPES[attribute.type] if known else attribute.type
        raise ExportError(f"{what} has a type that is not supported: {kind}")
    value = getattr(attribute, field)
    if value is None:
        value = {"i": 0, "f": 0.0, "s": b""}.get(field)
    if field == "s":
        return value.decode("utf-8", "replace")
    if field == "strings":
        return [s.decode("utf-8", "replace") for s in value]
    if field in ("floats", "ints"):
        return value.tolist()
    if field == "tensors":
        return [weights.array(tensor, what) for tensor in value]
    if value is None:
        raise ExportError(f"{what} has no value")
    if field in ("t", "sparse_tensor"):
        return weights.array(value, what) if field == "t" else weights.sparse(value, what)
    return value


def _type_given(attribute: AttributeProto) -> int:
    """The type of the one field that is given; files of ONNX's first version do not state it. 0 if none is given."""
    given = [kind for kind, field in ATTRIBUTE_FIELDS.items() if _is_given(getattr(attribute, field))]
    return given[0] if len(given) == 1 else 0


def _is_given(value: Any) -> bool:
    return len(value) > 0 if isinstance(value, (np.ndarray, tuple)) else value is not None
