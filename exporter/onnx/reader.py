"""Opens ONNX files, without the package onnx and without copying their weights: tensors are views of the file."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Optional, Union

from exporter.common.source import InMemory, content_of
from exporter.onnx.protos import GraphProto, ModelProto
from exporter.onnx.schema import MODEL
from runtime_arm.errors import ExportError, FormatError, first_line
from runtime_arm.netdef.decoder import decode


class OnnxFile(NamedTuple):
    """A model; its tensors are views of ``data``. External data lies in ``folder``, if the model comes from one."""

    model: ModelProto
    data: memoryview
    source: str
    folder: Optional[str]


def open_onnx(source: Any) -> OnnxFile:
    """The model in a file, in bytes, or in an onnx.ModelProto. ResourceError if the file cannot be read, FormatError if
    it holds no model."""
    if hasattr(source, "SerializeToString"):
        name = source.graph.name or "model"
        try:
            content = source.SerializeToString()
        except Exception as error:  # protobuf's limit of 2 GB; its errors have no common base
            raise ExportError(
                f"{name}: the model in memory cannot be encoded; give its file instead: {first_line(error)}"
            ) from error
        return parse_onnx(content, name, None)
    name, data = content_of(source)
    return parse_onnx(data, name, None if isinstance(source, InMemory) else os.path.dirname(os.path.abspath(name)))


def graph_of(file: OnnxFile) -> GraphProto:
    """The model's graph."""
    assert file.model.graph is not None, "files without a graph are refused when they are opened"
    return file.model.graph


def parse_onnx(data: Union[bytes, memoryview], source: str, folder: Optional[str]) -> OnnxFile:
    """The model in ``data``; external weights are in ``folder``. FormatError, naming ``source``, if there is none."""
    if not data:
        raise FormatError(f"{source}: the file is empty")
    model: ModelProto = decode(MODEL, data, f"{source}: no ONNX model")
    if model.graph is None or not model.opset_import:
        missing = "graph" if model.graph is None else "opset_import"
        raise FormatError(f"{source}: no ONNX model: it has no {missing}")
    return OnnxFile(model, memoryview(data), source, folder)
