"""Makes the bytes of a TFLite file of a Model, with the builders of the packages ``flatbuffers`` and ``tflite``.

The content of every constant starts at a multiple of 16 bytes, as runtimes expect that map the file.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np

from exporter.to_tflite.model import Graph, Model, Operation, Quantization, Tensor
from exporter.to_tflite.operators import OPTIONS, version_of
from runtime_arm.errors import ExportError
from runtime_arm.imports import needed_for

IDENTIFIER = b"TFL3"
ALIGNMENT = 16
LARGEST = (1 << 31) - 1  # offsets are signed in many runtimes
DTYPES = {
    np.dtype(name): number
    for name, number in {
        "float32": 0,
        "float16": 1,
        "int32": 2,
        "uint8": 3,
        "int64": 4,
        "bool": 6,
        "int16": 7,
        "int8": 9,
        "float64": 10,
        "uint64": 12,
        "uint32": 15,
        "uint16": 16,
    }.items()
}
_LARGEST_BUILTIN = 127  # of the old field for the operator's number


def to_bytes(model: Model) -> bytes:
    """The file's content. ExportError if a tensor's type has no number in TFLite, or if it exceeds 2 GB."""
    nbytes = sum(t.value.nbytes for graph in model.graphs for t in graph.tensors if t.value is not None)
    if nbytes > LARGEST:
        raise ExportError(f"the weights have {nbytes:,} bytes; a TFLite file holds less than 2 GB")
    with needed_for("a TFLite file"):
        import flatbuffers
        import tflite
    return _Writer(flatbuffers.Builder(nbytes + (1 << 16)), tflite).write(model)


class _Writer:
    """Writes children before their parents, as FlatBuffers require. Equal vectors of numbers are written once: zero
    points of filters take twice as many bytes as scales, and are all zeros.
    """

    def __init__(self, builder: Any, schema: Any):
        self._builder, self._schema = builder, schema
        self._buffers: List[int] = []
        self._codes: Dict[Tuple[str, int], int] = {}
        self._numbers: Dict[Tuple[Any, bytes], int] = {}

    def write(self, model: Model) -> bytes:
        self._buffers.append(self._table("Buffer"))  # number 0 stands for no content
        graphs = [self._graph(graph) for graph in model.graphs]
        metadata = [self._metadata(name, content) for name, content in model.metadata.items()]
        signatures = [self._signature(model)] if model.inputs or model.outputs else []
        codes = [self._code(*code) for code in self._codes]
        fields: Dict[str, Any] = {
            "OperatorCodes": self._offsets(codes),
            "Subgraphs": self._offsets(graphs),
            "Description": self._builder.CreateString(model.description),
            "Buffers": self._offsets(self._buffers),
        }
        if metadata:
            fields["Metadata"] = self._offsets(metadata)
        if signatures:
            fields["SignatureDefs"] = self._offsets(signatures)
        self._builder.Finish(self._table("Model", Version=3, **fields), file_identifier=IDENTIFIER)
        return bytes(self._builder.Output())

    def _table(self, name: str, **fields: Any) -> int:
        getattr(self._schema, f"{name}Start")(self._builder)
        for field, value in fields.items():
            getattr(self._schema, f"{name}Add{field}")(self._builder, value)
        offset: int = getattr(self._schema, f"{name}End")(self._builder)
        return offset

    def _offsets(self, offsets: Sequence[int]) -> int:
        return self._vector(4, offsets, self._builder.PrependUOffsetTRelative)

    def _vector(self, size: int, values: Sequence[Any], prepend: Callable[[Any], None]) -> int:
        self._builder.StartVector(size, len(values), size)
        for value in reversed(values):
            prepend(value)
        offset: int = self._builder.EndVector()
        return offset

    def _ints(self, values: Sequence[int]) -> int:
        return self._vector_of(values, np.int32)

    def _vector_of(self, values: Sequence[Any], dtype: Any) -> int:
        array = np.asarray(values, dtype)
        key = dtype, array.tobytes()
        if key not in self._numbers:
            self._numbers[key] = self._builder.CreateNumpyVector(array)
        return self._numbers[key]

    def _buffer(self, content: bytes) -> int:
        """The number of a new buffer."""
        builder = self._builder
        builder.StartVector(1, len(content), ALIGNMENT)
        builder.head = builder.head - len(content)
        builder.Bytes[builder.head : builder.head + len(content)] = content
        self._buffers.append(self._table("Buffer", Data=builder.EndVector()))
        return len(self._buffers) - 1

    def _graph(self, graph: Graph) -> int:
        tensors = [self._tensor(tensor) for tensor in graph.tensors]
        operations = [self._operation(operation, graph) for operation in graph.operations]
        fields = {
            "Tensors": self._offsets(tensors),
            "Inputs": self._ints(graph.inputs),
            "Outputs": self._ints(graph.outputs),
            "Operators": self._offsets(operations),
            "Name": self._builder.CreateString(graph.name),
        }
        return self._table("SubGraph", **fields)

    def _tensor(self, tensor: Tensor) -> int:
        if tensor.dtype not in DTYPES:
            raise ExportError(f"{tensor.name!r} holds {tensor.dtype.name}, which TFLite has no type for")
        value = tensor.value
        fields = {
            "Shape": self._ints(tensor.shape),
            "Type": DTYPES[tensor.dtype],
            "Buffer": 0 if value is None else self._buffer(np.ascontiguousarray(value).tobytes()),
            "Name": self._builder.CreateString(tensor.name),
            "HasRank": True,
        }
        if tensor.quantization is not None:
            fields["Quantization"] = self._quantization(tensor.quantization)
        return self._table("Tensor", **fields)

    def _quantization(self, quantization: Quantization) -> int:
        return self._table(
            "QuantizationParameters",
            Scale=self._vector_of(quantization.scale, np.float32),
            ZeroPoint=self._vector_of(quantization.zero_point, np.int64),
            QuantizedDimension=quantization.axis,
        )

    def _operation(self, operation: Operation, graph: Graph) -> int:
        code = operation.type, version_of(operation, graph)
        fields: Dict[str, Any] = {
            "OpcodeIndex": self._codes.setdefault(code, len(self._codes)),
            "Inputs": self._ints(operation.inputs),
            "Outputs": self._ints(operation.outputs),
        }
        table = OPTIONS.get(operation.type)
        if operation.custom is not None:
            fields["CustomOptions"] = self._builder.CreateByteVector(operation.custom)
        elif table is not None:
            options = {name: self._option(value) for name, value in operation.options.items()}
            fields["BuiltinOptions"] = self._table(table, **options)
            fields["BuiltinOptionsType"] = getattr(self._schema.BuiltinOptions, table)
        return self._table("Operator", **fields)

    def _option(self, value: Any) -> Any:
        """A field of an options table; a list becomes a vector of integers."""
        return self._ints(value) if isinstance(value, (list, tuple)) else value

    def _code(self, type: str, version: int) -> int:
        number = getattr(self._schema.BuiltinOperator, type, None)
        if number is not None:
            return self._table(
                "OperatorCode",
                DeprecatedBuiltinCode=min(number, _LARGEST_BUILTIN),
                Version=version,
                BuiltinCode=number,
            )
        custom = self._builder.CreateString(type)
        number = self._schema.BuiltinOperator.CUSTOM
        return self._table(
            "OperatorCode", DeprecatedBuiltinCode=number, CustomCode=custom, Version=1, BuiltinCode=number
        )

    def _metadata(self, name: str, content: bytes) -> int:
        return self._table("Metadata", Name=self._builder.CreateString(name), Buffer=self._buffer(content))

    def _signature(self, model: Model) -> int:
        inputs, outputs = (
            self._offsets([self._named(name, number) for name, number in sorted(tensors.items())])
            for tensors in (model.inputs, model.outputs)
        )
        key = self._builder.CreateString("serving_default")
        return self._table("SignatureDef", Inputs=inputs, Outputs=outputs, SignatureKey=key, SubgraphIndex=0)

    def _named(self, name: str, number: int) -> int:
        return self._table("TensorMap", Name=self._builder.CreateString(name), TensorIndex=number)
