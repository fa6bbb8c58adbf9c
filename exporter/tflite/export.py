"""Translates TFLite models into pairs: float, float16, dynamic-range and full integer networks."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from exporter.common.builder import NetBuilder, refuse_foreign
from exporter.common.options import DEFAULTS, ExportOptions
from exporter.common.source import FileOrBytes, naming, origin
from exporter.tflite.blobs import Blobs
from exporter.tflite.metadata import picture_meta
from exporter.tflite.reader import Graph, Tensor, TfliteFile, open_tflite
from exporter.tflite.translator import OnProblem, Options, Translator
from exporter.tflite.weights import quantization_of
from runtime_arm.errors import ExportError
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair


def from_tflite(source: FileOrBytes, options: ExportOptions = DEFAULTS) -> Pair:
    """The pair that computes what a .tflite file or its content does, with inputs and outputs in TFLite's own layouts.

    ExportError, FormatError or ResourceError, naming the file, if it cannot be translated.
    """
    file = open_tflite(source)
    with naming(file.source):
        return pair_of(file, graph_of(file, options.signature), options)


def pair_of(file: TfliteFile, graph: Graph, options: ExportOptions, on_problem: Optional[OnProblem] = None) -> Pair:
    """The pair of one of a file's graphs. on_problem: see ``translator.Options``."""
    blobs = translated(Options(file, on_problem, options.progress), graph)
    names = output_names(graph)
    infos = [_output_info(graph.tensors[index], name, blobs.net) for index, name in zip(graph.outputs, names)]
    told = {**_signatures(file, graph), **_quantization(graph), **picture_meta(file, graph)}
    meta = {"source": origin(file.source, file.data), **options.over(told)}
    pair = blobs.net.pair(graph.name, _inputs(graph), infos, meta, unpacked=options.caffe2_compatible)
    if options.caffe2_compatible:
        refuse_foreign(pair.predict_net)
    return pair


def translated(options: Options, graph: Graph) -> Blobs:
    """The graph's blobs; their builder holds the operators."""
    inputs, outputs = input_names(graph), output_names(graph)
    if not outputs:
        raise ExportError("the graph has no output")
    net = NetBuilder(outputs=outputs)
    net.reserve([*inputs, *outputs])
    blobs = Blobs(graph, net, {**_single(graph, outputs), **dict(zip(graph.inputs, inputs))})
    for index in graph.inputs:
        tensor = graph.tensors[index]
        if tensor.dtype is None:
            raise ExportError(f"input {tensor.name!r} has the type {tensor.type}, which is not supported")
        net.input(blobs.write(tensor), tensor.dtype, tensor.dims)
    Translator(options).walk(blobs)
    for index, name in zip(graph.outputs, outputs):
        if graph.tensors[index].dtype is None:
            raise ExportError(f"output {name!r} has the type {graph.tensors[index].type}, which is not supported")
        blob = blobs.read(graph.tensors[index])
        if blob != name:
            net.alias(name, blob)
    return blobs


def input_names(graph: Graph) -> List[str]:
    """The blobs of the graph's inputs, in order: the tensors' names, made distinct."""
    if len(set(graph.inputs)) < len(graph.inputs):
        raise ExportError("the graph takes the same tensor as an input twice")
    return _distinct(graph, graph.inputs, [])


def output_names(graph: Graph) -> List[str]:
    """The blobs of the graph's outputs, in order; none is an input's blob."""
    return _distinct(graph, graph.outputs, input_names(graph))


def _distinct(graph: Graph, indices: Tuple[int, ...], taken: List[str]) -> List[str]:
    names: List[str] = []
    for index in indices:
        stem = name = graph.tensors[index].name
        count = 0
        while name in names or name in taken:
            count += 1
            name = f"{stem}_{count}"
        names.append(name)
    return names


def _single(graph: Graph, names: List[str]) -> Dict[int, str]:
    """The name of each output tensor; of a tensor that is an output twice, the first name."""
    return dict(reversed(list(zip(graph.outputs, names))))


def graph_of(file: TfliteFile, signature: Optional[str]) -> Graph:
    """The graph of a signature; the first graph if none is named. ExportError if there is no such signature."""
    if signature is None:
        return file.graphs[0]
    graphs = {entry.key: entry.graph for entry in file.signatures}
    if signature not in graphs:
        raise ExportError(f"there is no signature {signature!r}; the model has {', '.join(sorted(graphs)) or 'none'}")
    return file.graphs[graphs[signature]]


def _inputs(graph: Graph) -> List[TensorInfo]:
    return [_info(graph.tensors[index], name) for index, name in zip(graph.inputs, input_names(graph))]


def _info(tensor: Tensor, name: str) -> TensorInfo:
    return TensorInfo(name, tensor.dims, None if tensor.dtype is None else tensor.dtype.name)


def _output_info(tensor: Tensor, name: str, net: NetBuilder) -> TensorInfo:
    """The inferred shape if it is complete, else the declared one."""
    spec = net.spec(name)
    if spec is not None:
        return TensorInfo(name, spec.shape, spec.dtype.name)
    known = _info(tensor, name)
    return known if tensor.has_rank else TensorInfo(name, None, known.dtype)


def _quantization(graph: Graph) -> Dict[str, Any]:
    """Scale and zero point of inputs and outputs with one scale: real = scale * (integer - zero_point)."""
    edges = [*zip(graph.inputs, input_names(graph)), *zip(graph.outputs, output_names(graph))]
    parameters = {name: quantization_of(graph.tensors[index]) for index, name in edges}
    found = {
        name: {"scale": float(one.scale[0]), "zero_point": int(one.zero_point[0])}
        for name, one in parameters.items()
        if one is not None and not one.per_channel
    }
    return {"quantization": found} if found else {}


def _signatures(file: TfliteFile, graph: Graph) -> Dict[str, Any]:
    """The signatures of the graph: their names of its inputs and outputs -> blobs."""
    inputs, outputs = (
        dict(zip(indices, names))
        for indices, names in ((graph.inputs, input_names(graph)), (graph.outputs, output_names(graph)))
    )
    found = {
        entry.key: {
            "inputs": {name: inputs[index] for name, index in entry.inputs.items() if index in inputs},
            "outputs": {name: outputs[index] for name, index in entry.outputs.items() if index in outputs},
        }
        for entry in file.signatures
        if entry.graph == graph.index
    }
    return {"signatures": found} if found else {}
