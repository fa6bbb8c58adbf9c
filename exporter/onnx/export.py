"""Translates ONNX models, of any opset that the installed onnx knows, into pairs."""

from __future__ import annotations

import math
from typing import Mapping, Optional, Tuple

import numpy as np
import onnx

from exporter.common.builder import NetBuilder
from exporter.common.options import DEFAULTS, ExportOptions
from exporter.common.source import naming, origin
from exporter.onnx.functions import inline_functions
from exporter.onnx.metadata import told
from exporter.onnx.reader import OnnxFile, Source, open_onnx
from exporter.onnx.structure import defined, every_node
from exporter.onnx.translator import OnProblem, Options, Scope, Translator, known_of, read_hints
from exporter.onnx.weights import Weights
from runtime_arm.errors import ExportError
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair

_LONGEST_PROPAGATED = 1 << 20  # elements
_LOOKED_THROUGH = ("Add", "Cast", "Concat", "Gather", "Identity", "Mul", "Slice", "Squeeze", "Sub", "Unsqueeze")


def from_onnx(source: Source, options: ExportOptions = DEFAULTS) -> Pair:
    """The pair that computes what the ONNX model does.

    ExportError, FormatError or ResourceError, naming the file, if it cannot be translated.
    """
    file = open_onnx(source)
    with naming(file.source):
        return pair_of(file, prepared(file), options)


def pair_of(
    file: OnnxFile, model: onnx.ModelProto, options: ExportOptions, on_problem: Optional[OnProblem] = None
) -> Pair:
    """The pair of a file's prepared model. on_problem: see ``translator.Options``."""
    choices = Options(Weights(file), options.caffe2_compatible, on_problem, options.progress)
    builder, inputs = translated(model, choices)
    outputs = tuple(_output_info(value, builder) for value in model.graph.output)
    found = told(file.model)
    source = {**origin(file.source, file.data), "properties": found.pop("properties")}
    meta = {"source": source, **options.over(found)}
    return builder.pair(model.graph.name, inputs, outputs, meta, unpacked=options.caffe2_compatible)


def prepared(file: OnnxFile) -> onnx.ModelProto:
    """The file's model with its functions inlined and value_info as onnx infers it.

    The file's own value_info is not trusted.
    """
    model = inline_functions(file.model)
    del model.graph.value_info[:]
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=_propagates_little(model.graph))
    except Exception:  # onnx's C++ exceptions have no common base; without hints the translation is more general
        return model


def _propagates_little(graph: onnx.GraphProto) -> bool:
    """Whether onnx may propagate the content of constants: it expands ranges and concatenations element by element."""
    lengths = {tensor.name: math.prod(tensor.dims) for tensor in graph.initializer}
    for node in every_node(graph):
        length = sum(lengths.get(name, 1) for name in node.input)
        if node.op_type == "Range" or (node.op_type == "Concat" and length > _LONGEST_PROPAGATED):
            return False
        lengths.update(dict.fromkeys(node.output, length if node.op_type in _LOOKED_THROUGH else 1))
    return True


def translated(model: onnx.ModelProto, options: Options) -> Tuple[NetBuilder, Tuple[TensorInfo, ...]]:
    """A builder with the operators of the model's graph, and the graph's inputs."""
    graph = model.graph
    opsets = {"" if opset.domain == "ai.onnx" else opset.domain: opset.version for opset in model.opset_import}
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
            builder.input(scope.define(value.name), *known_of(value))
            inputs.append(_info(value))
    Translator(options).walk(graph, scope)
    for name in outputs:
        scope.blob(name)
    return builder, tuple(inputs)


def _check_opset(opsets: Mapping[str, int]) -> None:
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= opsets.get("", newest) <= newest:
        raise ExportError(f"opset {opsets['']} is not supported: the installed onnx knows 1 to {newest}")


def _info(value: onnx.ValueInfoProto) -> TensorInfo:
    """Name, dtype and shape as declared; a dimension is a number, a name, or None if it is open."""
    if not value.type.HasField("tensor_type"):
        kind = value.type.WhichOneof("value") or "value of no type"
        raise ExportError(f"{value.name!r} is a {kind}; only tensors are supported")
    dtype, dims = known_of(value)
    if dtype is None:
        raise ExportError(f"{value.name!r} has a data type that is not supported")
    if dims is None:
        return TensorInfo(value.name, None, dtype.name)
    names = [_symbol(dim.dim_param) for dim in value.type.tensor_type.shape.dim]
    return TensorInfo(value.name, tuple(name if dim is None else dim for dim, name in zip(dims, names)), dtype.name)


def _symbol(name: str) -> Optional[str]:
    return name if name and name != "?" else None


def _output_info(value: onnx.ValueInfoProto, builder: NetBuilder) -> TensorInfo:
    """The inferred shape if it is complete, else the declared one."""
    spec = builder.spec(value.name)
    if spec is not None:
        return TensorInfo(value.name, spec.shape, np.dtype(spec.dtype).name)
    return _info(value) if value.type.HasField("tensor_type") else TensorInfo(value.name)
