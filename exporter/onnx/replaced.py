"""Replaces weights of an ONNX model by the caller's."""

from __future__ import annotations

import math
from typing import Dict, List, Mapping

import numpy as np

from exporter.onnx.protos import TensorProto
from exporter.onnx.reader import OnnxFile, graph_of
from exporter.onnx.schema import EXTERNAL
from exporter.onnx.weights import DTYPES
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array

_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


def with_weights(file: OnnxFile, arrays: Mapping[str, Array], contents: Mapping[str, bytes]) -> OnnxFile:
    """The model with other values for some of its weights.

    arrays: values by the weights' names, with the dtypes and shapes that the model declares. contents: used in place of
    files of external data, by their names. ExportError for a name that the model does not have, or for a value that
    does not fit.
    """
    graph = graph_of(file)
    weights = [_replaced(tensor, arrays, contents) for tensor in graph.initializer]
    known = {tensor.name for tensor in weights}
    unknown = [name for name in arrays if name not in known]
    if unknown:
        raise ExportError(f"{file.source}: there is no weight {unknown[0]!r}")
    return file._replace(model=file.model.replace(graph=graph.replace(initializer=tuple(weights))))


def _replaced(tensor: TensorProto, arrays: Mapping[str, Array], contents: Mapping[str, bytes]) -> TensorProto:
    if tensor.name in arrays:
        array = np.ascontiguousarray(arrays[tensor.name])
        wanted: List[int] = tensor.dims.tolist()
        if list(arrays[tensor.name].shape) != wanted or _NUMBERS.get(array.dtype) != tensor.data_type:
            dtype = DTYPES.get(tensor.data_type)
            raise ExportError(f"weight {tensor.name!r} must be {dtype} {wanted}, got {array.dtype} {list(array.shape)}")
        return _stored(tensor, memoryview(array.tobytes()))
    if tensor.data_location == EXTERNAL:
        place: Dict[str, str] = {entry.key: entry.value for entry in tensor.external_data}
        content = contents.get(place.get("location", ""))
        if content is not None:
            return _stored(tensor, memoryview(content)[slice(*_span(tensor, place))])
    return tensor


def _span(tensor: TensorProto, place: Mapping[str, str]) -> List[int]:
    """Where a weight's bytes begin and end in its file of external data."""
    dtype = DTYPES.get(tensor.data_type)
    if dtype is None:
        raise ExportError(f"weight {tensor.name!r} has a data type that is not supported")
    try:
        start = int(place.get("offset", "0"))
        length = int(place.get("length", str(math.prod(tensor.dims.tolist()) * dtype.itemsize)))
    except ValueError:
        raise ExportError(
            f"weight {tensor.name!r} is declared at {dict(place)}, which is not a place in a file"
        ) from None
    return [start, start + length]


def _stored(tensor: TensorProto, content: memoryview) -> TensorProto:
    return TensorProto(dims=tensor.dims, data_type=tensor.data_type, name=tensor.name, raw_data=content)
