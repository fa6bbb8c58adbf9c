"""Writes an ONNX model whose weights are arrays: in pieces, and into a second file if the model would be too large.

No program can read a protobuf message of 2 GB or more; ONNX then keeps the weights in a separate file (external data).
Wire format and field numbers: onnx.proto.
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, List, Mapping, Optional, Tuple

import numpy as np
import onnx
from onnx import helper

from exporter.to_onnx.operand import ONNX_NUMBERS
from runtime_arm.errors import ExportError
from runtime_arm.files import AnyPath, Chunk, write_file
from runtime_arm.netdef import Array
from runtime_arm.netdef.wire import BYTES, encode_tag, encode_varint

LARGEST_MODEL = (1 << 31) - (1 << 20)  # bytes, with room for everything except weights
EXTERNAL_NBYTES = 1024  # smaller constants stay in the model
ALIGNMENT = 64  # of tensors in the second file, so that they can be mapped

_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW_DATA = 7, 5, 9  # field numbers


def write_model(
    path: AnyPath, model: onnx.ModelProto, constants: Mapping[str, Array], largest: int = LARGEST_MODEL
) -> List[Path]:
    """Write the model, which has no initializers yet, and its constants. Returns the files; each appears whole or not.

    Weights go to ``<path>.data`` if the model would be larger than ``largest`` bytes with them.
    """
    target = Path(path)
    if sum(array.nbytes for array in constants.values()) <= largest:
        write_file(target, _chunks(model, constants, {}))
        return [target]
    data = target.with_name(target.name + ".data")
    outside = [(name, array) for name, array in constants.items() if _raw_nbytes(array) >= EXTERNAL_NBYTES]
    places = _places(outside)
    write_file(data, _aligned(outside, places))
    write_file(target, _chunks(model, constants, {name: (data.name, place) for name, place in places.items()}))
    return [target, data]


def with_constants(model: onnx.ModelProto, constants: Mapping[str, Array]) -> onnx.ModelProto:
    """The model with its initializers."""
    for name, array in constants.items():
        tensor = _header(name, array, None)
        if array.dtype != object:
            tensor.raw_data = b"".join(_raw(array))
        model.graph.initializer.append(tensor)
    return model


def _header(name: str, array: Array, place: Optional[Tuple[str, int]]) -> onnx.TensorProto:
    """The tensor with its strings, without its numbers; ``place``: the file that holds them, and the offset there."""
    if array.dtype not in ONNX_NUMBERS:
        raise ExportError(f"constant {name!r} is {array.dtype.name}, which ONNX's tensors do not hold")
    tensor = onnx.TensorProto(name=name, dims=array.shape, data_type=ONNX_NUMBERS[array.dtype])
    if array.dtype == object:
        tensor.string_data.extend(text if isinstance(text, bytes) else str(text).encode() for text in array.ravel())
    if place is not None:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        entries = {"location": place[0], "offset": str(place[1]), "length": str(array.nbytes)}
        tensor.external_data.extend(onnx.StringStringEntryProto(key=key, value=value) for key, value in entries.items())
    return tensor


def _raw(array: Array) -> List[Chunk]:
    """The numbers, little-endian."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return [little.reshape(-1).view(np.uint8).data] if _raw_nbytes(array) else []


def _raw_nbytes(array: Array) -> int:
    return 0 if array.dtype == object else array.nbytes


def _chunks(
    model: onnx.ModelProto, constants: Mapping[str, Array], places: Mapping[str, Tuple[str, int]]
) -> Iterator[Chunk]:
    """The model's bytes: everything except the graph, then the graph with its constants at the end."""
    rest = onnx.ModelProto()
    rest.CopyFrom(model)
    rest.ClearField("graph")
    headers = {name: _header(name, array, places.get(name)).SerializeToString() for name, array in constants.items()}
    raw_sizes = {name: 0 if name in places else _raw_nbytes(array) for name, array in constants.items()}
    fields = {name: len(header) + len(_raw_tag(raw_sizes[name])) + raw_sizes[name] for name, header in headers.items()}
    graph = model.graph.SerializeToString()
    total = len(graph) + sum(len(_tag(_GRAPH_INITIALIZER, size)) + size for size in fields.values())
    yield rest.SerializeToString()
    yield _tag(_MODEL_GRAPH, total)
    yield graph
    for name, header in headers.items():
        yield _tag(_GRAPH_INITIALIZER, fields[name])
        yield header
        if name not in places:
            yield _raw_tag(raw_sizes[name])
            yield from _raw(constants[name])


def _raw_tag(size: int) -> bytes:
    return _tag(_TENSOR_RAW_DATA, size) if size else b""


def _tag(field: int, length: int) -> bytes:
    """A field's number, its wire type and its length."""
    return encode_tag(field, BYTES) + encode_varint(length)


def _places(arrays: List[Tuple[str, Array]]) -> dict[str, int]:
    """The offset of each array in a file that holds them all."""
    places, end = {}, 0
    for name, array in arrays:
        places[name] = end
        end += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    return places


def _aligned(arrays: List[Tuple[str, Array]], places: Mapping[str, int]) -> Iterator[Chunk]:
    written = 0
    for name, array in arrays:
        yield bytes(places[name] - written)
        yield from _raw(array)
        written = places[name] + array.nbytes


def model_of(graph: onnx.GraphProto, opsets: Mapping[str, int]) -> onnx.ModelProto:
    """A model of the graph, with armnet as its producer."""
    from runtime_arm.version import VERSION

    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(
        graph,
        opset_imports=imports,
        producer_name="armnet",
        producer_version=VERSION,
        ir_version=helper.find_min_ir_version_for(imports, ignore_unknown=True),
    )
