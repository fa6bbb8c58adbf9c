"""Opens .tflite files: graphs, tensors and operators as checked values; weights are views of the mapped file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from exporter.common.source import FileOrBytes, content_of
from exporter.tflite.flatbuffer import Table, open_flatbuffer
from exporter.tflite.schema import BUILTIN_OPERATORS, OPTIONS, OPTIONS_2, TENSOR_TYPES
from runtime_arm.errors import FormatError
from runtime_arm.netdef import Array

IDENTIFIER, VERSION = b"TFL3", 3
_LARGEST_RANK = 32  # NumPy's
_UNKNOWN = -1

Dims = Tuple[Optional[int], ...]

# The schema's name of each tensor type and the dtype of its elements in a buffer; a byte holds two int4 elements.
DTYPES: Dict[str, np.dtype[Any]] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "FLOAT32": "f4",
        "FLOAT16": "f2",
        "FLOAT64": "f8",
        "INT8": "i1",
        "UINT8": "u1",
        "INT16": "i2",
        "UINT16": "u2",
        "INT32": "i4",
        "UINT32": "u4",
        "INT64": "i8",
        "UINT64": "u8",
        "BOOL": "?",
        "INT4": "i1",
    }.items()
}


class Quantization(NamedTuple):
    """real value = scale * (value - zero_point), with one of each, or one for each slice along ``axis``; checked."""

    scale: Array
    zero_point: Array
    axis: int

    @property
    def per_channel(self) -> bool:
        return self.scale.size > 1


@dataclass(frozen=True)
class Tensor:
    """A tensor of a graph. ``dims``: None for an open size. ``content``: the bytes of a constant, else None.

    An empty shape means a scalar or an unknown shape; newer files say which (``has_rank``).
    """

    index: int
    name: str
    type: str
    dims: Dims
    content: Optional[memoryview]
    is_variable: bool
    has_rank: bool
    quantization: Optional[Table]
    sparsity: Optional[Table]

    @property
    def dtype(self) -> Optional[np.dtype[Any]]:
        """The NumPy dtype; None for a type that nets cannot hold."""
        return DTYPES.get(self.type)

    @property
    def is_complex(self) -> bool:
        """Whether its elements are complex numbers; blobs hold these as two floats, see ``rules/signal.py``."""
        return self.type == "COMPLEX64"


@dataclass(frozen=True)
class Operation:
    """An operator of a graph, its tensors by index; None for an optional input that is left out.

    intermediates: tensors whose scales an LSTM of integers computes with.
    """

    index: int
    type: str
    custom: str
    version: int
    inputs: Tuple[Optional[int], ...]
    outputs: Tuple[int, ...]
    options: Optional[Table]
    custom_options: bytes
    intermediates: Tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """``CONV_2D``, or ``CUSTOM 'Name'``."""
        return f"CUSTOM {self.custom!r}" if self.custom else self.type


@dataclass(frozen=True)
class Graph:
    """A subgraph."""

    index: int
    name: str
    tensors: Tuple[Tensor, ...]
    inputs: Tuple[int, ...]
    outputs: Tuple[int, ...]
    operations: Tuple[Operation, ...]


class Signature(NamedTuple):
    """A name for a graph, and names for its inputs and outputs -> the tensors' indices."""

    key: str
    graph: int
    inputs: Dict[str, int]
    outputs: Dict[str, int]


class TfliteFile(NamedTuple):
    """A model. ``metadata``: contents by name."""

    source: str
    data: memoryview
    graphs: Tuple[Graph, ...]
    signatures: Tuple[Signature, ...]
    metadata: Dict[str, memoryview]


def open_tflite(model: FileOrBytes) -> TfliteFile:
    """The model in a file or in bytes. ResourceError if it cannot be read, FormatError, naming it, if there is none."""
    source, data = content_of(model)
    try:
        return _parse(source, data)
    except FormatError as error:
        raise FormatError(f"{source}: no TFLite model: {error}") from error


def _parse(source: str, data: memoryview) -> TfliteFile:
    model = open_flatbuffer(data, IDENTIFIER, "Model")
    if model.integer("version") != VERSION:
        raise FormatError(f"its schema version is {model.integer('version')}; the only version is {VERSION}")
    buffers = [_content(table, data) for table in model.tables("buffers", "Buffer")]
    codes = [_code(table) for table in model.tables("operator_codes", "OperatorCode")]
    subgraphs = model.tables("subgraphs", "SubGraph")
    if not subgraphs:
        raise FormatError("it has no graph")
    graphs = tuple(_graph(index, table, buffers, codes, data) for index, table in enumerate(subgraphs))
    metadata = {
        table.text("name"): _at(buffers, table.integer("buffer"), "buffer")
        for table in model.tables("metadata", "Metadata")
    }
    signatures = tuple(_signature(table, graphs) for table in model.tables("signature_defs", "SignatureDef"))
    return TfliteFile(source, data, graphs, signatures, metadata)


def _content(table: Table, data: memoryview) -> memoryview:
    """A buffer's content: inside its table, or after the FlatBuffer at an offset in the file."""
    offset, size = (table.integer(name) for name in ("offset", "size"))
    if offset > 1:
        if offset + size > len(data):
            raise FormatError(f"a buffer of {size} bytes at {offset} lies outside the file of {len(data)} bytes")
        return data[offset : offset + size]
    return table.bytes("data")


def _code(table: Table) -> Tuple[str, str, int]:
    """Type, name of the custom operator, and version. Type numbers above 127 do not fit into the older field."""
    number = max(table.integer("deprecated_builtin_code"), table.integer("builtin_code"))
    name = _named(BUILTIN_OPERATORS, number) or f"BUILTIN_{number}"
    return name, table.text("custom_code") if name == "CUSTOM" else "", table.integer("version")


def _named(names: Sequence[str], number: int) -> Optional[str]:
    """The name of a number of an enumeration, None if it is not known."""
    return names[number] if 0 <= number < len(names) else None


def _graph(
    index: int, table: Table, buffers: Sequence[memoryview], codes: Sequence[Tuple[str, str, int]], data: memoryview
) -> Graph:
    tensors = tuple(_tensor(i, tensor, buffers) for i, tensor in enumerate(table.tables("tensors", "Tensor")))

    def named(values: Sequence[int], what: str) -> Tuple[int, ...]:
        for value in values:
            if not 0 <= value < len(tensors):
                raise FormatError(f"{what} of graph {index} is tensor {value} of {len(tensors)}")
        return tuple(values)

    operations = []
    for number, operator in enumerate(table.tables("operators", "Operator")):
        code = operator.integer("opcode_index")
        if not 0 <= code < len(codes):
            raise FormatError(f"operator {number} of graph {index} has code {code} of {len(codes)}")
        what = f"an input or output of operator {number} ({codes[code][0]})"
        inputs = operator.integers("inputs")
        named([value for value in inputs if value != _UNKNOWN], what)
        outputs = named(operator.integers("outputs"), what)
        operations.append(
            Operation(
                number,
                *codes[code],
                tuple(None if i == _UNKNOWN else i for i in inputs),
                outputs,
                _options(operator),
                _custom_options(operator, data),
                named(operator.integers("intermediates"), what),
            )
        )
    return Graph(
        index,
        table.text("name"),
        tensors,
        named(table.integers("inputs"), "an input"),
        named(table.integers("outputs"), "an output"),
        tuple(operations),
    )


def _tensor(index: int, table: Table, buffers: Sequence[memoryview]) -> Tensor:
    name = table.text("name") or f"tensor_{index}"
    shape, signature = table.integers("shape"), table.integers("shape_signature")
    if len(shape) > _LARGEST_RANK or any(n < 0 for n in shape):
        raise FormatError(f"tensor {name!r} has the shape {shape[: _LARGEST_RANK + 1]}")
    dims = [None if n < 0 else n for n in signature] if len(signature) == len(shape) else list(shape)
    content = _at(buffers, table.integer("buffer"), f"tensor {name!r}: buffer")
    is_variable = bool(table.number("is_variable"))
    constant = len(content) > 0 and not is_variable
    kind = table.integer("type")
    return Tensor(
        index,
        name,
        _named(TENSOR_TYPES, kind) or f"type {kind}",
        tuple(shape) if constant else tuple(dims),
        content if constant else None,
        is_variable,
        len(shape) > 0 or _has_rank(table),
        table.table("quantization", "QuantizationParameters"),
        table.table("sparsity", "SparsityParameters"),
    )


def _has_rank(table: Table) -> bool:
    return bool(table.number("has_rank"))


def _at(items: Sequence[Any], index: int, what: str) -> Any:
    if not 0 <= index < len(items):
        raise FormatError(f"{what} {index} does not exist, there are {len(items)}")
    return items[index]


def _options(operator: Table) -> Optional[Table]:
    """The options of a builtin operator, from the older or the newer union."""
    for field, union in (("builtin_options", OPTIONS), ("builtin_options2", OPTIONS_2)):
        kind = operator.integer(f"{field}_type")
        name = _named(union, kind)
        if name is None:
            raise FormatError(f"options of type {kind} are not known")
        options = operator.table(field, str(name)) if kind else None
        if options is not None:
            return options
    return None


def _custom_options(operator: Table, data: memoryview) -> bytes:
    """The custom operator's own bytes; these too may be stored after the FlatBuffer."""
    names = ("large_custom_options_offset", "large_custom_options_size")
    offset, size = (operator.integer(name) for name in names)
    if offset > 1:
        if offset + size > len(data):
            raise FormatError(f"custom options of {size} bytes at {offset} lie outside the file")
        return bytes(data[offset : offset + size])
    return bytes(operator.bytes("custom_options"))


def _signature(table: Table, graphs: Sequence[Graph]) -> Signature:
    key = table.text("signature_key")
    graph = _at(graphs, table.integer("subgraph_index"), f"signature {key!r}: graph")
    maps = []
    for field in ("inputs", "outputs"):
        entries = {entry.text("name"): entry.integer("tensor_index") for entry in table.tables(field, "TensorMap")}
        for index in entries.values():
            _at(graph.tensors, index, f"signature {key!r}: tensor")
        maps.append(entries)
    return Signature(key, graph.index, *maps)
