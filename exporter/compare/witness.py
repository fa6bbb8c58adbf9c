"""Runs a source model by its native runtime and shows every blob: what ``armnet compare`` believes.

.onnx                      onnxruntime, nothing optimised
.tflite                    LiteRT (else TensorFlow Lite) with its reference kernels
.prototxt .caffemodel      OpenCV 4, whose importer reads Caffe nets
init_net.pb predict_net.pb, or a pair
                           no runtime of Caffe2's is to be had: armnet's reference kernels, in float64
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, List, Mapping, NamedTuple, Sequence, Union

import numpy as np

from runtime_arm.errors import ExportError, MissingDependency, UsageError
from runtime_arm.netdef import Array

AnyPath = Union[str, "os.PathLike[str]"]


class Seen(NamedTuple):
    """A blob of the original in the order in which ours lies: ``blob`` is its name in the pair."""

    name: str
    blob: str
    value: Array


class Evidence(NamedTuple):
    """What a runtime, which is named with its version, computed: every blob that it shows, in its order.

    exact: its integers are to be equal, and not merely within a step.
    """

    runtime: str
    seen: List[Seen]
    exact: bool = False


def witness(paths: Sequence[AnyPath], feeds: Mapping[str, Array]) -> Evidence:
    """Runs the model in these files for inputs by the pair's names.

    MissingDependency, saying what to install, where the runtime is missing; ExportError where it refuses the model.
    """
    suffixes = sorted(Path(path).suffix.lower() for path in paths)
    if suffixes == [".onnx"]:
        return _onnx(paths[0], feeds)
    if suffixes == [".tflite"]:
        from exporter.tflite.witness import tflite

        return tflite(paths[0], feeds)
    if suffixes == [".caffemodel", ".prototxt"]:
        from exporter.caffe.witness import caffe

        prototxt, caffemodel = sorted(paths, key=lambda path: Path(path).suffix.lower(), reverse=True)
        return caffe(prototxt, caffemodel, feeds)
    from exporter.caffe2.witness import reference

    if (len(paths) == 2 and set(suffixes) <= {".pb", ".pbtxt"}) or (len(paths) == 1 and Path(paths[0]).is_dir()):
        return reference(paths, feeds)
    names = " ".join(os.fspath(path) for path in paths)
    raise UsageError(
        f"cannot run {names} beside a pair: give one .onnx or .tflite file, .prototxt and .caffemodel, "
        "init_net.pb and predict_net.pb, or a pair"
    )


def _onnx(model: AnyPath, feeds: Mapping[str, Array]) -> Evidence:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise MissingDependency(f"comparing needs {error.name}: pip install 'armnet[export,validate]'") from error
    try:
        proto = onnx.load(os.fspath(model))
    except Exception as error:  # protobuf's DecodeError has no common base in the versions supported
        raise ExportError(f"{os.fspath(model)}: cannot be read as ONNX: {error}") from error
    declared = [output.name for output in proto.graph.output]
    computed = [name for node in proto.graph.node for name in node.output if name and name not in declared]
    for name in computed:
        proto.graph.output.append(onnx.ValueInfoProto(name=name))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4  # what it refuses it says in the exception, too
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        values = session.run([*computed, *declared], dict(feeds))
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise ExportError(f"{os.fspath(model)}: onnxruntime refuses it: {first_line(error)}") from error
    found: Dict[str, Array] = dict(zip([*computed, *declared], values))
    order = [name for node in proto.graph.node for name in node.output if name in found]
    shown = [Seen(name, name, found[name]) for name in order if isinstance(found[name], np.ndarray)]
    return Evidence(f"onnxruntime {onnxruntime.__version__}", shown)


def first_line(error: BaseException) -> str:
    """What a foreign runtime says, in one line."""
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]
