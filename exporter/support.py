"""Which operators of a model can be translated: the translation is tried node by node, and nothing is written."""

from __future__ import annotations

import os
from collections import Counter
from typing import Dict, List, Mapping, NamedTuple

import onnx

from exporter import from_tflite, tflite_file, tflite_graph
from exporter.caffe_net import INPUT_LAYERS, inference_layers
from exporter.caffe_rules import find_rule as find_layer_rule
from exporter.caffe_upgrade import upgraded
from exporter.from_caffe import NO_SUCH_LAYER
from exporter.from_onnx import naming, prepared, translated
from exporter.onnx_file import Source, open_onnx
from exporter.onnx_graph import Options
from exporter.onnx_structure import every_node
from exporter.onnx_weights import Weights
from exporter.prototxt import AnyPath, read_prototxt


class Support(NamedTuple):
    """An operator type, how many nodes have it, and why one of them cannot be translated; "" if all can."""

    type: str
    count: int  # type: ignore[assignment]  # hides tuple.count
    problem: str


def support(source: Source, *, caffe2_compatible: bool = False) -> List[Support]:
    """One entry an operator type of an ONNX model, those that cannot be translated first, then by name.

    Of a .tflite file the same. Of a Caffe prototxt the layer types; whether their parameters can be translated is not
    looked at. caffe2_compatible: see ``export``; for ONNX alone. ExportError, FormatError or ResourceError, naming the
    file, if it is no model at all.
    """
    if not isinstance(source, (bytes, onnx.ModelProto)) and os.fspath(source).endswith(".prototxt"):
        return _caffe_support(source)
    if not isinstance(source, (bytes, onnx.ModelProto)) and os.fspath(source).endswith(".tflite"):
        return _tflite_support(source)
    file = open_onnx(source)
    problems: Dict[str, str] = {}

    def on_problem(node: onnx.NodeProto, problem: str) -> None:
        problems.setdefault(_full_type(node), problem)

    with naming(file):
        model = prepared(file)
        counts = Counter(_full_type(node) for node in every_node(model.graph))
        translated(model, Options(Weights(file), caffe2_compatible, on_problem))
    return _rows(counts, problems)


def _caffe_support(prototxt: AnyPath) -> List[Support]:
    layers = inference_layers(upgraded(read_prototxt(prototxt)))
    counts = Counter(str(layer.type) for layer in layers if layer.type not in INPUT_LAYERS)
    return _rows(counts, {type: NO_SUCH_LAYER for type in counts if find_layer_rule(type) is None})


def _tflite_support(path: AnyPath) -> List[Support]:
    file = tflite_file.open_tflite(path)
    problems: Dict[str, str] = {}
    options = tflite_graph.Options(file, lambda operation, problem: problems.setdefault(operation.title, problem))
    counts = Counter(operation.title for graph in file.graphs for operation in graph.operations)
    with from_tflite.naming(file):
        from_tflite.translated(options, file.graphs[0])
    return _rows(counts, problems)


def _rows(counts: Mapping[str, int], problems: Mapping[str, str]) -> List[Support]:
    rows = [Support(type, count, problems.get(type, "")) for type, count in counts.items()]
    return sorted(rows, key=lambda row: (not row.problem, row.type))


def _full_type(node: onnx.NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
