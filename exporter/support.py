"""Which operators of a model can be translated: the translation is tried node by node, and nothing is written."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Union

from exporter.caffe.prototxt import AnyPath
from exporter.common.source import naming
from runtime_arm.errors import MissingDependency, UsageError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.pair import read_net
from runtime_arm.registry.schema import find

if TYPE_CHECKING:
    import onnx

NO_SUCH_OPERATOR = "armnet has no such operator"


class Support(NamedTuple):
    """An operator type, how many nodes have it, and why one of them cannot be translated; "" if all can."""

    type: str
    count: int  # type: ignore[assignment]  # hides tuple.count
    problem: str


def support(*sources: Union[AnyPath, bytes, onnx.ModelProto], caffe2_compatible: bool = False) -> List[Support]:
    """One entry an operator type of a model, those that cannot be translated first, then by name.

    Of an .onnx or .tflite file; of a .prototxt, where a .caffemodel with it lets the layers be tried with their
    weights and not by their types alone; of a predict_net.pb or .pbtxt, with or without the init_net.
    caffe2_compatible: see ``export``; for ONNX alone. ExportError, FormatError or ResourceError, naming the file, if it
    is no model at all.
    """
    paths = [source for source in sources if isinstance(source, (str, os.PathLike))]
    suffixes = sorted(Path(path).suffix.lower() for path in paths)
    if len(paths) < len(sources) or suffixes == [".onnx"]:
        return _onnx_support(sources[0], caffe2_compatible)
    if suffixes == [".tflite"]:
        return _tflite_support(paths[0])
    if suffixes in ([".prototxt"], [".caffemodel", ".prototxt"]):
        return _caffe_support({Path(path).suffix.lower(): path for path in paths})
    if 1 <= len(paths) <= 2 and set(suffixes) <= {".pb", ".pbtxt"}:
        return _caffe2_support([read_net(path) for path in paths])
    raise UsageError(
        f"cannot look into {' '.join(map(str, paths)) or 'nothing'}: give one .onnx or .tflite file, "
        ".prototxt and perhaps .caffemodel, or predict_net.pb and perhaps init_net.pb"
    )


def _onnx_support(source: Any, caffe2_compatible: bool) -> List[Support]:
    try:
        from exporter.onnx.export import prepared, translated
    except ImportError as error:
        raise MissingDependency(f"reading ONNX needs {error.name}: pip install 'armnet[export]'") from error
    from exporter.onnx.reader import open_onnx
    from exporter.onnx.structure import every_node
    from exporter.onnx.translator import Options
    from exporter.onnx.weights import Weights

    file = open_onnx(source)
    problems: Dict[str, str] = {}
    with naming(file.source):
        model = prepared(file)
        counts = Counter(_full_type(node) for node in every_node(model.graph))
        note = _first_of(problems)
        options = Options(Weights(file), caffe2_compatible, lambda node, problem: note(_full_type(node), problem))
        translated(model, options)
    return _rows(counts, problems)


def _full_type(node: onnx.NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def _caffe_support(files: Mapping[str, AnyPath]) -> List[Support]:
    from exporter.caffe import export as from_caffe
    from exporter.caffe.net import INPUT_LAYERS, inference_layers, outputs_of
    from exporter.caffe.prototxt import read_prototxt
    from exporter.caffe.rules import find_rule
    from exporter.caffe.upgrade import upgraded
    from exporter.caffe.weights import read_weights

    layers = inference_layers(upgraded(read_prototxt(files[".prototxt"])))
    counts = Counter(str(layer.type) for layer in layers if layer.type not in INPUT_LAYERS)
    problems = {type: from_caffe.NO_SUCH_LAYER for type in counts if find_rule(type) is None}
    if ".caffemodel" in files:
        note = _first_of(problems)
        from_caffe.translated(
            layers,
            read_weights(files[".caffemodel"]),
            outputs_of(layers),
            lambda layer, problem: note(str(layer.type), problem),
        )
    return _rows(counts, problems)


def _tflite_support(path: AnyPath) -> List[Support]:
    try:
        from exporter.tflite import export as from_tflite
        from exporter.tflite import reader as tflite_file
        from exporter.tflite import translator as tflite_graph
    except ImportError as error:
        raise MissingDependency(f"reading TFLite needs {error.name}: pip install 'armnet[export]'") from error
    file = tflite_file.open_tflite(path)
    problems: Dict[str, str] = {}
    note = _first_of(problems)
    options = tflite_graph.Options(file, lambda operation, problem: note(operation.title, problem))
    counts = Counter(operation.title for graph in file.graphs for operation in graph.operations)
    with naming(file.source):
        from_tflite.translated(options, file.graphs[0])
    return _rows(counts, problems)


def _caffe2_support(nets: List[NetDef]) -> List[Support]:
    """By type alone: whether arguments and shapes fit shows when the nets run."""
    operators = {op.full_type: op for net in nets for op in _every_operator(net)}
    counts = Counter(op.full_type for net in nets for op in _every_operator(net))
    return _rows(counts, {type: NO_SUCH_OPERATOR for type, op in operators.items() if find(op) is None})


def _every_operator(net: NetDef) -> Iterator[OperatorDef]:
    for op in net.op:
        yield op
        for sub in op.subnets():
            yield from _every_operator(sub)


def _first_of(problems: Dict[str, str]) -> Callable[[str, str], None]:
    """Notes the first problem of each type."""

    def note(type: str, problem: str) -> None:
        problems.setdefault(type, problem)

    return note


def _rows(counts: Mapping[str, int], problems: Mapping[str, str]) -> List[Support]:
    rows = [Support(type, count, problems.get(type, "")) for type, count in counts.items()]
    return sorted(rows, key=lambda row: (not row.problem, row.type))
