"""Translates ONNX models, of any opset, into pairs."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Tuple

import numpy as np

from exporter.common.builder import NetBuilder
from exporter.common.options import DEFAULTS, ExportOptions
from exporter.common.source import naming, origin
from exporter.onnx.functions import Functions
from exporter.onnx.metadata import told
from exporter.onnx.node import known_of
from exporter.onnx.protos import GraphProto, Opset, ValueInfoProto
from exporter.onnx.reader import OnnxFile, graph_of, open_onnx
from exporter.onnx.structure import defined
from exporter.onnx.translator import NEWEST_OPSET, OnProblem, Options, Scope, Translator, declare, read_hints
from exporter.onnx.weights import Weights
from runtime_arm.errors import ExportError
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair


def from_onnx(source: Any, options: ExportOptions = DEFAULTS) -> Pair:
    """The pair that computes what the ONNX model does.

    ExportError, FormatError or ResourceError, naming the file, if it cannot be translated.
    """
    return from_onnx_file(open_onnx(source), options)


def from_onnx_file(file: OnnxFile, options: ExportOptions = DEFAULTS) -> Pair:
    """The same for a model that is open."""
    with naming(file.source):
        return pair_of(file, Functions(file.model), options)


def pair_of(
    file: OnnxFile, functions: Functions, options: ExportOptions, on_problem: Optional[OnProblem] = None
) -> Pair:
    """The pair of a file's model. on_problem: see ``translator.Options``."""
    choices = Options(Weights(file), functions, options.caffe2_compatible, on_problem, options.progress)
    graph = graph_of(file)
    builder, inputs = translated(graph, file.model.opset_import, choices)
    outputs = tuple(_output_info(value, builder) for value in graph.output)
    found = told(file.model)
    source = {**origin(file.source, file.data), "properties": found.pop("properties")}
    meta = {"source": source, **options.over(found)}
    return builder.pair(graph.name, inputs, outputs, meta, unpacked=options.caffe2_compatible)


def translated(
    graph: GraphProto, imports: Sequence[Opset], options: Options
) -> Tuple[NetBuilder, Tuple[TensorInfo, ...]]:
    """A builder with the operators of a model's graph, and the graph's inputs."""
    opsets = {"" if opset.domain == "ai.onnx" else opset.domain: opset.version for opset in imports}
    _check_opset(opsets)
    outputs = [value.name for value in graph.output]
    if len(set(outputs)) < len(outputs) or not outputs or "" in outputs:
        raise ExportError(f"the graph must have at least one output and distinct output names, it has {outputs}")
    builder = NetBuilder(outputs=outputs)
    builder.reserve([*defined(graph), *(name for node in graph.node for name in node.output)])
    scope = Scope(builder, opsets)
    scope.hints = read_hints(graph)
    filled = {tensor.name for tensor in graph.initializer} | {tensor.values.name for tensor in graph.sparse_initializer}
    inputs = []
    for value in graph.input:
        if value.name not in filled:
            info = _info(value)
            names = [name if isinstance(name, str) else None for name in info.shape or ()]
            declare(value, scope, names, not options.caffe2_compatible)
            inputs.append(info)
    Translator(options).walk(graph, scope)
    for name in outputs:
        scope.blob(name)
    return builder, tuple(inputs)


def _check_opset(opsets: Mapping[str, int]) -> None:
    if not 1 <= opsets.get("", NEWEST_OPSET) <= NEWEST_OPSET:
        raise ExportError(f"opset {opsets['']} is not supported: armnet knows 1 to {NEWEST_OPSET}")


def _info(value: ValueInfoProto) -> TensorInfo:
    """Name, dtype and shape as declared; a dimension is a number, a name, or None if it is open."""
    tensor = value.type.tensor_type
    if value.type.sequence_type is not None or value.type.optional_type is not None:
        return TensorInfo(value.name, () if value.type.sequence_type is None else (None,), "object")
    if tensor is None:
        raise ExportError(f"{value.name!r} is a {value.type.kind or 'value of no type'}; only tensors are supported")
    dtype, dims = known_of(value)
    if dtype is None:
        raise ExportError(f"{value.name!r} has a data type that is not supported")
    if dims is None or tensor.shape is None:
        return TensorInfo(value.name, None, dtype.name)
    names = [_symbol(dim.dim_param) for dim in tensor.shape.dim]
    return TensorInfo(value.name, tuple(name if dim is None else dim for dim, name in zip(dims, names)), dtype.name)


def _symbol(name: str) -> Optional[str]:
    return name if name and name != "?" else None


def _output_info(value: ValueInfoProto, builder: NetBuilder) -> TensorInfo:
    """The inferred shape if it is complete, else the declared one."""
    spec = builder.spec(value.name)
    if spec is not None:
        return TensorInfo(value.name, spec.shape, np.dtype(spec.dtype).name)
    return _info(value) if value.type.kind not in ("", "map_type", "sparse_tensor_type") else TensorInfo(value.name)
