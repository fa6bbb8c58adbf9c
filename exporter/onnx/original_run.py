"""ONNX models run by onnxruntime."""

from __future__ import annotations

import os
from typing import Container, Dict, Mapping, Optional

import numpy as np
import onnx
import onnxruntime

from exporter.common.original_run import OriginalBlob, OriginalRun
from runtime_arm.errors import ExportError, first_line
from runtime_arm.files import AnyPath
from runtime_arm.netdef import Array


def run_onnx(path: AnyPath, feeds: Mapping[str, Array], blobs: Optional[Container[str]] = None) -> OriginalRun:
    """Every node's outputs, or those among ``blobs`` and the graph's, computed without onnxruntime's optimisations."""
    try:
        proto = onnx.load(os.fspath(path))
    except Exception as error:  # protobuf's DecodeError has no common base in the versions supported
        raise ExportError(f"{os.fspath(path)}: cannot be read as ONNX: {first_line(error)}") from error
    declared = [output.name for output in proto.graph.output]
    others = (name for node in proto.graph.node for name in node.output if name and name not in declared)
    computed = [name for name in others if blobs is None or name in blobs]
    for name in computed:
        proto.graph.output.append(onnx.ValueInfoProto(name=name))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4  # the exception repeats what the log would say
    options.enable_cpu_mem_arena = False  # it grows by doubling, and every blob stays until the end
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        values = session.run([*computed, *declared], dict(feeds))
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise ExportError(f"{os.fspath(path)}: onnxruntime refuses it: {first_line(error)}") from error
    found: Dict[str, Array] = dict(zip([*computed, *declared], values))
    order = [name for node in proto.graph.node for name in node.output if name in found]
    shown = [OriginalBlob(name, name, found[name]) for name in order if isinstance(found[name], np.ndarray)]
    return OriginalRun(f"onnxruntime {onnxruntime.__version__}", shown)
