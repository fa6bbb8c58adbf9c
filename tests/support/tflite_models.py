"""Small .tflite files, written tensor by tensor, and their results in LiteRT's reference kernels.

    model = Model()
    x = model.input("x", (1, 8, 8, 3))
    w = model.constant("w", weights)
    y = model.tensor("y")
    model.operator("CONV_2D", [x, w], [y], "Conv2DOptions", Padding=1, StrideW=1, StrideH=1)
    data = model.to_bytes(outputs=[y])
    expected = reference(data, {"x": values})          # the outputs by name

Options are named as in the writer of the package ``tflite``: ``StrideW`` for stride_w.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import flatbuffers
import numpy as np
import tflite

from exporter import export
from runtime_arm import Predictor

VERSION = 3
TYPES = {
    name: getattr(tflite.TensorType, name.upper())
    for name in (
        "float32",
        "float16",
        "float64",
        "int4",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "bool",
        "resource",
        "string",
        "complex64",
    )
}


@dataclass
class Quantization:
    """Scales and zero points: one of each, or one per slice along ``axis``."""

    scale: Sequence[float]
    zero_point: Sequence[int] = (0,)
    axis: int = 0


@dataclass
class Sparsity:
    """As in SparsityParameters; a dimension is a size (dense) or (segments, indices)."""

    traversal_order: Sequence[int]
    block_map: Sequence[int]
    dimensions: Sequence[Union[int, Tuple[Sequence[int], Sequence[int]]]]


@dataclass
class Tensor:
    """One tensor. ``signature``: its shape, with -1 for open sizes. ``has_rank``: without a shape it is a scalar."""

    name: str
    shape: Tuple[int, ...]
    dtype: str
    content: Optional[bytes] = None
    quantization: Optional[Quantization] = None
    signature: Optional[Sequence[int]] = None
    is_variable: bool = False
    sparsity: Optional[Sparsity] = None
    has_rank: bool = False


@dataclass
class Operator:
    """One operator; an omitted input is -1."""

    type: str
    inputs: List[int]
    outputs: List[int]
    options: str
    fields: Dict[str, Any]
    custom: str = ""
    custom_options: bytes = b""
    version: int = 1
    intermediates: Sequence[int] = ()


@dataclass
class Graph:
    """A subgraph under construction; tensors are referred to by index."""

    name: str = ""
    tensors: List[Tensor] = field(default_factory=list)
    operators: List[Operator] = field(default_factory=list)
    inputs: List[int] = field(default_factory=list)
    outputs: List[int] = field(default_factory=list)

    def tensor(self, name: str, shape: Sequence[int] = (), dtype: str = "float32", **more: Any) -> int:
        """A tensor that an operator writes; LiteRT infers its shape."""
        self.tensors.append(Tensor(name, tuple(shape), dtype, **more))
        return len(self.tensors) - 1

    def input(self, name: str, shape: Sequence[int] = (), dtype: str = "float32", **more: Any) -> int:
        """An input of the graph."""
        self.inputs.append(self.tensor(name, shape, dtype, **more))
        return self.inputs[-1]

    def constant(self, name: str, values: Any, **more: Any) -> int:
        """A tensor with this content; float64 is stored as float32 and, without ``dtype``, int64 as int32."""
        array = np.asarray(values)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        array = array.astype(np.int32) if array.dtype == np.int64 and "dtype" not in more else array
        given = {"shape": array.shape, "dtype": array.dtype.name, "content": array.tobytes(), **more}
        return self.tensor(name, **given)

    def operator(
        self,
        type: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str = "",
        *,
        custom: str = "",
        custom_options: bytes = b"",
        version: int = 1,
        intermediates: Sequence[int] = (),
        **fields: Any,
    ) -> Sequence[int]:
        """Appends an operator and returns its outputs."""
        self.operators.append(
            Operator(type, list(inputs), list(outputs), options, fields, custom, custom_options, version, intermediates)
        )
        return outputs


class Model(Graph):
    """A whole file: the main graph, further graphs, signatures, metadata."""

    def __init__(self, name: str = "main"):
        super().__init__(name)
        self.graphs: List[Graph] = [self]
        self.signatures: List[Tuple[str, Dict[str, int], Dict[str, int], int]] = []
        self.metadata: Dict[str, bytes] = {}

    def graph(self, name: str) -> Graph:
        """Adds a further graph; ``graphs.index`` gives its index."""
        self.graphs.append(Graph(name))
        return self.graphs[-1]

    def to_bytes(self, outputs: Sequence[int] = ()) -> bytes:
        """The bytes of the file. ``outputs`` sets the outputs of the main graph."""
        self.outputs = list(outputs) or self.outputs
        return _Writer(self).finish()


class _Writer:
    """Writes a FlatBuffer; an object is written after the objects that it refers to."""

    def __init__(self, model: Model):
        self._model = model
        self._builder = flatbuffers.Builder(1024)
        self._buffers: List[int] = [self._table("Buffer")]
        self._codes: List[Tuple[str, str, int]] = []

    def finish(self) -> bytes:
        graphs = self._offsets([self._graph(graph) for graph in self._model.graphs])
        signatures = [self._signature(*entry) for entry in self._model.signatures]
        metadata = [self._metadata(*entry) for entry in self._model.metadata.items()]
        codes = [self._code(*code) for code in self._codes]
        fields = {"OperatorCodes": self._offsets(codes), "Subgraphs": graphs, "Buffers": self._offsets(self._buffers)}
        if signatures:
            fields["SignatureDefs"] = self._offsets(signatures)
        if metadata:
            fields["Metadata"] = self._offsets(metadata)
        self._builder.Finish(self._table("Model", Version=VERSION, **fields), file_identifier=b"TFL3")
        return bytes(self._builder.Output())

    def _graph(self, graph: Graph) -> int:
        fields = {
            "Tensors": self._offsets([self._tensor(tensor) for tensor in graph.tensors]),
            "Operators": self._offsets([self._operator(operator) for operator in graph.operators]),
            "Inputs": self._numbers(graph.inputs),
            "Outputs": self._numbers(graph.outputs),
            "Name": self._builder.CreateString(graph.name),
        }
        return self._table("SubGraph", **fields)

    def _tensor(self, tensor: Tensor) -> int:
        fields: Dict[str, Any] = {"Shape": self._numbers(tensor.shape), "Name": self._builder.CreateString(tensor.name)}
        if tensor.content is not None:
            self._buffers.append(self._table("Buffer", Data=self._aligned(tensor.content)))
            fields["Buffer"] = len(self._buffers) - 1
        if tensor.quantization is not None:
            fields["Quantization"] = self._quantization(tensor.quantization)
        if tensor.signature is not None:
            fields["ShapeSignature"] = self._numbers(tensor.signature)
        if tensor.sparsity is not None:
            fields["Sparsity"] = self._sparsity(tensor.sparsity)
        if tensor.has_rank:
            fields["HasRank"] = True
        return self._table("Tensor", Type=TYPES[tensor.dtype], IsVariable=tensor.is_variable, **fields)

    def _quantization(self, given: Quantization) -> int:
        scale = self._builder.CreateNumpyVector(np.asarray(given.scale, np.float32))
        zero_point = self._builder.CreateNumpyVector(np.asarray(given.zero_point, np.int64))
        return self._table("QuantizationParameters", Scale=scale, ZeroPoint=zero_point, QuantizedDimension=given.axis)

    def _sparsity(self, given: Sparsity) -> int:
        dimensions = []
        for dimension in given.dimensions:
            if isinstance(dimension, int):
                dimensions.append(self._table("DimensionMetadata", Format=0, DenseSize=dimension))
                continue
            segments, indices = (self._table("Int32Vector", Values=self._numbers(part)) for part in dimension)
            dimensions.append(
                self._table(
                    "DimensionMetadata",
                    Format=1,
                    ArraySegmentsType=1,
                    ArraySegments=segments,
                    ArrayIndicesType=1,
                    ArrayIndices=indices,
                )
            )
        return self._table(
            "SparsityParameters",
            TraversalOrder=self._numbers(given.traversal_order),
            BlockMap=self._numbers(given.block_map),
            DimMetadata=self._offsets(dimensions),
        )

    def _operator(self, operator: Operator) -> int:
        code = (operator.type, operator.custom, operator.version)
        if code not in self._codes:
            self._codes.append(code)
        fields: Dict[str, Any] = {"Inputs": self._numbers(operator.inputs), "Outputs": self._numbers(operator.outputs)}
        if operator.options:
            values = {name: self._value(value) for name, value in operator.fields.items()}
            union = "BuiltinOptions" if hasattr(tflite.BuiltinOptions, operator.options) else "BuiltinOptions2"
            fields[f"{union}Type"] = getattr(getattr(tflite, union), operator.options)
            fields[union] = self._table(operator.options, **values)
        if operator.intermediates:
            fields["Intermediates"] = self._numbers(operator.intermediates)
        if operator.custom_options:
            fields["CustomOptions"] = self._aligned(operator.custom_options)
        return self._table("Operator", OpcodeIndex=self._codes.index(code), **fields)

    def _value(self, value: Any) -> Any:
        """A number as it is; for a string or an array of numbers, the offset that the table stores."""
        if isinstance(value, str):
            return self._builder.CreateString(value)
        if isinstance(value, (list, tuple, np.ndarray)):
            array = np.asarray(value)
            return self._builder.CreateNumpyVector(
                array.astype(np.float32) if array.dtype.kind == "f" else array.astype(np.int32)
            )
        return value

    def _code(self, type: str, custom: str, version: int) -> int:
        number = getattr(tflite.BuiltinOperator, type)
        fields = {"CustomCode": self._builder.CreateString(custom)} if custom else {}
        return self._table(
            "OperatorCode", DeprecatedBuiltinCode=min(number, 127), BuiltinCode=number, Version=version, **fields
        )

    def _signature(self, key: str, inputs: Mapping[str, int], outputs: Mapping[str, int], graph: int) -> int:
        maps = {
            name: self._offsets(
                [
                    self._table("TensorMap", Name=self._builder.CreateString(entry), TensorIndex=index)
                    for entry, index in entries.items()
                ]
            )
            for name, entries in (("Inputs", inputs), ("Outputs", outputs))
        }
        return self._table("SignatureDef", SignatureKey=self._builder.CreateString(key), SubgraphIndex=graph, **maps)

    def _metadata(self, name: str, content: bytes) -> int:
        self._buffers.append(self._table("Buffer", Data=self._aligned(content)))
        return self._table("Metadata", Name=self._builder.CreateString(name), Buffer=len(self._buffers) - 1)

    def _table(self, kind: str, **fields: Any) -> int:
        getattr(tflite, f"{kind}Start")(self._builder)
        for name, value in fields.items():
            getattr(tflite, f"{kind}Add{name}")(self._builder, value)
        end: int = getattr(tflite, f"{kind}End")(self._builder)
        return end

    def _offsets(self, items: Sequence[int]) -> int:
        self._builder.StartVector(4, len(items), 4)
        for item in reversed(items):
            self._builder.PrependUOffsetTRelative(item)
        end: int = self._builder.EndVector()
        return end

    def _numbers(self, values: Sequence[int]) -> int:
        end: int = self._builder.CreateNumpyVector(np.asarray(values, np.int32))
        return end

    def _aligned(self, content: bytes) -> int:
        """A vector of bytes aligned to 16, as LiteRT requires of weights."""
        self._builder.StartVector(1, len(content), 16)
        self._builder.head -= len(content)
        self._builder.Bytes[self._builder.head : self._builder.head + len(content)] = content
        end: int = self._builder.EndVector()
        return end


def ours(folder: Path, data: bytes, feeds: Mapping[str, Any]) -> List[Any]:
    """The outputs, in order, of the pair exported from the file, which is written into ``folder``."""
    path = folder / "model.tflite"
    path.write_bytes(data)
    with Predictor(export(path), threads=1) as predictor:
        return list(predictor.run(feeds).values())


def interpreter(data: bytes, **options: Any) -> Any:
    """LiteRT with allocated tensors and reference kernels; with fast kernels where reference kernels are missing."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    options = {"model_content": data, "num_threads": 1, **options}
    try:
        made = Interpreter(experimental_op_resolver_type=OpResolverType.BUILTIN_REF, **options)
    except ValueError:
        kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        made = Interpreter(experimental_op_resolver_type=kernels, **options)
    made.allocate_tensors()
    return made


def reference(data: bytes, feeds: Mapping[str, Any]) -> List[Any]:
    """The outputs of LiteRT's reference kernels, in order; ``feeds`` has the inputs by name."""
    runner = interpreter(data)
    for detail in runner.get_input_details():
        if detail["name"] in feeds and tuple(detail["shape"]) != np.shape(feeds[detail["name"]]):
            runner.resize_tensor_input(detail["index"], np.shape(feeds[detail["name"]]))
    runner.allocate_tensors()
    for detail in runner.get_input_details():
        runner.set_tensor(detail["index"], np.asarray(feeds[detail["name"]]))
    runner.invoke()
    return [np.array(runner.get_tensor(detail["index"])) for detail in runner.get_output_details()]
