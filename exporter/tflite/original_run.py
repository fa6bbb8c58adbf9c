"""TFLite models run by LiteRT, or by the tflite-runtime that Raspberry Pis carry, with the reference kernels."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Dict, List, Mapping, Tuple

import numpy as np

from exporter.common.original_run import OriginalBlob, OriginalRun
from exporter.tflite.export import input_names, translated
from exporter.tflite.reader import Graph, open_tflite
from exporter.tflite.translator import Options
from runtime_arm.errors import ExportError, MissingDependency, first_line
from runtime_arm.files import AnyPath
from runtime_arm.netdef import Array

_NO_ARRAYS = ("RESOURCE", "VARIANT")  # LiteRT crashes if it is asked for the content of such a tensor
_RUNTIMES = (("ai_edge_litert.interpreter", "ai-edge-litert"), ("tflite_runtime.interpreter", "tflite-runtime"))


def run_tflite(path: AnyPath, feeds: Mapping[str, Array]) -> OriginalRun:
    """Every tensor of the first graph that has a blob in the pair, in the blob's layout."""
    module, name = tflite_runtime()
    file = open_tflite(path)
    graph = file.graphs[0]
    try:
        values = _run(module, path, graph, feeds)
    except (ValueError, RuntimeError) as error:
        raise ExportError(f"{os.fspath(path)}: {name} refuses it: {first_line(error)}") from error
    forms: Dict[int, List[Tuple[str, str, bool]]] = {}
    for tensor, blob, channels_first in translated(Options(file), graph).forms():
        forms.setdefault(tensor.index, []).append((tensor.name, blob, channels_first))
    written = [index for operation in graph.operations for index in operation.outputs if index in values]
    blobs = [
        OriginalBlob(tensor, blob, _as_blob(values[index], channels_first))
        for index in written
        for tensor, blob, channels_first in forms.get(index, ())
    ]
    return OriginalRun(f"{name}, reference kernels", blobs, exact=True)


def _as_blob(value: Array, channels_first: bool) -> Array:
    """A tensor as the pair holds it: complex numbers as pairs of floats, see ``rules/signal.py``."""
    if value.dtype.kind == "c":
        return np.stack([value.real, value.imag], axis=-1)
    return np.moveaxis(value, -1, 1) if channels_first else value


def tflite_runtime() -> Tuple[Any, str]:
    """The module that has the Interpreter, and the name and version of its package; MissingDependency without one."""
    for module, package in _RUNTIMES:
        try:
            found = import_module(module)
        except ImportError:
            continue
        try:
            return found, f"{package} {version(package)}"
        except PackageNotFoundError:  # installed without metadata
            return found, package
    raise MissingDependency("running TFLite needs ai-edge-litert or tflite-runtime: pip install 'armnet[validate]'")


def _run(module: Any, path: AnyPath, graph: Graph, feeds: Mapping[str, Array]) -> Dict[int, Array]:
    """The content of each tensor after a run, by its index in the file."""
    interpreter = module.Interpreter(
        model_path=os.fspath(path),
        num_threads=1,
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF,
    )
    given = {index: feeds[name] for index, name in zip(graph.inputs, input_names(graph))}
    for index, value in given.items():
        if tuple(interpreter.get_input_details()[graph.inputs.index(index)]["shape"]) != value.shape:
            interpreter.resize_tensor_input(index, value.shape)
    interpreter.allocate_tensors()
    for index, value in given.items():
        interpreter.set_tensor(index, value)
    interpreter.invoke()
    values: Dict[int, Array] = {}
    for tensor in {index for operation in graph.operations for index in operation.outputs}:
        if graph.tensors[tensor].type in _NO_ARRAYS:
            continue
        try:
            values[tensor] = np.array(interpreter.get_tensor(tensor))
        except ValueError:  # a tensor that the runtime does not keep
            continue
    return values
