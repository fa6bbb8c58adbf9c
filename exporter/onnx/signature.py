"""Reads what an ONNX file says about its inputs, outputs and itself, without its nodes and weights.

Fields are those of onnx.proto. Only the spans of nodes and weights are passed over, so this takes milliseconds where
reading the model takes seconds, and no package is needed.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from runtime_arm.errors import FormatError
from runtime_arm.netdef import wire

Dim = Union[int, str, None]

NO_VERSION = (1 << 63) - 1  # what a model without a version is said to have
_OVERRIDABLE_FROM = 4  # the IR version from which on an initializer among the inputs is a default value
_MODEL_TEXTS = {2: "producer_name", 4: "domain", 6: "description"}
_GRAPH_TEXTS = {2: "graph_name", 10: "graph_description"}
_DEEPEST = 16  # types of types

# The number of each element type (TensorProto.DataType) and its name in a type string.
_ELEMENTS = (
    "float uint8 int8 uint16 int16 int32 int64 string bool float16 double uint32 uint64 complex64 complex128 "
    "bfloat16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz uint4 int4 float4e2m1"
)
ELEMENT_TYPES: Dict[int, str] = dict(enumerate(_ELEMENTS.split(), start=1))


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
    try:
        return _Reader(data).model()
    except (wire.WireError, UnicodeDecodeError) as error:
        raise FormatError(f"{source}: no ONNX model: {error}") from error


class _Reader:
    def __init__(self, data: Union[bytes, memoryview]):
        self._buffer = wire.Buffer(data)

    def model(self) -> Optional[Signature]:
        texts = dict.fromkeys([*_MODEL_TEXTS.values(), *_GRAPH_TEXTS.values()], "")
        properties: Dict[str, str] = {}
        ir_version, version, graph = 0, NO_VERSION, None
        for number, kind, start, end in self._fields(0, len(self._buffer.view)):
            if number in _MODEL_TEXTS and kind == wire.BYTES:
                texts[_MODEL_TEXTS[number]] = self._text(start, end)
            elif number == 1 and kind == wire.VARINT:
                ir_version = self._integer(start, end)
            elif number == 5 and kind == wire.VARINT:
                version = self._integer(start, end)
            elif number == 7 and kind == wire.BYTES:
                graph = start, end
            elif number == 14 and kind == wire.BYTES:
                entry = self._texts(start, end)
                properties[entry.get(1, "")] = entry.get(2, "")
        if graph is None:
            return None
        inputs, outputs, filled = self._graph(*graph, texts)
        free = tuple(value for value in inputs if value.name not in filled)
        overridable = tuple(value for value in inputs if value.name in filled)
        if ir_version < _OVERRIDABLE_FROM:
            overridable = ()
        return Signature(free, overridable, tuple(outputs), texts, version, properties)

    def _graph(
        self, at: int, stop: int, texts: Dict[str, str]
    ) -> Tuple[List[ValueInfo], List[ValueInfo], Dict[str, None]]:
        inputs: List[ValueInfo] = []
        outputs: List[ValueInfo] = []
        filled: Dict[str, None] = {}
        for number, kind, start, end in self._fields(at, stop):
            if kind != wire.BYTES:
                continue
            if number in _GRAPH_TEXTS:
                texts[_GRAPH_TEXTS[number]] = self._text(start, end)
            elif number == 5:
                filled[self._name(start, end)] = None
            elif number == 15:
                for inner, _, begin, finish in self._fields(start, end):
                    if inner == 1:
                        filled[self._name(begin, finish)] = None
            elif number in (11, 12):
                (inputs if number == 11 else outputs).append(self._value(start, end))
        return inputs, outputs, filled

    def _name(self, at: int, stop: int) -> str:
        """The name of a TensorProto."""
        return next((self._text(start, end) for number, _, start, end in self._fields(at, stop) if number == 8), "")

    def _value(self, at: int, stop: int) -> ValueInfo:
        name, kind = "", ""
        dims: Optional[Tuple[Dim, ...]] = None
        denotations: Tuple[str, ...] = ()
        for number, wired, start, end in self._fields(at, stop):
            if number == 1 and wired == wire.BYTES:
                name = self._text(start, end)
            elif number == 2 and wired == wire.BYTES:
                kind, dims, denotations = self._type(start, end, 0)
        return ValueInfo(name, kind, dims, denotations)

    def _type(self, at: int, stop: int, depth: int) -> Tuple[str, Optional[Tuple[Dim, ...]], Tuple[str, ...]]:
        """The type string of a TypeProto, and for a tensor its shape."""
        if depth > _DEEPEST:
            raise wire.WireError(f"types are nested more than {_DEEPEST} deep", at)
        for number, wired, start, end in self._fields(at, stop):
            if wired != wire.BYTES:
                continue
            if number in (1, 8):
                element, dims, denotations = self._tensor_type(start, end)
                return f"{'tensor' if number == 1 else 'sparse_tensor'}({element})", dims, denotations
            if number in (4, 9):
                inner = next((self._type(b, e, depth + 1)[0] for n, _, b, e in self._fields(start, end) if n == 1), "")
                return f"{'seq' if number == 4 else 'optional'}({inner})", None, ()
            if number == 5:
                return self._map_type(start, end, depth), None, ()
        return "", None, ()

    def _map_type(self, at: int, stop: int, depth: int) -> str:
        key, value = 0, ""
        for number, wired, start, end in self._fields(at, stop):
            if number == 1 and wired == wire.VARINT:
                key = self._integer(start, end)
            elif number == 2 and wired == wire.BYTES:
                value = self._type(start, end, depth + 1)[0]
        return f"map({ELEMENT_TYPES.get(key, str(key))},{value})"

    def _tensor_type(self, at: int, stop: int) -> Tuple[str, Optional[Tuple[Dim, ...]], Tuple[str, ...]]:
        element = 0
        shape: Optional[List[Tuple[Dim, str]]] = None
        for number, wired, start, end in self._fields(at, stop):
            if number == 1 and wired == wire.VARINT:
                element = self._integer(start, end)
            elif number == 2 and wired == wire.BYTES:
                shape = [self._dim(b, e) for n, _, b, e in self._fields(start, end) if n == 1]
        name = ELEMENT_TYPES.get(element, str(element))
        if shape is None:
            return name, None, ()
        return name, tuple(dim for dim, _ in shape), tuple(denotation for _, denotation in shape)

    def _dim(self, at: int, stop: int) -> Tuple[Dim, str]:
        size: Dim = None
        denotation = ""
        for number, wired, start, end in self._fields(at, stop):
            if number == 1 and wired == wire.VARINT:
                number_of = self._integer(start, end)
                size = number_of if number_of >= 0 else None
            elif number == 2 and wired == wire.BYTES:
                size = self._text(start, end) or None
            elif number == 3 and wired == wire.BYTES:
                denotation = self._text(start, end)
        return size, denotation

    def _fields(self, at: int, stop: int) -> Iterator[Tuple[int, int, int, int]]:
        return self._buffer.fields(at, stop)

    def _texts(self, at: int, stop: int) -> Dict[int, str]:
        return {number: self._text(start, end) for number, kind, start, end in self._fields(at, stop) if kind == 2}

    def _text(self, start: int, end: int) -> str:
        return bytes(self._buffer.view[start:end]).decode("utf-8")

    def _integer(self, start: int, end: int) -> int:
        value = self._buffer.varint(start, end)[0]
        return value - (1 << 64) if value >> 63 else value
