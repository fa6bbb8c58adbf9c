"""Runs a source model by its native runtime and shows every blob: what ``armnet compare`` believes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, Mapping, Union

import numpy as np

from runtime_arm.errors import ExportError, MissingDependency, UsageError
from runtime_arm.netdef import Array

Model = Union[str, "os.PathLike[str]"]


def witness_blobs(model: Model, feeds: Mapping[str, Array]) -> Dict[str, Array]:
    """Every blob of the model that the native runtime shows, by name, in the order in which it computes them."""
    suffix = Path(model).suffix.lower()
    if suffix != ".onnx":
        raise UsageError(f"{os.fspath(model)}: only .onnx models can be run beside a pair")
    return _onnx_blobs(model, feeds)


def _onnx_blobs(model: Model, feeds: Mapping[str, Array]) -> Dict[str, Array]:
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
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        values = session.run([*computed, *declared], dict(feeds))
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise ExportError(f"{os.fspath(model)}: onnxruntime refuses it: {str(error).splitlines()[0]}") from error
    found = dict(zip([*computed, *declared], values))
    order = [name for node in proto.graph.node for name in node.output if name in found]
    return {name: found[name] for name in order if isinstance(found[name], np.ndarray)}
